"""Embeddings, pairs and labels from arrays and files. Nothing in a file is ever executed.

Pickles run code when they are read, so they are refused: by their name, and by the readers, which
are told to take arrays only. A large ``.npy`` file is mapped, not read.

A CSV does not say whether its first line holds names, nor a table which columns are coordinates.
The rules are stated here, what they decided is noted in a sentence for the report, and a column
that looks like an id or a label is refused until it is named.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import InputError, MissingPackageError, one_line
from .embeddings import (
    Unlabelled,
    check_columns,
    check_pair_rows,
    check_rows,
    code_labels,
    columns_called,
    name_columns,
)

#: Names of which the first that fits is taken where a file holds several arrays.
KEYS = ("embeddings", "embedding", "z", "features")
#: What the first line of a CSV of labels says if it is a name, in lower case.
LABEL_NAMES = ("label", "labels", "class", "classes", "target", "targets", "category", "y")
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_EXTRA = {"pandas": "companion", "pyarrow": "diagnose", "safetensors": "diagnose"}


@dataclass(frozen=True)
class ReadSettings:
    """How files are read where they can be read in several ways.

    Attributes:
        ignore: columns of the embeddings to leave out, by name or by number from 0: an id, a label.
        keep: columns that belong to the embeddings although they look like an id or a label.
        label_column: column of a table of embeddings that holds the labels.
        header: whether the first line of a CSV of embeddings holds names; ``None`` follows
            :func:`is_header`.
        labels_header: whether the first line of a CSV of labels is a name; ``None`` takes it for
            one if it is one of :data:`LABEL_NAMES` and there is one line more than rows.
        unlabelled: ``"error"``, or ``"alone"``: every row without a label is a class of its own.
    """

    ignore: tuple[str | int, ...] = ()
    keep: tuple[str | int, ...] = ()
    label_column: str | None = None
    header: bool | None = None
    labels_header: bool | None = None
    unlabelled: Unlabelled = "error"


@dataclass(frozen=True)
class Read:
    """What was read.

    Attributes:
        values: embeddings, shape ``(n, d)``; pairs, shape ``(p, 2)``; or codes, shape ``(n,)``.
        notes: what was taken for a header, left out or taken for granted, in sentences.
        labels: of ``label_column``, as they are written, shape ``(n,)``.
    """

    values: np.ndarray
    notes: tuple[str, ...]
    labels: np.ndarray | None = None


def read_embeddings(given: Any, reading: ReadSettings | None = None) -> Read:
    """Read a matrix of embeddings, one row per item.

    Args:
        given: array, tensor, pandas data frame, or the path of a ``.npy``, ``.npz``,
            ``.pt``/``.pth`` (tensors only), ``.safetensors``, ``.csv`` (with or without a header)
            or ``.parquet`` file (a column a coordinate, or one column of vectors). Of several
            arrays in a file the one named ``embeddings`` is taken (or ``embedding``, ``z``,
            ``features``).
        reading: columns to leave out or to keep, and the header; by default nothing is left out
            and everything doubtful is an error.

    Returns:
        Float16, float32 or float64 values, checked by
        :func:`weince_lib.diagnostics.embeddings.check_rows`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a pickle, another kind of file, several arrays without a known name, columns
            that are not numbers or look like an id or a label, and as ``check_rows``.
        ImportError: if the reader's package is missing, with the extra to install.
    """
    reading = reading or ReadSettings()
    name, notes, named = "embeddings", [], True
    if isinstance(given, str | Path):
        path = _known_file(given)
        name = path.name
        if path.suffix.lower() == ".csv":
            given, named, header = _embedding_csv(path, reading)
            notes.append(header)
        else:
            given = _content(path, KEYS)
    table = _is_frame(given)
    if table:
        columns = [str(column) for column in given.columns]
    else:
        z, named = check_rows(given, name), False
        columns = [str(k) for k in range(z.shape[1])]
        if reading.label_column is not None:
            raise ValueError(f"{name} is no table, so it has no column {reading.label_column!r}")
    out = columns_called(columns, reading.ignore, name)
    safe = columns_called(columns, reading.keep, name)
    labels = None
    if reading.label_column is not None:
        (at,) = columns_called(columns, [reading.label_column], name)
        labels = given.iloc[:, at].to_numpy(dtype=object)
        out = sorted({*out, at})
    left = [k for k in range(len(columns)) if k not in out]
    vectors = _vectors(given.iloc[:, left], name) if table else None
    if vectors is not None:
        z, note = vectors
        numbers = [str(k) for k in range(z.shape[1])]
        notes += [note, *check_columns(check_rows(z, name), numbers, name, named=None)]
        return Read(z, tuple(notes), labels)
    if out:
        notes.append(f"{name}: {name_columns(columns, out)} left out, as asked.")
    if table:
        z = _numbers(given.iloc[:, left], name)
    elif out:
        z = z[:, left]
    keep = [left.index(k) for k in safe if k in left]
    notes += check_columns(z, [columns[k] for k in left], name, keep=keep, named=named)
    return Read(check_rows(z, name) if table or out else z, tuple(notes), labels)


def read_pairs(given: Any, rows: int) -> Read:
    """Read positive pairs: two row numbers a line, counted from 0.

    Args:
        given: an array, or any kind of file that :func:`read_embeddings` reads. The first line of a
            CSV is a pair like any other unless no cell of it is a number.
        rows: number of embeddings.

    Returns:
        Values of shape ``(pairs, 2)``, int64.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`read_embeddings` and
            :func:`weince_lib.diagnostics.embeddings.check_pair_rows`.
    """
    name, notes = "pairs", []
    if isinstance(given, str | Path):
        path = _known_file(given)
        name = path.name
        if path.suffix.lower() == ".csv":
            first = [*_lines(path, 1), []][0]
            named = bool(first) and all(_number(cell) is None for cell in first)
            given = _csv(path, named)
            notes.append(_header(path, first, named))
        else:
            given = _content(path, ("pairs",))
    if _is_frame(given):
        given = _numbers(given, name, "give two row numbers a line, from 0")
    return Read(check_pair_rows(given, rows, name), tuple(notes))


def read_labels(given: Any, rows: int, reading: ReadSettings | None = None) -> Read:
    """Read one label a row as codes; rows with one label are no negatives of each other.

    A CSV is read as text, a line a row, blank lines included: ``1`` and ``01`` are two labels.

    Args:
        given: an array, or any kind of file that :func:`read_embeddings` reads; text is allowed.
        rows: number of embeddings.
        reading: whether a CSV has a header, and what to do with rows without a label.

    Returns:
        Codes from 0, shape ``(rows,)``, int64.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`read_embeddings` and
            :func:`weince_lib.diagnostics.embeddings.code_labels`, where what counts as no label is
            defined.
    """
    reading = reading or ReadSettings()
    notes = []
    if isinstance(given, str | Path):
        path = _known_file(given)
        if path.suffix.lower() == ".csv":
            given, header = _label_lines(path, rows, reading.labels_header)
            notes.append(header)
        else:
            given = _content(path, ("labels", "label", "y"))
        if _is_frame(given):
            given = _only_column(given, path.name)
    codes, missing = code_labels(given, rows, reading.unlabelled)
    if missing:
        notes.append(
            f"{missing:,} rows have no label; each is a class of its own, as asked, so all its "
            "pairs are negatives."
        )
    return Read(codes, tuple(notes))


def _known_file(given: str | Path) -> Path:
    path = Path(given)
    kind = path.suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    if kind in _PICKLES:
        raise ValueError(
            f"{path.name} is a pickle, which runs code when it is read: refused. Save the array "
            "with numpy.save or safetensors"
        )
    known = (*_READERS, ".csv")
    if kind not in known:
        raise ValueError(f"{path.name}: unknown kind of file; known: {', '.join(known)}")
    return path


def _content(path: Path, keys: tuple[str, ...]) -> Any:
    """What a file that is no CSV holds: an array, a tensor or a data frame."""
    with _one_line_of_errors(path):
        return _READERS[path.suffix.lower()](path, keys)


@contextlib.contextmanager
def _one_line_of_errors(path: Path) -> Iterator[None]:
    """What readers raise for a damaged file may be of any kind; it becomes one line."""
    try:
        yield
    except (InputError, MissingPackageError):
        raise
    except Exception as error:
        said = f"{type(error).__name__} {error}".lower()
        if "pickl" in said or "python objects" in said:
            raise InputError(
                f"{path.name} is a pickle or holds one, which runs code when it is read: refused. "
                "Save the matrix itself, as plain numbers"
            ) from error
        raise InputError(
            f"{path.name} cannot be read ({type(error).__name__}: {one_line(error)}); it is "
            "damaged or of another kind than its name says: save it anew"
        ) from error


def _numpy(path: Path, keys: tuple[str, ...]) -> Any:
    held = np.load(path, mmap_mode="r", allow_pickle=False)
    if isinstance(held, np.ndarray):
        return held
    with held:
        return held[_choose(held.files, keys, path.name)]


def _torch(path: Path, keys: tuple[str, ...]) -> Any:
    held = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(held, torch.Tensor):
        return held
    if not isinstance(held, dict):
        raise InputError(f"{path.name} holds a {type(held).__name__}; save the matrix itself")
    tensors = {str(k): v for k, v in held.items() if isinstance(v, torch.Tensor)}
    return tensors[_choose(list(tensors), keys, path.name)]


def _safetensors(path: Path, keys: tuple[str, ...]) -> Any:
    with _need("safetensors", path).safe_open(str(path), framework="pt") as held:
        return held.get_tensor(_choose(list(held.keys()), keys, path.name))


def _parquet(path: Path, keys: tuple[str, ...]) -> Any:
    _need("pyarrow", path)
    return _need("pandas", path).read_parquet(path)


_READERS: dict[str, Callable[[Path, tuple[str, ...]], Any]] = {
    ".npy": _numpy,
    ".npz": _numpy,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
}


def _choose(names: Sequence[str], keys: tuple[str, ...], file: str) -> str:
    if len(names) == 1:
        return names[0]
    for key in keys:
        if key in names:
            return key
    raise InputError(
        f"{file} holds {len(names)} arrays ({', '.join(names[:6])}); "
        f"name the one to use {keys[0]!r}"
    )


def _need(package: str, path: Path) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"reading {path.name} needs {package}: pip install 'weince-lib[{_EXTRA[package]}]'"
        ) from error


def _is_frame(given: Any) -> bool:
    return hasattr(given, "columns") and hasattr(given, "to_numpy")


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first line of a CSV of embeddings holds names.

    It does if one of its cells is a word above a number, or if its numbers are 0, 1, 2, ... or
    1, 2, 3, ..., written as whole numbers, above numbers of which one is written as a fraction.
    """
    above = list(zip(first, second, strict=False))
    if any(_number(a) is None and _number(b) is not None for a, b in above):
        return True
    numbers = [(a.strip(), b) for a, b in above if _number(a) is not None]
    counted = [a for a, _ in numbers]
    starts = (range(k, k + len(numbers)) for k in (0, 1))
    return (
        len(numbers) > 1
        and any(counted == [str(k) for k in start] for start in starts)
        and not all(b.strip().lstrip("+-").isdecimal() for _, b in numbers)
    )


