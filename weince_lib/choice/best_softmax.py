"""How close a softmax of the scores can come to given winner probabilities, over all temperatures.

What remains at the best temperature is the price of the wrong coordinate (paper Appendix C.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy

from ..links import Array, check_scores

#: Points of the grid over inverse temperatures; the certificate's slack is range * step / 8.
_GRID = 20_001
_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class BestSoftmax:
    """The closest softmax in two senses.

    Attributes:
        kl_temperature: minimiser of KL(p || softmax(s / tau)), what maximum likelihood converges
            to; infinity where the flat softmax, or one with a negative temperature, is closer.
        kl: that divergence, in nats.
        tv_temperature: minimiser of the total variation.
        tv: that distance, in [0, 1].
        tv_low: proven lower bound of the distance over all tau > 0.
    """

    kl_temperature: float
    kl: float
    tv_temperature: float
    tv: float
    tv_low: float


def total_variation(p: npt.ArrayLike, q: npt.ArrayLike, counts: npt.ArrayLike = 1) -> float:
    """Half the sum of absolute differences: the largest difference over all events.

    Args:
        p: probability of one candidate of each entry, shape ``(entries,)``.
        q: the same of another law.
        counts: candidates per entry.
    """
    return float(0.5 * np.sum(counts * np.abs(np.asarray(p) - np.asarray(q))))


def softmax_at(scores: Array, inverse: npt.ArrayLike, counts: Array) -> Array:
    """Softmax of ``inverse * scores`` with entries counted several times.

    Args:
        scores: shape ``(entries,)``.
        inverse: one or several inverse temperatures, shape ``(...)``.
        counts: candidates per entry, shape ``(entries,)``.

    Returns:
        Probability of one candidate of each entry, shape ``(..., entries)``.
    """
    logits = np.asarray(inverse, dtype=np.float64)[..., None] * (scores - scores.max())
    weights = np.exp(logits)
    return np.asarray(weights / (weights @ counts)[..., None])


def best_softmax(
    scores: npt.ArrayLike, probabilities: npt.ArrayLike, counts: npt.ArrayLike | None = None
) -> BestSoftmax:
    """Find the temperatures at which softmax(s / tau) is closest to winner probabilities.

    The Kullback-Leibler divergence is convex in 1 / tau: its minimum is where both laws have the
    same mean score. The total variation is searched on a grid over 1 / tau and refined. Its slope
    is at most range(s) / 4, and past the grid's end the softmax gives the top more than the last
    grid point does, which together prove the lower bound.

    Args:
        scores: shape ``(entries,)``.
        probabilities: of one candidate of each entry; with the counts they sum to 1.
        counts: candidates per entry; one each by default.

    Raises:
        ValueError: for scores or probabilities that are not such, or scores that are all equal.
    """
    s = check_scores(scores)
    p = np.asarray(probabilities, dtype=np.float64)
    many = np.ones(s.shape) if counts is None else np.asarray(counts, dtype=np.float64)
    if s.ndim != 1 or p.shape != s.shape or many.shape != s.shape:
        raise ValueError(f"scores {s.shape}, probabilities {p.shape}, counts {many.shape}")
    if not (p >= 0).all() or abs(many @ p - 1) > 1e-8:
        raise ValueError(f"probabilities must be at least 0 and sum to 1, got {many @ p:g}")
    spread = float(np.ptp(s))
    if spread == 0:
        raise ValueError("scores are all equal: every temperature gives the same softmax")

    def distance(inverse: npt.ArrayLike) -> Array:
        return np.asarray(0.5 * np.abs(p - softmax_at(s, inverse, many)) @ many)

    def mean_excess(inverse: float) -> float:
        return float((many * (softmax_at(s, inverse, many) - p)) @ s)

    top = s == s.max()
    high = 8.0 / spread
    for _ in range(_MOST_DOUBLINGS):
        past = float((many * (softmax_at(s, high, many) - p))[top].sum())
        grid = np.linspace(0.0, high, _GRID)
        if past >= distance(grid[:: _GRID // 200]).min() or past >= 0.999 * float(
            1 - (many * p)[top].sum()
        ):
            break
        high *= 2
    values = np.concatenate([distance(part) for part in np.array_split(grid, 20)])
    best = int(values.argmin())
    around = (grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)])
    refined = minimize_scalar(
        lambda x: float(distance(x)), bounds=around, method="bounded", options={"xatol": 1e-12}
    )
    inverse, least = float(refined.x), min(float(refined.fun), float(values[best]))
    slack = 0.25 * spread * 0.5 * (grid[1] - grid[0])

    theta = 0.0
    if mean_excess(0.0) < 0:
        last = high
        while mean_excess(last) < 0 and last < 1e12 / spread:
            last *= 2
        theta = float(brentq(mean_excess, 0.0, last, xtol=1e-13))
    kl = many * (xlogy(p, p) - xlogy(p, softmax_at(s, theta, many)))
    return BestSoftmax(
        kl_temperature=1 / theta if theta > 0 else float("inf"),
        kl=float(kl.sum()),
        tv_temperature=1 / inverse if inverse > 0 else float("inf"),
        tv=least,
        tv_low=max(0.0, min(float(values[best]) - slack, past)),
    )
