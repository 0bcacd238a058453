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
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve
from scipy.stats import norm

from ..checks import check_at_least, check_finite, check_fraction

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Covariance = Literal["sandwich", "naive"]

#: Entries of the largest array made at once: 1 MiB in float64, so that it stays in the cache.
_BLOCK = 1 << 17
#: The safeguarded Newton iteration ends far earlier; more would mean a bug.
_MAX_STEPS = 300
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

        Args:
            covariance: ``"sandwich"``, sqrt(B / n) / A, valid for a wrong link too; ``"naive"``,
                1 / sqrt(n A), which takes the link for true.
        """
        if is_sandwich(covariance):
            return np.sqrt(self.score_variance / self.size) / self.curvature
        return 1.0 / np.sqrt(self.size * self.curvature)

    def interval(
        self, covariance: Covariance = "sandwich", confidence: float = 0.95
    ) -> tuple[FloatArray, FloatArray]:
        """Wald interval for the slope: its ends are nan where there is no estimate.

        Args:
            covariance: see :meth:`standard_error`.
            confidence: nominal two-sided level; 0.95 as in the paper's tables.
        """
        half = normal_quantile(confidence) * self.standard_error(covariance)
        return self.slope - half, self.slope + half


def fit_counts(
    coordinate: npt.ArrayLike, counts: npt.ArrayLike, *, mask: npt.ArrayLike | None = None
) -> QuasiMLE:
    """Fit the slope to how often each candidate won, for any number of repetitions at once.

    A repetition's cost does not depend on its number of winners.

    Args:
        coordinate: T, shape ``(K,)`` for one candidate set that all winners come from, or
            ``(S, K)`` for several.
        counts: wins, shape ``(..., K)`` or ``(..., S, K)``; leading dimensions are repetitions. A
            multinomial draw over all S K cells is a draw of sets and winners together.
        mask: True where there is a candidate, of the coordinate's shape; for sets of unequal
            sizes. All by default.

    Returns:
        A :class:`QuasiMLE` of the leading shape.

    Raises:
        ValueError: for shapes that do not fit, fewer than two candidates, coordinates that are not
            finite or the same throughout every set, counts that are negative, not whole, or at
            masked entries, and repetitions without a winner.
    """
    T, candidate = check_candidates(coordinate, mask)
    shape = np.shape(coordinate)
    number = np.asarray(counts)
    if number.shape[-len(shape) :] != shape:
        raise ValueError(f"counts must have shape (..., {_words(shape)}), got {number.shape}")
    whole = number.dtype.kind in "iu" or (number.dtype.kind == "f" and (number % 1 == 0).all())
    if not whole or (number < 0).any():
        raise ValueError("counts must be whole numbers >= 0")
    leading = number.shape[: -len(shape)]
    flat = number.reshape(-1, *T.shape).astype(np.float64)
    if (flat[:, ~candidate] > 0).any():
        raise ValueError("counts has winners at masked entries")
    if (flat.sum(axis=(1, 2)) == 0).any():
        raise ValueError("counts has a repetition without a winner")
    return _fit(WinnerSums.of_counts(T, candidate, flat), leading)


def fit_winners(
    coordinate: npt.ArrayLike, winners: npt.ArrayLike, *, mask: npt.ArrayLike | None = None
) -> QuasiMLE:
    """Fit the slope to one winner in each of n candidate sets.

    Args:
        coordinate: T, shape ``(n, K)``, one candidate set an observation.
        winners: the winner's column in each set, shape ``(..., n)``; leading dimensions are
            repetitions on the same sets.
        mask: True where there is a candidate, shape ``(n, K)``; for sets of unequal sizes. All by
            default.

    Returns:
        A :class:`QuasiMLE` of the leading shape.

    Raises:
        ValueError: for shapes that do not fit, a set of fewer than two candidates, coordinates
            that are not finite or the same throughout every set, and winners that are no
            candidate.
    """
    T, candidate = check_candidates(coordinate, mask)
    index = np.asarray(winners)
    if np.ndim(coordinate) != 2 or index.shape[-1:] != (len(T),):
        raise ValueError(
            "coordinate must have shape (n, K) and winners (..., n), "
            f"got {np.shape(coordinate)} and {index.shape}"
        )
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= T.shape[1]:
        raise ValueError(f"winners must be column indices in [0, {T.shape[1]})")
    flat = index.reshape(-1, len(T)).astype(np.intp)
    wrong = ~candidate[np.arange(len(T)), flat]
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=0)))
        raise ValueError(f"the winner of set {row} is a masked entry")
    won = np.zeros((len(flat), *T.shape))
    np.put_along_axis(won, flat[:, :, None], 1.0, axis=2)
    return _fit(WinnerSums.of_counts(T, candidate, won), index.shape[:-1])


def fit_mean(coordinate: npt.ArrayLike, mean: npt.ArrayLike, size: npt.ArrayLike) -> QuasiMLE:
    """Fit the slope to the mean coordinate of n winners of one candidate set.

    The mean is all the likelihood needs, so the exact law of the estimate follows from the law of
    a sum (:func:`lattice_sum_law`). The sandwich covariance needs more than the
    mean, and ``score_variance`` is nan.

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
    T, candidate = check_candidates(coordinate, None)
    if np.ndim(coordinate) != 1:
        raise ValueError(f"coordinate must have shape (K,), got {np.shape(coordinate)}")
    average = np.asarray(mean, dtype=np.float64)
    number = np.broadcast_to(np.asarray(size, dtype=np.float64), average.shape).reshape(-1)
    flat = average.reshape(-1)
    if not ((T.min() <= flat) & (flat <= T.max())).all():
        raise ValueError(f"mean must lie in the coordinate's range, {T.min():g} to {T.max():g}")
    if not (number >= 1).all():
        raise ValueError("size must be at least 1")
    return _fit(WinnerSums.of_means(T, candidate, flat, number), average.shape)


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
        ValueError: for a slope that is not finite, and as :func:`fit_counts`.
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
    mask: npt.ArrayLike | None = None,
) -> PseudoTrue:
    """The slope that winners of law p* lead to, with A, B, second-order bias and divergence.

    Args:
        coordinate: T, shape ``(K,)`` or ``(S, K)``.
        probabilities: p*, the true winner probabilities within each set, the same shape; every set
            is drawn as often as any other.
        mask: True where there is a candidate, the same shape as the coordinate; all by default.

    Raises:
        ValueError: for probabilities that are negative or do not sum to 1 in a set, a p* under
            which only best or only worst candidates win (its slope is infinite), and as
            :func:`fit_counts`.
    """
    T, candidate = check_candidates(coordinate, mask)
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != np.shape(coordinate):
        raise ValueError(f"probabilities must have shape {np.shape(coordinate)}, got {p.shape}")
    p = p.reshape(T.shape)
    if not (p >= 0).all() or np.abs(p.sum(axis=1) - 1).max() > 1e-8 or p[~candidate].any():
        raise ValueError("probabilities must be >= 0, sum to 1 in each set and be 0 where masked")
    w = np.full(len(T), 1.0 / len(T))
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


