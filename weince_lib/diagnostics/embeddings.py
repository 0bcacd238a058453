"""What embeddings, pairs and labels must be: the arrays that can be used, or one clear error.

:mod:`.reading` gets them from files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ..losses.arguments import ZERO_NORM, check_kind, describe_short

#: Rows looked at in one go, so that a file larger than memory can be checked.
_CHUNK = 65_536
#: Names of columns that are no part of an embedding, in lower case.
NOT_EMBEDDING = ("id", "ids", "idx", "index", "label", "labels", "class", "target", "split")
#: What stands for a missing label in text, in lower case and without blanks around it.
MISSING = ("", "na", "n/a", "nan", "none", "null", "<na>")
#: What to do with rows without a label: refuse them, or make each a class of its own.
Unlabelled = Literal["error", "alone"]


def check_rows(embeddings: Any, name: str = "embeddings") -> np.ndarray:
    """Return embeddings as a floating-point matrix whose rows all have a direction.

    Args:
        embeddings: array or tensor, shape ``(rows, d)``.
        name: what the error calls them.

    Raises:
        ValueError: unless the array is a numeric matrix with two rows and columns, all of them
            finite and not zero (the first bad row is named), and not all pointing the same way.
            Integers of 8 bits and unsigned ones are refused, as they may be bit-packed codes.
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
    if z.shape[0] < 2 or z.shape[1] < 2:
        raise ValueError(
            f"{name}: {z.shape[0]} rows of {z.shape[1]} columns; at least 2 rows and 2 columns are "
            "needed"
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


def check_columns(
    z: np.ndarray,
    columns: Sequence[str],
    name: str,
    *,
    keep: Collection[int] = (),
    named: bool | None = True,
) -> tuple[str, ...]:
    """Refuse columns that look like no part of the embedding.

    Args:
        z: shape ``(n, d)``, numeric.
        columns: their names.
        name: what the error calls the embeddings.
        keep: positions of columns that belong to the embedding however they look.
        named: whether the names were given and may be judged; ``None`` for coordinates of
            vectors, which cannot be named.

    Returns:
        A note on what was taken for granted, or none.

    Raises:
        ValueError: for columns that are called like an id or a label, or hold whole numbers where
            others hold fractions.
    """
    if named:
        called = [k for k, column in enumerate(columns) if column.strip().lower() in NOT_EMBEDDING]
        called = [k for k in called if k not in keep]
        if called:
            raise ValueError(
                f"{name}: {name_columns(columns, called)} seems to be no part of the embedding; "
                + _ways(columns[called[0]])
            )
    found, fractions = _whole_columns(z)
    whole = [k for k in found.tolist() if k not in keep]
    if whole and fractions:
        raise ValueError(
            f"{name}: {name_columns(columns, whole)} holds whole numbers where other columns hold "
            "fractions, as an id, label or index does; "
            + ("leave it out of the vectors" if named is None else _ways(columns[whole[0]]))
        )
    if fractions:
        return ()
    return (
        f"{name}: all entries are whole numbers; they were taken as coordinates, not as codes.",
    )


def _whole_columns(z: np.ndarray) -> tuple[np.ndarray, bool]:
    """Columns of whole numbers that are not all 0, and whether another column holds a fraction."""
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


def columns_called(columns: Sequence[str], given: Sequence[str | int], name: str) -> list[int]:
    """Positions of columns given by name or, where no name fits, by number from 0, ascending.

    Raises:
        ValueError: for a column that is not there.
    """
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
    return sorted(found)


def name_columns(columns: Sequence[str], which: Sequence[int]) -> str:
    """Some columns in words, the first six by name."""
    shown = ", ".join(repr(columns[k]) for k in which[:6])
    return f"column{'s' if len(which) > 1 else ''} {shown}" + (", ..." if len(which) > 6 else "")


def _ways(column: str) -> str:
    return (
        f"leave it out (--ignore-column {column}, or ReadSettings(ignore=({column!r},))) or say "
        f"that it belongs to the embedding (--keep-column {column}, or keep=...)"
    )


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
    if len({isinstance(value, str) for value in given}) > 1:
        row = next(k for k, v in enumerate(values) if not missing[k] and not isinstance(v, str))
        raise ValueError(
            f"labels mix text and numbers: row {row} is {values[row]!r}; give all as text"
        )
    written = [str(value).strip() for value in values]
    minus = np.array([text in ("-1", "-1.0") for text in written], dtype=bool)
    if not all(text in ("1", "1.0", "-1", "-1.0") for text in written):
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
