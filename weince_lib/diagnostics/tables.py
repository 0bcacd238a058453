"""Tables of embeddings, pairs and labels: CSV and Parquet.

A CSV does not say whether its first line holds names, nor a table which columns are coordinates.
The rules are stated here, and what they decided is returned as a sentence for the report.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingPackageError

#: What the first line of a CSV of labels says if it is a name, in lower case.
LABEL_NAMES = ("label", "labels", "class", "classes", "target", "targets", "category", "y")
#: Rows looked at in one go, so that a file larger than memory can be checked.
_CHUNK = 65_536
#: Names of columns that are no part of an embedding, in lower case.
NOT_EMBEDDING = ("id", "ids", "idx", "index", "label", "labels", "class", "target", "split")
_EXTRA = {"pandas": "companion", "pyarrow": "diagnose", "safetensors": "diagnose"}


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Attributes:
        frame: a pandas data frame.
        header: what was taken for a header, in a clause; empty where there is no doubt.
        named: whether the columns have names of their own.
    """

    frame: Any
    header: str
    named: bool


def need(package: str, path: Path) -> Any:
    """Import a package that reads a file, or say which extra installs it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"reading {path.name} needs {package}: pip install 'weince-lib[{_EXTRA[package]}]'"
        ) from error


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first line of a CSV of embeddings holds names.

    It does if one of its cells is a word above a number, or if its numbers are 0, 1, 2, ... or
    1, 2, 3, ..., written as whole numbers, above numbers of which one is written as a fraction.
    """
    if any(
        _number(a) is None and _number(b) is not None for a, b in zip(first, second, strict=False)
    ):
        return True
    numbers = [
        (a.strip(), b) for a, b in zip(first, second, strict=False) if _number(a) is not None
    ]
    counted = [a for a, _ in numbers]
    starts = (range(k, k + len(numbers)) for k in (0, 1))
    return (
        len(numbers) > 1
        and any(counted == [str(k) for k in start] for start in starts)
        and not all(b.strip().lstrip("+-").isdecimal() for _, b in numbers)
    )


def read_table(path: Path, header: bool | None = None, label_column: str | None = None) -> Table:
    """Read a CSV or a Parquet file of embeddings.

    Args:
        path: its ending says which.
        header: whether the first line of a CSV holds names; ``None`` follows :func:`is_header`.
        label_column: column of a CSV that is read as text.

    Raises:
        ValueError: for a file that cannot be read, a blank line, and lines longer than the header.
        ImportError: without pandas or pyarrow.
    """
    if path.suffix.lower() == ".parquet":
        return _parquet(path)
    pandas = need("pandas", path)
    first, second = (*_lines(path, 2), [], [])[:2]
    named = is_header(first, second) if header is None else header
    reading = {
        "header": 0 if named else None,
        "skip_blank_lines": False,
        "encoding": "utf-8-sig",
    }
    try:
        frame = pandas.read_csv(path, low_memory=False, **reading)
        if label_column is not None:
            columns = [str(column) for column in frame.columns]
            (at,) = columns_called(columns, [label_column], path.name)
            text = pandas.read_csv(path, usecols=[at], dtype=str, na_filter=False, **reading)
            frame[frame.columns[at]] = text.iloc[:, 0].astype(object)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(frame.index, pandas.RangeIndex):
        raise ValueError(f"{path.name}: its lines have more cells than its first line has names")
    if len(frame) and len(first) > 1:
        blank = frame.isna().all(axis=1).to_numpy()
        if blank.any():
            raise ValueError(
                f"{path.name}: line {int(np.argmax(blank)) + 1 + named} is blank; drop it, and "
                "with it the label or pairs of its row"
            )
    return Table(frame, _header(first, named), named)


def read_pair_table(path: Path) -> Table:
    """Read a CSV or a Parquet file of pairs.

    The first line of a CSV is a header only if no cell of it is a number.
    """
    if path.suffix.lower() == ".parquet":
        return _parquet(path)
    pandas = need("pandas", path)
    first = ([*_lines(path, 1), []])[0]
    named = bool(first) and all(_number(cell) is None for cell in first)
    try:
        frame = pandas.read_csv(path, header=0 if named else None, encoding="utf-8-sig")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    return Table(frame, _header(first, named), named)


