"""Embeddings, pairs and labels that can be used, or one clear error that says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..losses.similarity import ZERO_NORM, check_kind, describe_short

#: Rows looked at in one go, so that a file larger than memory can be checked.
_CHUNK = 65_536


def check_rows(embeddings: Any, name: str = "embeddings", least: int = 2) -> np.ndarray:
    """Return embeddings as a floating-point matrix whose rows all have a direction.

    Args:
        embeddings: array or tensor, shape ``(rows, d)``.
        name: what the error calls them.
        least: fewest rows.

    Raises:
        ValueError: unless the array is a numeric matrix with enough rows, all of them finite and
            not zero (the first bad row is named), and not all pointing the same way.
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


def check_labels(labels: Any, rows: int) -> np.ndarray:
    """Return labels as codes from 0, int64, shape ``(rows,)``.

    Raises:
        ValueError: unless there is one label a row and at least two different ones.
    """
    array = np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.shape != (rows,):
        raise ValueError(f"labels must have shape ({rows},), one a row, got {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"labels: row {int(np.argmin(np.isfinite(array)))} has no label")
    names, codes = np.unique(array.astype(str) if array.dtype == object else array, False, True)
    if len(names) < 2:
        raise ValueError("labels: all rows have the same label, so there are no negatives")
    return codes.astype(np.int64)


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