def _embedding_csv(path: Path, reading: ReadSettings) -> tuple[Any, bool, str]:
    """A CSV of embeddings as a data frame, whether it has a header, and a note on that."""
    first, second = (*_lines(path, 2), [], [])[:2]
    named = is_header(first, second) if reading.header is None else reading.header
    if named and len(second) > len(first):
        raise ValueError(f"{path.name}: its lines have more cells than its first line has names")
    options: dict[str, Any] = {"skip_blank_lines": False, "low_memory": False}
    frame = _csv(path, named, **options)
    columns = [str(column) for column in frame.columns]
    if reading.label_column is not None:  # as text: 1 and 01 are two labels
        (at,) = columns_called(columns, [reading.label_column], path.name)
        text = _csv(path, named, usecols=[at], dtype=str, na_filter=False, **options)
        frame[frame.columns[at]] = text.iloc[:, 0].astype(object)
    blank = frame.isna().all(axis=1).to_numpy()
    if len(first) > 1 and blank.any():
        raise ValueError(
            f"{path.name}: line {int(np.argmax(blank)) + 1 + named} is blank; drop it, and "
            "with it the label or pairs of its row"
        )
    return frame, named, _header(path, first, named)


def _label_lines(path: Path, rows: int, header: bool | None) -> tuple[list[str], str]:
    """The labels of a CSV as text, one a line, and a note on the header.

    A blank line is a row without a label.

    Raises:
        ValueError: if the lines do not fit the rows, a line holds several cells, or it is not clear
            whether the first line is a header.
    """
    lines = _lines(path, None)
    for k, line in enumerate(lines):
        if len(line) > 1:
            raise ValueError(
                f"{path.name}: line {k + 1} has {len(line)} cells; one label a line is needed (put "
                "a label that holds a comma in quotes)"
            )
    labels = [line[0] if line else "" for line in lines]
    called = bool(labels) and labels[0].strip().lower() in LABEL_NAMES
    if header is None and called and len(labels) == rows and labels.count(labels[0]) == 1:
        raise ValueError(
            f"{path.name}: the first line, {labels[0]!r}, looks like a header, but then there are "
            f"{rows - 1} labels for {rows} rows; add the missing one, or say that it is a label "
            "(--no-labels-header, or labels_header=False)"
        )
    named = (called and len(labels) == rows + 1) if header is None else header
    found = labels[1:] if named else labels
    if len(found) != rows:
        blank = [k + 1 for k, label in enumerate(labels) if not label.strip()]
        hint = ""
        if blank:
            hint = (
                f"line {blank[0]} is blank" if len(blank) == 1 else f"lines {blank[:4]} are blank"
            )
            hint = f"; {hint}"
        if not named and len(labels) == rows + 1:
            hint += (
                f"; if the first line, {labels[0]!r}, is a header, say so (--labels-header, or "
                "labels_header=True)"
            )
        raise ValueError(
            f"{path.name} has {len(found)} labels for {rows} rows, one a row is needed{hint}"
        )
    return found, _header(path, labels[:1], named)