def read_label_lines(path: Path, rows: int, header: bool | None = None) -> tuple[list[str], str]:
    """Read a CSV of labels as text, one a line; a blank line is a row without a label.

    The first line is a header if ``header`` says so. Otherwise it is one if there is one line more
    than rows and it is one of :data:`LABEL_NAMES`.

    Returns:
        The labels, and what was taken for a header, as a sentence without its full stop.

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
        hints = [f"line {blank[0]} is blank" if len(blank) == 1 else f"lines {blank[:4]} are blank"]
        hints = hints if blank else []
        if not named and len(labels) == rows + 1:
            hints.append(
                f"if the first line, {labels[0]!r}, is a header, say so (--labels-header, or "
                "labels_header=True)"
            )
        raise ValueError(
            f"{path.name} has {len(found)} labels for {rows} rows, one a row is needed"
            + "".join(f"; {hint}" for hint in hints)
        )
    return found, _header(labels[:1], named)


def only_column(path: Path) -> np.ndarray:
    """The one column of a Parquet file of labels."""
    frame = _parquet(path).frame
    if frame.shape[1] != 1:
        raise ValueError(
            f"{path.name} has {frame.shape[1]} columns ({', '.join(map(str, frame.columns[:6]))}); "
            "save the labels alone"
        )
    return np.asarray(frame.iloc[:, 0].to_numpy(dtype=object))


def vectors(
    frame: Any, name: str, keys: Sequence[str]
) -> tuple[np.ndarray, tuple[str, ...]] | None:
    """The embeddings of a table with a column of vectors; ``None`` if it has no such column.

    Args:
        frame: the table.
        name: what errors call it.
        keys: names of which the first that fits is taken where several columns hold vectors.

    Returns:
        Shape ``(n, d)``, and a note on the columns that were not used.

    Raises:
        ValueError: if the vectors are missing, differ in length, or are not numbers.
    """
    held = [column for column, values in frame.items() if _holds_vectors(values)]
    if not held:
        return None
    chosen = held[0] if len(held) == 1 else next((key for key in keys if key in held), None)
    if chosen is None:
        raise ValueError(
            f"{name} has several columns of vectors ({', '.join(map(str, held[:6]))}); leave all "
            f"but one out (--ignore-column), or name the one to use {keys[0]!r}"
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
    return np.stack(rows), (note + ".",)


def numbers(frame: Any, name: str, mend: str = "") -> np.ndarray:
    """The columns of a table as a matrix.

    Args:
        frame: the table.
        name: what errors call it.
        mend: what to do about a column that does not hold numbers; by default leave it out.

    Raises:
        ValueError: for a column that does not hold numbers, and a first column without a name.
    """
    if len(frame.columns) and str(frame.columns[0]).startswith("Unnamed"):
        raise ValueError(
            f"{name}: the first column has no name, so it is a saved index and no part of the "
            "embedding; save the table with index=False"
        )
    for column, values in frame.items():  # names may occur twice
        if values.dtype.kind in "fiu":
            if len(values) and values.isna().all():
                raise ValueError(f"{name}: column {column!r} is empty; leave it out")
            continue
        texts = [cell for cell in values if isinstance(cell, str)][:2]
        text = next((cell for cell in texts if cell.lstrip()[:1] in ("[", "(")), "")
        if text:
            raise ValueError(
                f"{name}: column {column!r} holds vectors written as text ({text[:30]!r}...); save "
                "one number a column, a column of lists as Parquet, or a matrix with numpy.save"
            )
        text = texts[-1] if texts else ""
        if len(frame.columns) == 1 and any(mark in text.strip() for mark in ("; ", ";", "\t", " ")):
            raise ValueError(f"{name}: a line is {text[:40]!r}; separate the numbers by commas")
        odd = next((c for c in values if isinstance(c, str) and _number(c) is None), "")
        raise ValueError(
            f"{name}: column {column!r} is not numeric"
            + (f", it holds {odd[:30]!r}; " if odd else "; ")
            + (
                mend
                or f"keep the embedding's columns, or leave it out (--ignore-column {column}, or "
                f"ReadSettings(ignore=({str(column)!r},)))"
            )
        )
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.float64)
    if dtype.kind == "f" or frame.isna().to_numpy().any():
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
        return np.asarray(frame.to_numpy(dtype=dtype, na_value=math.nan))
    return np.asarray(frame.to_numpy(dtype=dtype))


def whole_columns(z: np.ndarray) -> tuple[np.ndarray, bool]:
    """Columns that hold whole numbers only, and not only 0.

    Returns:
        Their numbers, and whether some other column holds a fraction.
    """
    whole = np.arange(z.shape[1])
    filled = np.zeros(z.shape[1], dtype=bool)
    for start in range(0, len(z), _CHUNK):
        part = np.asarray(z[start : start + _CHUNK])[:, whole]
        with np.errstate(invalid="ignore"):
            kept = (np.trunc(part) == part).all(axis=0)
        filled[whole] |= (part != 0).any(axis=0)
        whole = whole[kept]
        if not whole.size:
            break
    return whole[filled[whole]], whole.size < z.shape[1]


def choose_columns(
    z: np.ndarray,
    columns: Sequence[str],
    name: str,
    *,
    ignore: Sequence[str | int] = (),
    keep: Sequence[str | int] = (),
    named: bool | None = True,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Leave columns out that are no part of the embedding, and refuse those that look like it.

    Args:
        z: shape ``(n, d)``, numeric.
        columns: their names.
        name: what the error calls the embeddings.
        ignore: columns to leave out, by name or number.
        keep: columns that are part of the embedding however they look.
        named: whether the names were given and may be judged; ``None`` for coordinates of
            vectors, which cannot be named.

    Returns:
        The columns left, and notes on what was taken for granted.

    Raises:
        ValueError: for a column in ``ignore`` or ``keep`` that is not there, and for columns
            that are neither ignored nor kept and are called like an id or a label, or hold whole
            numbers where others hold fractions.
    """
    out, safe = (columns_called(columns, given, name) for given in (ignore, keep))
    left = [k for k in range(len(columns)) if k not in out]
    if not left:
        raise ValueError(f"{name}: no column is left; ignore fewer")
    notes = []
    if out:
        notes.append(f"{name}: {name_columns(columns, sorted(out))} left out, as asked.")
        z = z[:, left]
    if named:
        called = [k for k in left if columns[k].strip().lower() in NOT_EMBEDDING and k not in safe]
        if called:
            raise ValueError(
                f"{name}: {name_columns(columns, called)} seems to be no part of the embedding; "
                + _ways(columns[called[0]])
            )
    found, fractions = whole_columns(z)
    whole = [left[k] for k in found if left[k] not in safe]
    if whole and fractions:
        raise ValueError(
            f"{name}: {name_columns(columns, whole)} holds whole numbers where other columns hold "
            "fractions, as an id, label or index does; "
            + ("leave it out of the vectors" if named is None else _ways(columns[whole[0]]))
        )
    if not fractions:
        notes.append(
            f"{name}: all entries are whole numbers; they were taken as coordinates, not as codes."
        )
    return z, tuple(notes)


