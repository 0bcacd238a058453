"""Peaks over a threshold: the selection that every tail fit starts from."""

from __future__ import annotations

import numpy as np

from ..checks import FloatArray, check_finite, check_fraction, check_values

__all__ = [
    "MIN_EXCEEDANCES",
    "FloatArray",
    "check_values",
    "select_exceedances",
    "select_threshold",
]

#: Fewer exceedances than this say next to nothing about a tail's shape.
MIN_EXCEEDANCES = 10


def select_threshold(values: FloatArray, threshold: float | None, quantile: float) -> float:
    """The given threshold, or the order statistic at ``quantile``.

    An order statistic and not a point between two of them: only then are the values above it,
    given the threshold, an i.i.d. sample of the tail (Rényi's representation), as the exact
    interval of :func:`weince_lib.evt.fit_known_endpoint` supposes.

    Args:
        values: checked values, shape ``(n,)``.
        threshold: in the units of ``values``; ``None`` takes the quantile.
        quantile: level in (0, 1), looked at only when ``threshold`` is ``None``.

    Raises:
        ValueError: for a threshold that is not finite or a quantile outside (0, 1).
    """
    if threshold is not None:
        check_finite("threshold", threshold)
        return float(threshold)
    check_fraction("quantile", quantile)
    return float(np.quantile(values, quantile, method="lower"))


def select_exceedances(values: FloatArray, threshold: float) -> FloatArray:
    """The values strictly above ``threshold``, in their order, shape ``(k,)``.

    Raises:
        ValueError: if fewer than :data:`MIN_EXCEEDANCES` values exceed it.
    """
    above = values[values > threshold]
    if above.size < MIN_EXCEEDANCES:
        raise ValueError(
            f"only {above.size} of {values.size} values exceed the threshold {threshold:.6g}; "
            f"at least {MIN_EXCEEDANCES} are needed: lower the quantile or the threshold"
        )
    return above
