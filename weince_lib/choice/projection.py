"""Where quasi-maximum likelihood ends up: the pseudo-true member of a one-parameter link family.

The closest link to the truth in Kullback-Leibler divergence (White 1982; paper Theorem C.1), with
the constants of the estimator's law around it. The symbols are those of
:mod:`weince_lib.choice.quasi_mle`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from ..checks import check_finite
from .quasi_mle import Covariance, is_sandwich, normal_quantile
from .winner_sums import FloatArray, WinnerSums, check_candidates, maximise


@dataclass(frozen=True)
class PseudoTrue:
    """The member of the family that winners of another law lead to.

    Attributes:
        slope: theta that minimises E KL(p* || p_theta).
        curvature: A there.
        score_variance: B there; equal to A where the link is right.
        bias: limit of n E(estimate - slope), the estimator's second-order bias.
        divergence: E KL(p* || p_theta) at the slope, nats per winner.
    """

    slope: float
    curvature: float
    score_variance: float
    bias: float
    divergence: float

    def variance(self, covariance: Covariance = "sandwich") -> float:
        """Limit of n Var(estimate): B / A^2, or the 1 / A that a right link would have."""
        if is_sandwich(covariance):
            return self.score_variance / self.curvature**2
        return 1.0 / self.curvature

    def coverage(
        self,
        size: npt.ArrayLike = 1,
        *,
        covariance: Covariance = "sandwich",
        target: float | None = None,
        confidence: float = 0.95,
    ) -> FloatArray:
        """Probability that the Wald interval covers a slope, in the normal approximation.

        Args:
            size: number of winners n; it counts only if the target is another slope.
            covariance: which standard error the interval is made with.
            target: the slope to be covered; the pseudo-true one by default.
            confidence: nominal level.
        """
        spread = math.sqrt(self.variance())
        half = normal_quantile(confidence) * math.sqrt(self.variance(covariance)) / spread
        shift = 0.0 if target is None else (self.slope - target) / spread
        moved = shift * np.sqrt(np.asarray(size, dtype=np.float64))
        return np.asarray(norm.cdf(half - moved) - norm.cdf(-half - moved))


def link_probabilities(
    coordinate: npt.ArrayLike, slope: float, *, mask: npt.ArrayLike | None = None
) -> FloatArray:
    """Winner probabilities exp(theta T_j) / sum_k exp(theta T_k).

    Args:
        coordinate: T, shape ``(K,)`` for one candidate set or ``(S, K)`` for several.
        slope: theta, in 1/units of T.
        mask: True where there is a candidate, the same shape; all by default.

    Returns:
        Probabilities of the coordinate's shape, 0 where masked.

    Raises:
        ValueError: for a slope that is not finite, and as :func:`.fit_counts`.
    """
    check_finite("slope", slope)
    T, candidate = check_candidates(coordinate, mask)
    logits = np.where(candidate, slope * T, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).reshape(np.shape(coordinate))


def pseudo_true(
    coordinate: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    mask: npt.ArrayLike | None = None,
) -> PseudoTrue:
    """The slope that winners of law p* lead to, with A, B, second-order bias and divergence.

    Args:
        coordinate: T, shape ``(K,)`` or ``(S, K)``.
        probabilities: p*, the true winner probabilities within each set, the same shape.
        weights: how often each set is drawn, shape ``(S,)``, normalised here; equal by default.
        mask: True where there is a candidate, the same shape as the coordinate; all by default.

    Raises:
        ValueError: for probabilities that are negative or do not sum to 1 in a set, weights that
            are negative or all zero, a p* under which only best or only worst candidates win (its
            slope is infinite), and as :func:`.fit_counts`.
    """
    T, candidate = check_candidates(coordinate, mask)
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != np.shape(coordinate):
        raise ValueError(f"probabilities must have shape {np.shape(coordinate)}, got {p.shape}")
    p = p.reshape(T.shape)
    if not (p >= 0).all() or np.abs(p.sum(axis=1) - 1).max() > 1e-8 or p[~candidate].any():
        raise ValueError("probabilities must be >= 0, sum to 1 in each set and be 0 where masked")
    w = np.ones(len(T)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (len(T),) or not (np.isfinite(w) & (w >= 0)).all() or w.sum() == 0:
        raise ValueError(f"weights must be {len(T)} finite numbers >= 0, not all 0")
    w = w / w.sum()
    sums = WinnerSums.of_counts(T, candidate, (w[:, None] * p)[None])
    slope = maximise(sums)
    if not np.isfinite(slope[0]):
        raise ValueError(
            f"the pseudo-true slope is {slope[0]}: only the best or only the worst candidates win"
        )
    mean, variance, third = (moment[0] for moment in sums.moments(slope))
    A = float(w @ variance)
    B = float((sums.squares - 2 * mean * sums.total + sums.drawn * mean**2).sum())
    # The score of a winner is minus its gap's deviation. Expanding the likelihood equation to
    # second order (Cox and Snell 1968): n bias = -E(psi v)/A^2 - E(kappa_3) B/(2 A^3), where v and
    # kappa_3 are the variance and third cumulant of T in the winner's set; those of the gap are v
    # and -kappa_3.
    tilt = float(((sums.drawn[0] * mean - sums.total[0]) * variance).sum())
    bias = -tilt / A**2 + 0.5 * float(w @ third) * B / A**3
    q = link_probabilities(T, float(slope[0]), mask=candidate)
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(p > 0, p * np.log(p / q), 0.0).sum(axis=1)
    return PseudoTrue(float(slope[0]), A, B, bias, float(w @ divergence))
