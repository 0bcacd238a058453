"""Checks that the evaluators share: features and labels that belong together."""

from __future__ import annotations

import torch
from torch import Tensor


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


def full_precision(features: Tensor) -> Tensor:
    """Features in float32, or float64 if they came so; half precision blurs near neighbours."""
    return features if features.dtype == torch.float64 else features.float()
