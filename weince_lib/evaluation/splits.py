"""Stratified split of a labelled training set (paper Appendix F.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import check_fraction, check_labels


@dataclass(frozen=True)
class Split:
    """Two disjoint sets of row numbers that together cover the labelled set.

    Attributes:
        train: rows for the probe or the kNN bank, int64, ascending, on the CPU.
        validation: rows for choosing between configurations, int64, ascending, on the CPU.
    """

    train: Tensor
    validation: Tensor


def stratified_split(labels: Tensor, *, seed: int, fraction: float = 0.2) -> Split:
    """Split rows class by class, the same share of every class held out.

    Each class's rows are shuffled and the first ``floor(fraction * n_c)`` of its ``n_c`` rows go to
    validation, the rest to training.

    Args:
        labels: class numbers from 0, shape ``(rows,)``.
        seed: seeds the shuffles. Classes are visited in ascending order with one generator on the
            CPU, so that the split depends on the labels and the seed alone.
        fraction: share held out; 0.2 is the paper's.

    Returns:
        A :class:`Split`.

    Raises:
        ValueError: for labels that are no class numbers, a fraction outside (0, 1), or a class too
            small to give validation a row.
    """
    check_labels(labels)
    check_fraction("fraction", fraction)
    generator = torch.Generator().manual_seed(seed)
    labels = labels.detach().cpu()
    train, validation = [], []
    for label in labels.unique(sorted=True).tolist():
        rows = (labels == label).nonzero()[:, 0]
        # The small term keeps floor(0.29 * 100) at 29, where floating point gives 28.99...
        held_out = math.floor(fraction * rows.numel() + 1e-9)
        if held_out == 0:
            raise ValueError(
                f"class {label} has {rows.numel()} rows, and a fraction of {fraction} leaves none "
                f"for validation; it needs at least {math.ceil(1 / fraction - 1e-9)}"
            )
        rows = rows[torch.randperm(rows.numel(), generator=generator)]
        validation.append(rows[:held_out])
        train.append(rows[held_out:])
    return Split(torch.cat(train).sort().values, torch.cat(validation).sort().values)