def _csv(path: Path, named: bool, **options: Any) -> Any:
    pandas = _need("pandas", path)
    with _one_line_of_errors(path):
        return pandas.read_csv(path, header=0 if named else None, encoding="utf-8-sig", **options)


def _lines(path: Path, most: int | None) -> list[list[str]]:
    with _one_line_of_errors(path), path.open(newline="", encoding="utf-8-sig") as file:
        return list(itertools.islice(csv.reader(file), most))


def _header(path: Path, first: Sequence[str], named: bool) -> str:
    shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
    if named:
        return f"{path.name}: the first line ({shown}) was taken for a header."
    return f"{path.name}: no line was taken for a header, the first ({shown:.60}) holds data."


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _only_column(frame: Any, name: str) -> np.ndarray:
    if frame.shape[1] != 1:
        raise ValueError(
            f"{name} has {frame.shape[1]} columns ({', '.join(map(str, frame.columns[:6]))}); "
            "save the labels alone"
        )
    return np.asarray(frame.iloc[:, 0].to_numpy(dtype=object))


def _vectors(frame: Any, name: str) -> tuple[np.ndarray, str] | None:
    """The embeddings of a table with a column of vectors, and a note on the columns not used.

    ``None`` if it has no such column.

    Raises:
        ValueError: if the vectors are missing, differ in length, or are not numbers.
    """
    held = [column for column, values in frame.items() if _holds_vectors(values)]
    if not held:
        return None
    chosen = held[0] if len(held) == 1 else next((key for key in KEYS if key in held), None)
    if chosen is None:
        raise ValueError(
            f"{name} has several columns of vectors ({', '.join(map(str, held[:6]))}); leave all "
            f"but one out (--ignore-column), or name the one to use {KEYS[0]!r}"
        )
    rows: list[np.ndarray] = []
    for row, cell in enumerate(frame[chosen]):
        vector = None if cell is None or isinstance(cell, float) else np.asarray(cell)
        if vector is None or vector.ndim != 1 or vector.dtype.kind not in "fiu":
            what = "no vector" if vector is None else "no flat vector of numbers"
            raise ValueError(f"{name}: column {chosen!r} holds {what} in row {row}")
        if rows and len(vector) != len(rows[0]):
            raise ValueError(
                f"{name}: column {chosen!r} holds {len(vector)} numbers in row {row} and "
                f"{len(rows[0])} in row 0"
            )
        rows.append(vector)
    others = [str(column) for column in frame.columns if column != chosen]
    note = f"{name}: column {chosen!r} holds the vectors"
    if others:
        note += f"; not used: {', '.join(others[:6])}{', ...' if len(others) > 6 else ''}"
    return np.stack(rows), f"{note}."