@dataclass(frozen=True)
class WinnerSums:
    """Sums over the winners of R repetitions on S candidate sets of at most K candidates.

    The winners enter the likelihood through the sum of their coordinates T alone, and the sandwich
    covariance through the sum of squares. Both are kept as gaps below the best candidate of the
    set, d_j = max T - T_j >= 0: exponentials of -theta d_j then do not overflow, and "every winner
    was the best" is a sum of exact zeros.

    Attributes:
        gaps: d, coordinate below the set's best candidate, shape ``(S, K)``; 0 where masked.
        candidate: which entries are candidates, shape ``(S, K)``.
        drawn: number (or weight) of winners observed in each set, shape ``(R, S)``.
        total: sum of the winners' gaps in each set, shape ``(R, S)``.
        squares: sum of their squares, shape ``(R, S)``.
        some_below_best: whether a winner lay below its set's best candidate, shape ``(R,)``.
        some_above_worst: whether a winner lay above its set's worst candidate, shape ``(R,)``.
    """

    gaps: FloatArray
    candidate: BoolArray
    drawn: FloatArray
    total: FloatArray
    squares: FloatArray
    some_below_best: BoolArray
    some_above_worst: BoolArray

    @classmethod
    def of_counts(
        cls, coordinate: FloatArray, candidate: BoolArray, counts: FloatArray
    ) -> WinnerSums:
        """From how often each candidate won: ``counts`` of shape ``(R, S, K)``."""
        gaps, worst = _gaps(coordinate, candidate)
        won = counts > 0
        return cls(
            gaps,
            candidate,
            counts.sum(axis=2),
            np.einsum("rsk,sk->rs", counts, gaps),
            np.einsum("rsk,sk->rs", counts, gaps**2),
            np.any(won & (gaps > 0), axis=(1, 2)),
            np.any(won & (gaps < worst[:, None]), axis=(1, 2)),
        )

    @classmethod
    def of_means(
        cls, coordinate: FloatArray, candidate: BoolArray, mean: FloatArray, size: FloatArray
    ) -> WinnerSums:
        """From the winners' mean coordinate and number in one set, ``(R,)``; no squares."""
        gaps, worst = _gaps(coordinate, candidate)
        below = coordinate.max() - mean
        total = (size * below)[:, None]
        return cls(
            gaps,
            candidate,
            size[:, None],
            total,
            np.full_like(total, np.nan),
            np.asarray(below > 0),
            np.asarray(below < worst),
        )

    @property
    def size(self) -> FloatArray:
        """Number of winners n of each repetition, shape ``(R,)``."""
        return self.drawn.sum(axis=1)

    def moments(self, slope: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean, variance and third central moment of the gap under p_theta.

        Args:
            slope: theta of each repetition, shape ``(R,)``, finite.

        Returns:
            Three arrays of shape ``(R, S)``.
        """
        scaled = slope[:, None, None] * self.gaps
        # The largest logit: the best candidate's, 0, or for theta < 0 the worst candidate's.
        top = np.maximum(0.0, -slope[:, None] * self.gaps.max(axis=1))[:, :, None]
        weights = np.exp(np.subtract(-top, scaled, out=scaled), out=scaled)
        weights *= self.candidate
        weights /= weights.sum(axis=2, keepdims=True)
        mean = np.einsum("rsk,sk->rs", weights, self.gaps)
        deviation = self.gaps - mean[:, :, None]
        weights *= deviation
        variance = np.einsum("rsk,rsk->rs", weights, deviation)
        weights *= deviation
        return mean, variance, np.einsum("rsk,rsk->rs", weights, deviation)

    def blocks(self) -> Iterator[tuple[slice, WinnerSums]]:
        """The repetitions in blocks small enough for :meth:`moments`."""
        rows = max(1, _BLOCK // self.gaps.size)
        for start in range(0, len(self.drawn), rows):
            part = slice(start, start + rows)
            yield part, self.take(part)

    def take(self, rows: slice | npt.NDArray[np.intp]) -> WinnerSums:
        """The same sums for some of the repetitions."""
        return WinnerSums(
            self.gaps,
            self.candidate,
            self.drawn[rows],
            self.total[rows],
            self.squares[rows],
            self.some_below_best[rows],
            self.some_above_worst[rows],
        )


def maximise(sums: WinnerSums) -> FloatArray:
    """Slope with the highest likelihood, for each repetition.

    The log-likelihood is concave, with derivative sum_i (mean gap under theta) - sum_i (winner's
    gap). Its root is found by Newton's method, kept inside a bracket and from leaping far. This is
    for thousands of repetitions at once; scipy 1.13 solves them together without the bracket only.

    Returns:
        Shape ``(R,)``; plus or minus infinity where the likelihood rises for ever (all winners the
        best, or all the worst, of their sets), and nan where it is flat (all candidates of every
        set that was drawn are equal).
    """
    above, below = sums.some_above_worst, sums.some_below_best
    slope = np.where(above, np.where(below, 0.0, np.inf), np.where(below, -np.inf, np.nan))
    finite = np.flatnonzero(above & below)
    for part, block in sums.take(finite).blocks():
        slope[finite[part]] = _newton(block)
    return slope


def _newton(sums: WinnerSums) -> FloatArray:
    unit = float(sums.gaps.max())
    slope = np.zeros(len(sums.drawn))
    low, high = np.full_like(slope, -np.inf), np.full_like(slope, np.inf)
    target = sums.total.sum(axis=1)
    active = np.arange(len(slope))
    for _ in range(_MAX_STEPS):
        now = sums.take(active)
        theta = slope[active]
        mean, variance, _ = now.moments(theta)
        score = (now.drawn * mean).sum(axis=1) - target[active]
        information = (now.drawn * variance).sum(axis=1)
        low[active] = np.where(score >= 0, theta, low[active])
        high[active] = np.where(score <= 0, theta, high[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.nan_to_num(score / information, nan=0.0, posinf=np.inf, neginf=-np.inf)
        leap = np.maximum(4.0 / unit, np.abs(theta))
        proposed = theta + np.clip(step, -leap, leap)
        a, b = low[active], high[active]
        outside = (proposed < a) | (proposed > b)
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (a + b)
        slope[active] = np.where(outside & np.isfinite(middle), middle, proposed)
        moved = np.abs(slope[active] - theta)
        active = active[moved > 1e-13 * np.maximum(np.abs(theta), 1.0 / unit)]
        if active.size == 0:
            return slope
    raise RuntimeError(  # pragma: no cover
        f"the likelihood equation of {active.size} repetitions was not solved in {_MAX_STEPS} steps"
    )


def _fit(sums: WinnerSums, leading: tuple[int, ...]) -> QuasiMLE:
    slope = maximise(sums)
    A, B = np.full(slope.shape, np.nan), np.full(slope.shape, np.nan)
    finite = np.flatnonzero(np.isfinite(slope))
    for part, block in sums.take(finite).blocks():
        rows = finite[part]
        mean, variance, _ = block.moments(slope[rows])
        A[rows] = (block.drawn * variance).sum(axis=1) / block.size
        squared = block.squares - 2 * mean * block.total + block.drawn * mean**2
        B[rows] = squared.sum(axis=1) / block.size
    return QuasiMLE(*(v.reshape(leading) for v in (slope, A, B, sums.size)))


def check_candidates(
    coordinate: npt.ArrayLike, mask: npt.ArrayLike | None
) -> tuple[FloatArray, BoolArray]:
    """Coordinates and mask as ``(S, K)`` arrays, or one clear error.

    Args:
        coordinate: T, shape ``(K,)`` for one candidate set or ``(S, K)`` for several.
        mask: True where there is a candidate, the same shape; ``None`` for all.

    Raises:
        ValueError: for other shapes and dtypes, a set of fewer than two candidates (it is named),
            a candidate whose coordinate is not finite (named too), and coordinates that are the
            same throughout every set.
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
    spread = np.where(candidate, T, -np.inf).max(axis=1) > np.where(candidate, T, np.inf).min(
        axis=1
    )
    if not spread.any():
        raise ValueError("the coordinate is the same throughout every set: no slope can be told")
    return T, candidate


def _gaps(coordinate: FloatArray, candidate: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Gaps below the best candidate, and the worst candidate's gap, of each set."""
    best = np.where(candidate, coordinate, -np.inf).max(axis=1, keepdims=True)
    gaps = np.where(candidate, best - np.where(candidate, coordinate, 0.0), 0.0)
    return gaps, gaps.max(axis=1)


def normal_quantile(confidence: float) -> float:
    """Half width of a two-sided normal interval, in standard errors."""
    check_fraction("confidence", confidence)
    return float(norm.ppf(0.5 + confidence / 2.0))


def is_sandwich(covariance: str) -> bool:
    """Whether the covariance is the sandwich; raises for a name that is neither."""
    if covariance not in ("sandwich", "naive"):
        raise ValueError(f"unknown covariance {covariance!r}; known: 'sandwich', 'naive'")
    return covariance == "sandwich"


def _words(shape: tuple[int, ...]) -> str:
    return ", ".join(str(size) for size in shape)
