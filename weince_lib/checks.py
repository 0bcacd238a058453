"""Checks that public functions make first: one clear line for a setting or an array that is wrong.

Embeddings have checks of their own, where their cosines are taken: tensors in
:mod:`weince_lib.losses.arguments`, whole files in :mod:`weince_lib.diagnostics.embeddings`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.float64]


def check_positive(name: str, value: float) -> float:
    """The value, as a float.

    Raises:
        ValueError: unless it is positive and finite.
    """
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def check_finite(name: str, value: float) -> None:
    """Raise ``ValueError`` for NaN and infinity."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")


def check_fraction(name: str, value: float) -> None:
    """Raise ``ValueError`` unless the value lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie in (0, 1), got {value}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise ``ValueError`` for a value below the least."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")


def check_values(values: npt.ArrayLike, name: str = "values") -> FloatArray:
    """Return ``values`` as a float64 vector, or raise one clear error.

    Args:
        values: real numbers, shape ``(n,)``; arrays, lists and CPU tensors alike.
        name: what the error calls them.

    Raises:
        ValueError: if ``values`` is not one-dimensional, empty, not real-valued, or holds NaN or
            infinity; the first such entry is named.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}; flatten them first")
    if array.size == 0:
        raise ValueError(f"{name} is empty; give at least one number")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got dtype {array.dtype}")
    array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        index = int(np.argmin(finite))
        raise ValueError(
            f"{name}[{index}] is {array[index]}; "
            f"drop the {array.size - int(finite.sum())} of {array.size} values that are not finite"
        )
    return array


def check_labels(labels: Tensor, name: str = "labels") -> None:
    """Raise one clear error unless ``labels`` are class numbers 0, 1, 2, ...

    Args:
        labels: shape ``(rows,)``, an integer dtype.
        name: what the error calls them.

    Raises:
        ValueError: for another shape or dtype, no labels at all, or a negative label, which
            data sets such as STL-10 use for images without a class.
    """
    if labels.ndim != 1:
        raise ValueError(f"{name} must have shape (rows,), got {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{name} must be integers, got {labels.dtype}; call .long() first")
    if labels.numel() == 0:
        raise ValueError(f"{name} are empty")
    if bool((labels < 0).any()):
        row = int((labels < 0).nonzero()[0, 0])
        raise ValueError(
            f"{name}: row {row} is {int(labels[row])}; classes count from 0 "
            "(leave unlabelled items out)"
        )


def check_labelled_features(features: Tensor, labels: Tensor, name: str) -> None:
    """Raise one clear error unless ``features`` are finite rows with one label each.

    A zero row is fine here: a linear layer has a bias. (It has no cosine; kNN checks for that.)

    Args:
        features: shape ``(rows, d)``, floating point.
        labels: shape ``(rows,)``, integers from 0, on the same device.
        name: what the error calls the pair, for instance ``"train"``.

    Raises:
        ValueError: naming the mismatch, or the first row that holds NaN or infinity.
    """
    if features.ndim != 2:
        raise ValueError(f"{name} features must have shape (rows, d), got {tuple(features.shape)}")
    if not features.is_floating_point():
        raise ValueError(f"{name} features must be floating point, got {features.dtype}")
    check_labels(labels, f"{name} labels")
    if features.shape[0] != labels.shape[0]:
        raise ValueError(
            f"{name}: {features.shape[0]} rows of features and {labels.shape[0]} labels"
        )
    if features.device != labels.device:
        raise ValueError(
            f"{name} features are on {features.device} and labels on {labels.device}; "
            "move them together"
        )
    finite = torch.isfinite(features).all(dim=1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        count = int((~finite).sum())
        raise ValueError(
            f"{name} features: row {row} holds NaN or infinity; "
            f"{count} of {finite.numel()} such rows"
        )
