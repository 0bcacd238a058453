"""Embeddings, pairs and labels from files; nothing in a file is ever executed.

Pickles run code when they are read, so they are refused: by their name, and by the readers, which
are told to take arrays only. A large ``.npy`` file is mapped, not read.

What a table holds is never guessed silently (:mod:`.tables`): what was taken for a header is noted,
and a column that looks like an id or a label is refused until it is named.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import MissingPackageError, one_line
from . import tables
from .embedding_checks import (
    Unlabelled,
    check_pair_rows,
    check_rows,
    choose_columns,
    code_labels,
    columns_called,
)
from .tables import need

#: Key that is taken where a file holds several arrays.
KEYS = ("embeddings", "embedding", "z", "features")
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class ReadSettings:
    """How files are read where they can be read in several ways.

    Attributes:
        ignore: columns of the embeddings to leave out, by name or by number from 0: an id, a label.
        keep: columns that belong to the embeddings although they look like an id or a label.
        label_column: column of a table of embeddings that holds the labels.
        header: whether the first line of a CSV of embeddings holds names; ``None`` follows
            :func:`weince_lib.diagnostics.tables.is_header`.
        labels_header: whether the first line of a CSV of labels is a name; ``None`` follows
            :func:`weince_lib.diagnostics.tables.read_label_lines`.
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


def load_embeddings(path: str | Path, reading: ReadSettings | None = None) -> np.ndarray:
    """Read a matrix of embeddings, one row per item.

    Args:
        path: ``.npy``, ``.npz``, ``.pt``/``.pth`` (tensors only), ``.safetensors``, ``.csv`` (with
            or without a header) or ``.parquet`` (a column a coordinate, or one column of vectors).
            Of several arrays in a file the one named ``embeddings`` is taken (or ``embedding``,
            ``z``, ``features``).
        reading: columns to leave out or to keep, and the header.

    Returns:
        Shape ``(rows, d)``, float16, float32 or float64; checked by :func:`check_rows`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a pickle, another kind of file, several arrays without a known name, columns
            that are not numbers or look like an id or a label, and as :func:`check_rows`.
        ImportError: if the reader's package is missing, with the extra to install.
    """
    return read_embeddings(Path(path), reading).values


def read_embeddings(given: Any, reading: ReadSettings | None = None) -> Read:
    """Embeddings of a file or an array, checked, with notes on what was taken for granted.

    Args:
        given: as :func:`load_embeddings`, or an array, tensor or pandas data frame.
        reading: as :func:`load_embeddings`.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`load_embeddings`.
    """
    reading = reading or ReadSettings()
    name, table = "embeddings", None
    if isinstance(given, str | Path):
        path = Path(given)
        name = path.name
        _check_path(path)
        if path.suffix.lower() in _TABLES:
            table = tables.read_table(path, reading.header, reading.label_column)
        else:
            given = _read(path, KEYS)
    elif hasattr(given, "columns") and hasattr(given, "to_numpy"):
        table = tables.Table(given, "", True)
    if table is None:
        if reading.label_column is not None:
            raise ValueError(f"{name} is no table, so it has no column {reading.label_column!r}")
        z = check_rows(given, name)
        numbers = [str(k) for k in range(z.shape[1])]
        z, notes = choose_columns(
            z, numbers, name, ignore=reading.ignore, keep=reading.keep, named=False
        )
        return Read(check_rows(z, name) if reading.ignore else z, notes)
    columns = [str(column) for column in table.frame.columns]
    labels, out = None, list(reading.ignore)
    if reading.label_column is not None:
        (at,) = columns_called(columns, [reading.label_column], name)
        labels = table.frame.iloc[:, at].to_numpy(dtype=object)
        out.append(columns[at])
    for column in reading.keep:  # a name that is not there is an error with vectors too
        columns_called(columns, [column], name)
    gone = columns_called(columns, out, name)
    frame = table.frame.iloc[:, [k for k in range(len(columns)) if k not in gone]]
    first = (f"{name}: {table.header}.",) if table.header else ()
    vectors = tables.vectors(frame, name, KEYS)
    if vectors is not None:
        values, note = vectors
        z, notes = choose_columns(
            check_rows(values, name), [str(k) for k in range(values.shape[1])], name, named=None
        )
        return Read(z, (*note, *notes), labels)
    values = tables.numbers(frame, name)
    kept = [str(column) for column in frame.columns]
    safe = [columns[k] for k in columns_called(columns, reading.keep, name)]
    z, notes = choose_columns(values, kept, name, keep=safe, named=table.named)
    if gone:
        shown = ", ".join(repr(columns[k]) for k in sorted(gone))
        notes = (
            f"{name}: column{'s' if len(gone) > 1 else ''} {shown} left out, as asked.",
            *notes,
        )
    return Read(check_rows(z, name), first + notes, labels)


def load_pairs(path: str | Path, rows: int) -> np.ndarray:
    """Read positive pairs: two row numbers a line, counted from 0.

    Args:
        path: any kind of file that :func:`load_embeddings` reads. The first line of a CSV is a pair
            like any other unless it holds words.
        rows: number of embeddings.

    Returns:
        Shape ``(pairs, 2)``, int64; checked by :func:`check_pair_rows`.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`load_embeddings` and
            :func:`check_pair_rows`.
    """
    return read_pairs(Path(path), rows).values


