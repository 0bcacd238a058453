"""The exact law of a sum of independent discrete variables on a common lattice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from ..checks import check_at_least

#: Below this a probability is rounding of the Fourier transform and is set to 0.
_ROUNDING = 1e-16


def lattice_sum_law(
    steps: npt.ArrayLike, probabilities: npt.ArrayLike, size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Exact law of X_1 + ... + X_n for independent X_i on whole numbers.

    A link whose estimate depends on the winners through the sum of their scores alone has, for
    scores on a lattice, an exact finite-n law: no simulation is needed to know its mean squared
    error. Powers of the probability generating function by repeated squaring; good to about 1e-15
    in each probability.

    Args:
        steps: possible values of X, whole numbers >= 0, distinct, shape ``(K,)``.
        probabilities: of each, shape ``(K,)``, summing to 1.
        size: n, at least 1.

    Returns:
        The values of the sum with probability above 1e-16, ascending, and their probabilities.

    Raises:
        ValueError: for steps that are not distinct whole numbers >= 0, probabilities that do not
            sum to 1, shapes that differ, or a size below 1.
    """
    step, p = np.asarray(steps), np.asarray(probabilities, dtype=np.float64)
    if step.dtype.kind not in "iu" or step.ndim != 1 or (step < 0).any():
        raise ValueError("steps must be whole numbers >= 0 of shape (K,)")
    if len(np.unique(step)) != len(step) or p.shape != step.shape:
        raise ValueError("steps must be distinct, with one probability each")
    if not (p >= 0).all() or abs(p.sum() - 1.0) > 1e-12:
        raise ValueError(f"probabilities must be >= 0 and sum to 1, got sum {p.sum()}")
    check_at_least("size", size, 1)
    power = np.zeros(int(step.max()) + 1)
    power[step] = p
    law = np.ones(1)
    left = size
    while left:
        if left % 2:
            law = _product(law, power)
        left //= 2
        if left:
            power = _product(power, power)
    values = np.flatnonzero(law > _ROUNDING)
    kept = law[values]
    return values.astype(np.int64), kept / kept.sum()


def _product(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    product = fftconvolve(a, b)
    return np.where(product > _ROUNDING, product, 0.0)