def _holds_vectors(column: Any) -> bool:
    if column.dtype.kind != "O":
        return False
    cell = next((cell for cell in column if cell is not None), None)
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes | dict)


def _numbers(frame: Any, name: str, advice: str = "") -> np.ndarray:
    """The columns of a table as a matrix.

    Args:
        frame: the table.
        name: what errors call it.
        advice: what to do about a column that does not hold numbers; by default leave it out.

    Raises:
        ValueError: for a column that does not hold numbers, and a first column without a name.
    """
    if len(frame.columns) and str(frame.columns[0]).startswith("Unnamed"):
        raise ValueError(
            f"{name}: the first column has no name, so it is a saved index and no part of the "
            "embedding; save the table with index=False"
        )
    for column, values in frame.items():  # names may occur twice
        if values.dtype.kind not in "fiu":
            advice = advice or (
                f"keep the embedding's columns, or leave it out (--ignore-column {column}, or "
                f"ReadSettings(ignore=({str(column)!r},)))"
            )
            alone = len(frame.columns) == 1
            raise ValueError(f"{name}: {_what_is_wrong(column, values, alone, advice)}")
        if len(values) and values.isna().all():
            raise ValueError(f"{name}: column {column!r} is empty; leave it out")
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
    if dtype.kind != "f" and frame.isna().to_numpy().any():
        dtype = np.dtype(np.float64)
    missing = {"na_value": math.nan} if dtype.kind == "f" else {}
    return np.asarray(frame.to_numpy(dtype=dtype, **missing))


def _what_is_wrong(column: Any, values: Any, alone: bool, advice: str) -> str:
    """Why a column cannot be read as numbers, and what to do."""
    texts = [cell for cell in values if isinstance(cell, str)]
    vector = next((cell for cell in texts[:2] if cell.lstrip()[:1] in ("[", "(")), None)
    if vector is not None:
        return (
            f"column {column!r} holds vectors written as text ({vector[:30]!r}...); save one "
            "number a column, a column of lists as Parquet, or a matrix with numpy.save"
        )
    line = texts[:2][-1] if texts else ""
    if alone and any(mark in line.strip() for mark in (";", "\t", " ")):
        return f"a line is {line[:40]!r}; separate the numbers by commas"
    odd = next((cell for cell in texts if _number(cell) is None), "")
    holds = f", it holds {odd[:30]!r}" if odd else ""
    return f"column {column!r} is not numeric{holds}; {advice}"