def columns_called(columns: Sequence[str], given: Sequence[str | int], name: str) -> set[int]:
    """Positions of columns given by name or, where no name fits, by number from 0."""
    found = set()
    for column in given:
        text = str(column)
        if text in columns:
            found.add(list(columns).index(text))
        elif text.isdecimal() and int(text) < len(columns):
            found.add(int(text))
        else:
            some = ", ".join(columns[:6]) + (", ..." if len(columns) > 6 else "")
            raise ValueError(f"{name} has no column {text!r}; its columns: {some}")
    return found


def name_columns(columns: Sequence[str], which: Sequence[int]) -> str:
    """Some columns in words, the first six by name."""
    shown = ", ".join(repr(columns[k]) for k in which[:6])
    return f"column{'s' if len(which) > 1 else ''} {shown}" + (", ..." if len(which) > 6 else "")


def _ways(column: str) -> str:
    return (
        f"leave it out (--ignore-column {column}, or ReadSettings(ignore=({column!r},))) or say "
        f"that it belongs to the embedding (--keep-column {column}, or keep=...)"
    )


def _parquet(path: Path) -> Table:
    pandas = need("pandas", path)
    need("pyarrow", path)
    try:
        frame = pandas.read_parquet(path)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    return Table(frame, "", True)


def _lines(path: Path, most: int | None) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(itertools.islice(csv.reader(file), most))
    except (csv.Error, ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _header(first: Sequence[str], named: bool) -> str:
    shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
    if named:
        return f"the first line ({shown}) was taken for a header"
    return f"no line was taken for a header, the first ({shown:.60}) holds data"


def _holds_vectors(column: Any) -> bool:
    if column.dtype.kind != "O":
        return False
    cell = next((cell for cell in column if cell is not None), None)
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes | dict)