def read_pairs(given: Any, rows: int) -> Read:
    """Pairs of a file or an array, checked, with a note on the header; see :func:`load_pairs`."""
    if not isinstance(given, str | Path):
        return Read(check_pair_rows(given, rows), ())
    path = Path(given)
    _check_path(path)
    if path.suffix.lower() not in _TABLES:
        return Read(check_pair_rows(_read(path, ("pairs",)), rows, path.name), ())
    table = tables.read_pair_table(path)
    numbers = tables.numbers(table.frame, path.name, "give two row numbers a line, from 0")
    return Read(
        check_pair_rows(numbers, rows, path.name),
        (f"{path.name}: {table.header}.",) if table.header else (),
    )


def load_labels(path: str | Path, rows: int, reading: ReadSettings | None = None) -> np.ndarray:
    """Read one label a row; rows with the same label are no negatives of each other.

    A CSV is read as text, a line a row, blank lines included: ``1`` and ``01`` are two labels.

    Args:
        path: any kind of file that :func:`load_embeddings` reads; text labels are allowed.
        rows: number of embeddings.
        reading: whether a CSV has a header, and what to do with rows without a label.

    Returns:
        Codes from 0, shape ``(rows,)``, int64.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`load_embeddings` and
            :func:`weince_lib.diagnostics.embedding_checks.code_labels`, where what counts as no
            label is defined.
    """
    return read_labels(Path(path), rows, reading).values


def read_labels(given: Any, rows: int, reading: ReadSettings | None = None) -> Read:
    """Labels of a file or an array as codes, with notes; see :func:`load_labels`."""
    reading = reading or ReadSettings()
    notes: list[str] = []
    if isinstance(given, str | Path):
        path = Path(given)
        _check_path(path)
        if path.suffix.lower() == ".csv":
            given, header = tables.read_label_lines(path, rows, reading.labels_header)
            notes.append(f"{path.name}: {header}.")
        elif path.suffix.lower() == ".parquet":
            given = tables.only_column(path)
        else:
            given = _read(path, ("labels", "label", "y"))
    codes, missing = code_labels(given, rows, reading.unlabelled)
    if missing:
        notes.append(
            f"{missing:,} rows have no label; each is a class of its own, as asked, so all its "
            "pairs are negatives."
        )
    return Read(codes, tuple(notes))


def _check_path(path: Path) -> None:
    kind = path.suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    if kind in _PICKLES:
        raise ValueError(
            f"{path.name} is a pickle, which runs code when it is read: refused. Save the array "
            "with numpy.save or safetensors"
        )
    known = (*_READERS, *_TABLES)
    if kind not in known:
        raise ValueError(f"{path.name}: unknown kind of file; known: {', '.join(known)}")


def _read(path: Path, keys: tuple[str, ...]) -> Any:
    try:
        return _READERS[path.suffix.lower()](path, keys)
    except (ValueError, MissingPackageError):
        raise
    except Exception as error:  # what a reader raises for a damaged file may be of any kind
        raise ValueError(
            f"{path.name} cannot be read ({type(error).__name__}: {one_line(error)}); it is "
            "damaged or of another kind than its name says: save it anew"
        ) from error


def _numpy(path: Path, keys: tuple[str, ...]) -> Any:
    with path.open("rb") as file:
        magic = file.read(6)
    expected = b"\x93NUMPY" if path.suffix.lower() == ".npy" else b"PK"
    if not magic.startswith(expected):
        raise ValueError(
            f"{path.name} is not a NumPy file; a pickle is refused, as reading it would run code. "
            "Save the array with numpy.save"
        )
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with np.load(path, allow_pickle=False) as held:
            name = _choose(list(held.files), keys, path.name)
            return held[name]
    except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        # NumPy's words for pickled content.
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise ValueError(
                f"{path.name} holds Python objects, a pickle, which runs code when it is read: "
                "refused. Save a plain numeric array"
            ) from None
        raise ValueError(
            f"{path.name} cannot be read ({one_line(error)}); it is damaged: save it anew with "
            "numpy.save"
        ) from error


def _torch(path: Path, keys: tuple[str, ...]) -> Any:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what is no file of tensors
        raise ValueError(
            f"{path.name} is not a file of plain tensors (weights only), so it was refused and not "
            "executed; save the matrix itself with torch.save(tensor, path)"
        ) from error
    if isinstance(held, torch.Tensor):
        return held
    if not isinstance(held, dict):
        raise ValueError(f"{path.name} holds a {type(held).__name__}; save the matrix itself")
    tensors = {str(k): v for k, v in held.items() if isinstance(v, torch.Tensor)}
    return tensors[_choose(list(tensors), keys, path.name)]


def _safetensors(path: Path, keys: tuple[str, ...]) -> Any:
    safetensors = need("safetensors", path)
    try:
        with safetensors.safe_open(str(path), framework="pt") as held:
            return held.get_tensor(_choose(list(held.keys()), keys, path.name))
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _choose(names: list[str], keys: tuple[str, ...], file: str) -> str:
    if len(names) == 1:
        return names[0]
    for key in keys:
        if key in names:
            return key
    raise ValueError(
        f"{file} holds {len(names)} arrays ({', '.join(names[:6])}); "
        f"name the one to use {keys[0]!r}"
    )


_READERS: dict[str, Callable[[Path, tuple[str, ...]], Any]] = {
    ".npy": _numpy,
    ".npz": _numpy,
    ".pt": _torch,
    ".pth": _torch,
    ".safetensors": _safetensors,
}
