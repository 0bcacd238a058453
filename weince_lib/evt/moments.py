"""The generalised Pareto law by probability-weighted moments, which exist for every shape below 1.

With a_0 = E Y and a_1 = E Y (1 - F(Y)) the law has (Hosking and Wallis 1987, Technometrics 29,
339-349, with k = -xi)

    xi = 2 - a_0 / (a_0 - 2 a_1),    sigma = 2 a_0 a_1 / (a_0 - 2 a_1).

Maximum likelihood is more efficient for shapes above -1/2, but has no estimate at or below -1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def moment_fit(excesses: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Shape and scale from the unbiased sample moments.

    Args:
        excesses: over the threshold, shape ``(..., n)``, n at least 3 and not all equal; each row
            is a sample.

    Returns:
        xi (below 1) and sigma (units of the excesses), shape ``(...)`` each. The implied endpoint
        -sigma / xi may lie below the largest excess.
    """
    y = np.sort(np.asarray(excesses, dtype=np.float64), axis=-1)
    n = y.shape[-1]
    mean = y.mean(axis=-1)
    weighted = (y * ((n - 1.0 - np.arange(n)) / (n - 1.0))).mean(axis=-1)
    spread = mean - 2.0 * weighted
    return np.asarray(2.0 - mean / spread), np.asarray(2.0 * mean * weighted / spread)
