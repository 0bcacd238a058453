"""Embeddings, pairs and labels that can be used, or one clear error that says why not.

They come as arrays or from files. Nothing in a file is ever executed.

Pickles run code when they are read, so they are refused: by their name, and by the readers, which
are told to take arrays only. A large ``.npy`` file is mapped, not read.

What a table holds is never guessed silently (:mod:`.tables`): what was taken for a header is noted,
and a column that looks like an id or a label is refused until it is named.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..errors import MissingPackageError, one_line
from ..losses.arguments import ZERO_NORM, check_kind, describe_short
from . import tables
from .tables import choose_columns, columns_called, name_columns, need

#: Key that is taken where a file holds several arrays.
KEYS = ("embeddings", "embedding", "z", "features")
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_TABLES = (".csv", ".parquet")
#: Rows looked at in one go, so that a file larger than memory can be checked.
_CHUNK = 65_536
#: What stands for a missing label in text, in lower case and without blanks around it.
MISSING = ("", "na", "n/a", "nan", "none", "null", "<na>")
#: What to do with rows without a label: refuse them, or make each a class of its own.
Unlabelled = Literal["error", "alone"]


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
        notes = (f"{name}: {name_columns(columns, sorted(gone))} left out, as asked.", *notes)
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
            :func:`code_labels`, where what counts as no label is defined.
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


def check_rows(embeddings: Any, name: str = "embeddings", least: int = 2) -> np.ndarray:
    """Return embeddings as a floating-point matrix whose rows all have a direction.

    Args:
        embeddings: array or tensor, shape ``(rows, d)``.
        name: what the error calls them.
        least: fewest rows.

    Raises:
        ValueError: unless the array is a numeric matrix with enough rows, all of them finite and
            not zero (the first bad row is named), and not all pointing the same way. Integers of
            8 bits and unsigned ones are refused, as they may be bit-packed codes.
    """
    if isinstance(embeddings, torch.Tensor):
        dense = embeddings.layout == torch.strided and not embeddings.is_quantized
        if embeddings.is_floating_point() or not dense:
            check_kind(embeddings, name)
        embeddings = embeddings.detach().cpu()
        if embeddings.dtype == torch.bfloat16:
            embeddings = embeddings.float()
        embeddings = embeddings.numpy()
    z = np.asanyarray(embeddings)
    if z.ndim != 2:
        raise ValueError(f"{name} must be 2-D, one row per item, got shape {z.shape}")
    if z.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got dtype {z.dtype}")
    if z.dtype.kind == "u" or z.dtype == np.int8:
        raise ValueError(
            f"{name} has dtype {z.dtype}, as bit-packed codes have, whose cosine means nothing: "
            "unpack codes with numpy.unpackbits(z.view('uint8'), axis=1) and convert 0 and 1 to -1 "
            "and 1, or, if the numbers are meant as they are, convert with z.astype('float32')"
        )
    if z.shape[0] < least or z.shape[1] < 2:
        raise ValueError(
            f"{name}: {z.shape[0]} rows of {z.shape[1]} columns; at least {least} rows and 2 "
            "columns are needed"
        )
    if z.dtype.kind in "iu" or z.dtype.itemsize > 8:
        z = z.astype(np.float64)
    first, same = np.asarray(z[0], dtype=np.float64), True
    for start in range(0, z.shape[0], _CHUNK):
        part = np.asarray(z[start : start + _CHUNK])
        _check_part(part, start, name)
        if same:
            few = part[:4096].astype(np.float64)
            cosine = few @ first / (np.linalg.norm(few, axis=1) * np.linalg.norm(first))
            same = bool((cosine > 1.0 - 1e-9).all()) and (
                len(part) <= 4096 or bool(np.allclose(part[4096:], first))
            )
    if same:
        raise ValueError(
            f"{name}: all {z.shape[0]} rows point the same way, so there is no tail to look at; "
            "has the encoder collapsed, or the wrong array been saved?"
        )
    return z


def check_pair_rows(pairs: Any, rows: int, name: str = "pairs") -> np.ndarray:
    """Return positive pairs as int64 row numbers, shape ``(pairs, 2)``.

    Raises:
        ValueError: for another shape, numbers that are not whole, rows out of range (the first
            such pair is named), and a row paired with itself.
    """
    array = np.asarray(pairs.cpu() if isinstance(pairs, torch.Tensor) else pairs)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ValueError(
            f"{name} must hold two row numbers a line, shape (pairs, 2), got {array.shape}"
        )
    if array.dtype.kind not in "fiu" or (array.dtype.kind == "f" and (array % 1 != 0).any()):
        raise ValueError(f"{name} must be whole row numbers, got dtype {array.dtype}")
    array = array.astype(np.int64)
    for bad, what in (
        (((array < 0) | (array >= rows)).any(axis=1), f"outside the rows 0 to {rows - 1}"),
        (array[:, 0] == array[:, 1], "a row paired with itself"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(
                f"{name}: pair {at} is {tuple(array[at].tolist())}, {what}; "
                f"{int(bad.sum())} of {len(array)} such pairs (rows are counted from 0)"
            )
    return array


def code_labels(labels: Any, rows: int, unlabelled: Unlabelled = "error") -> tuple[np.ndarray, int]:
    """Number labels from 0 and say how many rows have none.

    Labels are equal only if they are written alike: ``"1"``, ``"01"`` and ``"001"`` are three. No
    label are ``None``, NaN, the texts in :data:`MISSING` whatever their case, and -1, which
    scikit-learn writes for unlabelled and noise; only where all labels are -1 or 1 is -1 a class.

    Args:
        labels: shape ``(rows,)`` or ``(rows, 1)``, numbers or text.
        rows: number of embeddings.
        unlabelled: ``"error"``, or ``"alone"``: every row without a label is a class of its own,
            so that all its pairs are negatives.

    Returns:
        Codes, int64, shape ``(rows,)``, and the number of rows without a label.

    Raises:
        ValueError: unless there is one label a row, all numbers or all text, at least two of them
            different, and, with ``unlabelled="error"``, none missing (the first such row is named).
    """
    if unlabelled not in ("error", "alone"):
        raise ValueError(f"unlabelled must be 'error' or 'alone', got {unlabelled!r}")
    array = _label_array(labels)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.shape != (rows,):
        raise ValueError(f"labels must have shape ({rows},), one a row, got {array.shape}")
    if array.dtype.kind not in "OUbiuf":
        raise ValueError(f"labels must be numbers or text, got dtype {array.dtype}")
    values: list[Any] = array.tolist()
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    given = [value for value, gone in zip(values, missing, strict=True) if not gone]
    odd = next((v for v in given if not isinstance(v, str | bool | int | float | np.generic)), None)
    if odd is not None:
        raise ValueError(f"labels must be numbers or text, got a {type(odd).__name__}: {odd!r:.60}")
    text = [isinstance(value, str) for value in given]
    if any(text) and not all(text):
        row = next(k for k, v in enumerate(values) if not missing[k] and not isinstance(v, str))
        raise ValueError(
            f"labels mix text and numbers: row {row} is {values[row]!r}; give all as text"
        )
    minus = np.array(
        [not gone and _is_minus_one(v) for v, gone in zip(values, missing, strict=True)], dtype=bool
    )
    binary = not missing.any() and all(
        low or str(v).strip() in ("1", "1.0") for v, low in zip(values, minus, strict=True)
    )
    if not binary:
        missing |= minus
    count = int(missing.sum())
    if count and unlabelled == "error":
        row = int(np.argmax(missing))
        what = "-1 counts as none, as in scikit-learn; " if minus[row] else ""
        raise ValueError(
            f"labels: row {row} has no label ({values[row]!r}), nor have {count - 1} others of "
            f"{rows} rows; {what}label them, or make each such row a class of its own with "
            "unlabelled='alone' (--unlabelled alone)"
        )
    codes = np.empty(rows, dtype=np.int64)
    known: dict[Any, int] = {}
    for row, value in enumerate(values):
        key = (row,) if missing[row] else value
        codes[row] = known.setdefault(key, len(known))
    if len(known) < 2:
        raise ValueError("labels: all rows have the same label, so there are no negatives")
    return codes, count


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


def _label_array(labels: Any) -> np.ndarray:
    if isinstance(labels, torch.Tensor):
        return labels.detach().cpu().numpy()
    if isinstance(labels, list | tuple):  # NumPy would write a mix of kinds all as text
        held = np.empty(len(labels), dtype=object)
        held[:] = [v.item() if isinstance(v, torch.Tensor) and v.ndim == 0 else v for v in labels]
        return held
    array = np.asarray(labels)
    return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and value.strip().lower() in MISSING


def _is_minus_one(value: Any) -> bool:
    return value.strip() == "-1" if isinstance(value, str) else bool(value == -1)


def _check_part(part: np.ndarray, start: int, name: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
    finite = np.isfinite(norm)
    if not finite.all():  # the norm of finite numbers may overflow, which leaves no direction too
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name}: row {start + row} holds NaN or infinity (or numbers too large to square); "
            "drop or mend such rows"
        )
    zero = norm < ZERO_NORM
    if zero.any():
        row = int(np.argmax(zero))
        raise ValueError(
            f"{name}: row {start + row} {describe_short(float(norm[row]))}, so it has no cosine; "
            f"{int(zero.sum())} such rows here: drop them"
        )
