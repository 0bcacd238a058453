"""Quasi-maximum likelihood of one-parameter top-1 links (paper Appendix C.1).

The link p_theta(j) proportional to exp(theta T_j) has one slope theta for a coordinate T: the
cosine itself for the softmax (theta = 1/tau), -log(1 - s) for the endpoint link (theta = beta).
Fitted to winners of another law p*, the estimate tends to the pseudo-true slope that minimises
E KL(p* || p_theta) (Theorem C.1), with covariance B / (n A^2):

    score      psi = T_Y - E_theta T         (Y the winner of its candidate set)
    A = E Var_theta(T),  B = E psi^2         (White 1982; A = B where the link is right)

The expectations run over candidate sets and winners alike, so B is for sets drawn anew with every
observation. For sets held fixed it is too large wherever the link is wrong, and the sandwich
interval conservative.

All functions take the same arrays. ``coordinate`` is T, shape ``(K,)`` for one candidate set or
``(S, K)`` for several; ``mask``, of the same shape, is True where there is a candidate, for sets of
unequal sizes (all by default). Inside, R repetitions are fitted together: arrays have the shape
``(R, S, K)``, and coordinates are kept as gaps below the best candidate of the set,
d_j = max T - T_j >= 0. Exponentials of -theta d_j do not overflow for theta >= 0, and "every
winner was the best" is a sum of exact zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import elementwise
from scipy.signal import fftconvolve
from scipy.stats import norm

from ..checks import FloatArray, check_at_least, check_finite, check_fraction

BoolArray = npt.NDArray[np.bool_]
Covariance = Literal["sandwich", "naive"]

#: Entries of the largest array made at once: 1 MiB in float64, so that it stays in the cache.
_BLOCK = 1 << 17
#: Below this a probability is rounding of the Fourier transform and is set to 0.
_ROUNDING = 1e-16


@dataclass(frozen=True)
class QuasiMLE:
    """Estimated slopes with what their standard errors need; all of the repetitions' shape.

    Attributes:
        slope: the estimate of theta, in 1/units of T. Plus infinity where every winner was the best
            candidate of its set, minus infinity where every one was the worst: the likelihood then
            rises for ever and has no maximum. Nan where all candidates were equal.
        curvature: A at the estimate, the average variance of T under the fitted link; nan unless
            the slope is finite.
        score_variance: B at the estimate, the average squared score; nan as above.
        size: number of winners n.
    """

    slope: FloatArray
    curvature: FloatArray
    score_variance: FloatArray
    size: FloatArray

    @classmethod
    def concatenate(cls, parts: Sequence[QuasiMLE]) -> QuasiMLE:
        """Blocks of repetitions as one, along the first dimension."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("slope", "curvature", "score_variance", "size")
            )
        )

    @property
    def exists(self) -> BoolArray:
        """Whether the likelihood has a maximum."""
        return np.isfinite(self.slope)

    def standard_error(self, covariance: Covariance = "sandwich") -> FloatArray:
        """Standard error of the slope; nan where there is no estimate.

        ``"sandwich"`` is sqrt(B / n) / A and valid for a wrong link too; ``"naive"`` is
        1 / sqrt(n A), which takes the link for true.
        """
        return np.sqrt(_variance(self.curvature, self.score_variance, covariance) / self.size)

    def interval(
        self, covariance: Covariance = "sandwich", confidence: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Wald interval for the slope; its ends are nan where there is no estimate."""
        half = _normal_quantile(confidence) * self.standard_error(covariance)
        return self.slope - half, self.slope + half


def fit_counts(
    coordinate: npt.ArrayLike, counts: npt.ArrayLike, *, mask: npt.ArrayLike | None = None
) -> QuasiMLE:
    """Fit the slope to how often each candidate won, for any number of repetitions at once.

    A repetition's cost does not depend on its number of winners.

    Args:
        coordinate: T, shape ``(K,)`` if all winners come from one candidate set, or ``(S, K)``.
        counts: wins, shape ``(..., K)`` or ``(..., S, K)``; leading dimensions are repetitions. A
            multinomial draw over all S K cells is a draw of sets and winners together.
        mask: True where there is a candidate.

    Returns:
        A :class:`QuasiMLE` of the leading shape.

    Raises:
        ValueError: for shapes that do not fit, fewer than two candidates, coordinates that are not
            finite or the same throughout every set, counts that are negative, not whole, or at
            masked entries, and repetitions without a winner.
    """
    sets = CandidateSets.of(coordinate, mask)
    shape = np.shape(coordinate)
    number = np.asarray(counts)
    if number.shape[-len(shape) :] != shape:
        wanted = ", ".join(str(size) for size in shape)
        raise ValueError(f"counts must have shape (..., {wanted}), got {number.shape}")
    whole = number.dtype.kind in "iu" or (number.dtype.kind == "f" and (number % 1 == 0).all())
    if not whole or (number < 0).any():
        raise ValueError("counts must be whole numbers >= 0")
    wins = number.reshape(-1, *sets.gaps.shape).astype(np.float64)
    if (wins[:, ~sets.candidate] > 0).any():
        raise ValueError("counts has winners at masked entries")
    if (wins.sum(axis=(1, 2)) == 0).any():
        raise ValueError("counts has a repetition without a winner")
    return _fit(sets, wins, number.shape[: -len(shape)])


def fit_winners(
    coordinate: npt.ArrayLike, winners: npt.ArrayLike, *, mask: npt.ArrayLike | None = None
) -> QuasiMLE:
    """Fit the slope to one winner in each of n candidate sets.

    Args:
        coordinate: T, shape ``(n, K)``, one candidate set an observation.
        winners: the winner's column in each set, shape ``(..., n)``; leading dimensions are
            repetitions on the same sets.
        mask: True where there is a candidate.

    Returns:
        A :class:`QuasiMLE` of the leading shape.

    Raises:
        ValueError: as :func:`fit_counts`, and for winners that are no candidate.
    """
    sets = CandidateSets.of(coordinate, mask)
    size, most = sets.gaps.shape
    index = np.asarray(winners)
    if np.ndim(coordinate) != 2 or index.shape[-1:] != (size,):
        raise ValueError(
            "coordinate must have shape (n, K) and winners (..., n), "
            f"got {np.shape(coordinate)} and {index.shape}"
        )
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= most:
        raise ValueError(f"winners must be column indices in [0, {most})")
    flat = index.reshape(-1, size).astype(np.intp)
    wrong = ~sets.candidate[np.arange(size), flat]
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=0)))
        raise ValueError(f"the winner of set {row} is a masked entry")
    wins = np.zeros((len(flat), size, most))
    np.put_along_axis(wins, flat[:, :, None], 1.0, axis=2)
    return _fit(sets, wins, index.shape[:-1])


def fit_mean(coordinate: npt.ArrayLike, mean: npt.ArrayLike, size: npt.ArrayLike) -> QuasiMLE:
    """Fit the slope to the mean coordinate of n winners of one candidate set.

    The mean is all the likelihood needs, so the exact law of the estimate follows from the law of
    a sum (:func:`lattice_sum_law`). The sandwich covariance needs more than the mean, and
    ``score_variance`` is nan.

    Args:
        coordinate: T, shape ``(K,)``.
        mean: average of T over the winners, any shape; exactly the largest or smallest T where all
            winners were such candidates.
        size: number of winners n behind each mean, broadcast to its shape.

    Returns:
        A :class:`QuasiMLE` of the mean's shape.

    Raises:
        ValueError: for a coordinate of another shape, means outside the coordinate's range, a size
            below 1, and as :func:`fit_counts`.
    """
    sets = CandidateSets.of(coordinate, None)
    T = np.asarray(coordinate, dtype=np.float64)
    if T.ndim != 1:
        raise ValueError(f"coordinate must have shape (K,), got {T.shape}")
    average = np.asarray(mean, dtype=np.float64)
    number = np.broadcast_to(np.asarray(size, dtype=np.float64), average.shape).reshape(-1)
    flat = average.reshape(-1)
    if not ((T.min() <= flat) & (flat <= T.max())).all():
        raise ValueError(f"mean must lie in the coordinate's range, {T.min():g} to {T.max():g}")
    if not (number >= 1).all():
        raise ValueError("size must be at least 1")
    # As many wins of the best and of the worst candidate as have this mean.
    wins = np.zeros((flat.size, 1, T.size))
    wins[:, 0, T.argmax()] = number * (flat - T.min()) / np.ptp(T)
    wins[:, 0, T.argmin()] = number * (T.max() - flat) / np.ptp(T)
    fit = _fit(sets, wins, average.shape)
    return QuasiMLE(fit.slope, fit.curvature, np.full_like(fit.slope, np.nan), fit.size)


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
        return float(_variance(self.curvature, self.score_variance, covariance))

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
        half = _normal_quantile(confidence) * math.sqrt(self.variance(covariance)) / spread
        shift = 0.0 if target is None else (self.slope - target) / spread
        moved = shift * np.sqrt(np.asarray(size, dtype=np.float64))
        return np.asarray(norm.cdf(half - moved) - norm.cdf(-half - moved))


def link_probabilities(
    coordinate: npt.ArrayLike, slope: float, *, mask: npt.ArrayLike | None = None
) -> FloatArray:
    """Winner probabilities exp(theta T_j) / sum_k exp(theta T_k).

    Args:
        coordinate: T, shape ``(K,)`` or ``(S, K)``.
        slope: theta, in 1/units of T, finite.
        mask: True where there is a candidate.

    Returns:
        Probabilities of the coordinate's shape, 0 where masked.
    """
    check_finite("slope", slope)
    sets = CandidateSets.of(coordinate, mask)
    return sets.probabilities(np.array([slope])).reshape(np.shape(coordinate))


def pseudo_true(
    coordinate: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
) -> PseudoTrue:
    """The slope that winners of law p* lead to, with A, B, second-order bias and divergence.

    Args:
        coordinate: T, shape ``(K,)`` or ``(S, K)``.
        probabilities: p*, the true winner probabilities within each set, the same shape; every set
            is drawn as often as any other.
        mask: True where there is a candidate.

    Raises:
        ValueError: for probabilities that are negative or do not sum to 1 in a set, a p* under
            which only best or only worst candidates win (its slope is infinite), and as
            :func:`fit_counts`.
    """
    sets = CandidateSets.of(coordinate, mask)
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != np.shape(coordinate):
        raise ValueError(f"probabilities must have shape {np.shape(coordinate)}, got {p.shape}")
    p = p.reshape(sets.gaps.shape)
    if not (p >= 0).all() or np.abs(p.sum(axis=1) - 1).max() > 1e-8 or p[~sets.candidate].any():
        raise ValueError("probabilities must be >= 0, sum to 1 in each set and be 0 where masked")
    slope = _maximise(sets, p[None] / len(p))
    if not np.isfinite(slope[0]):
        raise ValueError(
            f"the pseudo-true slope is {slope[0]}: only the best or only the worst candidates win"
        )
    q = sets.probabilities(slope)[0]
    mean = (q * sets.gaps).sum(axis=1)
    deviation = sets.gaps - mean[:, None]
    variance, third = ((q * deviation**k).sum(axis=1) for k in (2, 3))
    A, B = float(variance.mean()), float((p * deviation**2).sum(axis=1).mean())
    # The score of a winner is minus its gap's deviation. Expanding the likelihood equation to
    # second order (Cox and Snell 1968): n bias = -E(psi v)/A^2 - E(kappa_3) B/(2 A^3), where v and
    # kappa_3 are the variance and third cumulant of T in the winner's set; those of the gap are v
    # and -kappa_3.
    tilt = float(-((p * deviation).sum(axis=1) * variance).mean())
    bias = -tilt / A**2 + 0.5 * float(third.mean()) * B / A**3
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(p > 0, p * np.log(p / q), 0.0).sum(axis=1)
    return PseudoTrue(float(slope[0]), A, B, bias, float(divergence.mean()))


def lattice_sum_law(
    steps: npt.ArrayLike, probabilities: npt.ArrayLike, size: int
) -> tuple[npt.NDArray[np.int64], FloatArray]:
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


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    product = fftconvolve(a, b)
    return np.where(product > _ROUNDING, product, 0.0)


@dataclass(frozen=True)
class CandidateSets:
    """S candidate sets of at most K candidates.

    Attributes:
        gaps: d, coordinate below the set's best candidate, shape ``(S, K)``; 0 where masked.
        candidate: which entries are candidates, shape ``(S, K)``.
    """

    gaps: FloatArray
    candidate: BoolArray

    @classmethod
    def of(cls, coordinate: npt.ArrayLike, mask: npt.ArrayLike | None) -> CandidateSets:
        """Check coordinates and mask.

        Raises:
            ValueError: for other shapes and dtypes, a set of fewer than two candidates (it is
                named), a candidate whose coordinate is not finite (named too), and coordinates that
                are the same throughout every set.
        """
        T = np.asarray(coordinate)
        if T.ndim not in (1, 2) or T.size == 0 or T.dtype.kind not in "fiu":
            raise ValueError(
                f"coordinate must be real numbers of shape (K,) or (S, K), got {T.dtype} {T.shape}"
            )
        candidate = np.ones(T.shape, dtype=bool) if mask is None else np.asarray(mask)
        if candidate.shape != T.shape or candidate.dtype != bool:
            raise ValueError(
                f"mask must be booleans of shape {T.shape}, got {candidate.dtype} {candidate.shape}"
            )
        T, candidate = np.atleast_2d(T).astype(np.float64), np.atleast_2d(candidate)
        few = candidate.sum(axis=1) < 2
        if few.any():
            raise ValueError(
                f"candidate set {int(np.argmax(few))} has fewer than two candidates; leave it out"
            )
        wrong = candidate & ~np.isfinite(T)
        if wrong.any():
            where = np.unravel_index(int(np.argmax(wrong)), T.shape)
            raise ValueError(f"coordinate of candidate {where[1]} in set {where[0]} is {T[where]}")
        best = np.where(candidate, T, -np.inf).max(axis=1, keepdims=True)
        gaps = np.where(candidate, best - np.where(candidate, T, 0.0), 0.0)
        if not gaps.any():
            raise ValueError(
                "the coordinate is the same throughout every set: no slope can be told"
            )
        return cls(gaps, candidate)

    def probabilities(self, slope: FloatArray) -> FloatArray:
        """Winner probabilities for slopes of shape ``(R,)``, shape ``(R, S, K)``."""
        logits = -slope[:, None, None] * self.gaps
        # The largest logit: the best candidate's, 0, or for theta < 0 the worst candidate's.
        logits -= np.maximum(0.0, -slope[:, None] * self.gaps.max(axis=1))[:, :, None]
        weights = np.exp(logits, out=logits)
        weights *= self.candidate
        weights /= weights.sum(axis=2, keepdims=True)
        return weights


def _fit(sets: CandidateSets, wins: FloatArray, leading: tuple[int, ...]) -> QuasiMLE:
    """Fit repetitions, ``wins`` of shape ``(R, S, K)``, in blocks that fit into the cache."""
    rows = max(1, _BLOCK // sets.gaps.size)
    parts = [_fit_block(sets, wins[i : i + rows]) for i in range(0, len(wins), rows)]
    fit = QuasiMLE.concatenate(parts)
    return QuasiMLE(
        *(v.reshape(leading) for v in (fit.slope, fit.curvature, fit.score_variance, fit.size))
    )


def _fit_block(sets: CandidateSets, wins: FloatArray) -> QuasiMLE:
    slope, size = _maximise(sets, wins), wins.sum(axis=(1, 2))
    A, B = np.full(slope.shape, np.nan), np.full(slope.shape, np.nan)
    exists = np.isfinite(slope)
    if exists.any():
        p, won = sets.probabilities(slope[exists]), wins[exists]
        mean = np.einsum("rsk,sk->rs", p, sets.gaps)
        squares = (sets.gaps - mean[:, :, None]) ** 2
        A[exists] = (won.sum(axis=2) * (p * squares).sum(axis=2)).sum(axis=1) / size[exists]
        B[exists] = (won * squares).sum(axis=(1, 2)) / size[exists]
    return QuasiMLE(slope, A, B, size)


def _maximise(sets: CandidateSets, wins: FloatArray) -> FloatArray:
    """Slope with the highest likelihood, for each repetition.

    The log-likelihood is concave, with derivative sum_i (mean gap under theta) - sum_i (winner's
    gap). scipy brackets its root and finds it, for all repetitions together.

    Returns:
        Shape ``(R,)``; plus or minus infinity where the likelihood rises for ever (all winners the
        best, or all the worst, of their sets), and nan where it is flat (all candidates of every
        set that was drawn are equal).
    """
    unit = sets.gaps.max()
    gaps = sets.gaps / unit
    drawn, total = wins.sum(axis=2), np.einsum("rsk,sk->r", wins, gaps)
    below = total > 0  # some winner lay below its set's best candidate
    above = np.einsum("rsk,sk->r", wins, gaps.max(axis=1, keepdims=True) - gaps) > 0
    slope = np.where(above, np.where(below, 0.0, np.inf), np.where(below, -np.inf, np.nan))
    finite = np.flatnonzero(above & below)
    if finite.size == 0:
        return slope
    scaled = CandidateSets(gaps, sets.candidate)

    def score(theta: FloatArray, row: npt.NDArray[np.intp]) -> FloatArray:
        mean = np.einsum("rsk,sk->rs", scaled.probabilities(theta), gaps)
        return (drawn[row] * mean).sum(axis=1) - total[row]

    bracket = elementwise.bracket_root(score, -1.0, 1.0, args=(finite,)).bracket
    slope[finite] = elementwise.find_root(score, bracket, args=(finite,)).x / unit
    return slope


def _variance(
    curvature: npt.ArrayLike, score_variance: npt.ArrayLike, covariance: Covariance
) -> FloatArray:
    """Variance of the estimate times n, B / A^2 or 1 / A.

    Raises:
        ValueError: for the name of another covariance.
    """
    if covariance == "sandwich":
        return np.asarray(score_variance) / np.asarray(curvature) ** 2
    if covariance == "naive":
        return 1.0 / np.asarray(curvature)
    raise ValueError(f"unknown covariance {covariance!r}; known: 'sandwich', 'naive'")


def _normal_quantile(confidence: float) -> float:
    """Half width of a two-sided normal interval, in standard errors."""
    check_fraction("confidence", confidence)
    return float(norm.ppf(0.5 + confidence / 2.0))
