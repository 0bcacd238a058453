"""What a one-parameter link needs to know of the data: a few sums, for many repetitions at once.

With p_theta(j) proportional to exp(theta T_j) the winners enter the likelihood through the sum of
their coordinates T alone, and the sandwich covariance through the sum of squares. Both are kept as
gaps below the best candidate of the set, d_j = max T - T_j >= 0: exponentials of -theta d_j then do
not overflow, and "every winner was the best" is a sum of exact zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

#: Entries of the largest array made at once: 1 MiB in float64, so that it stays in the cache.
_BLOCK = 1 << 17
#: The safeguarded Newton iteration ends far earlier; more would mean a bug.
_MAX_STEPS = 300


@dataclass(frozen=True)
class WinnerSums:
    """Sums over the winners of R repetitions on S candidate sets of at most K candidates.

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
    def of_winners(
        cls, coordinate: FloatArray, candidate: BoolArray, winners: npt.NDArray[np.intp]
    ) -> WinnerSums:
        """From one winner in each set: ``winners`` of shape ``(R, S)``, column indices."""
        gaps, worst = _gaps(coordinate, candidate)
        won = gaps[np.arange(len(gaps)), winners]
        return cls(
            gaps,
            candidate,
            np.ones(winners.shape),
            won,
            won**2,
            np.any(won > 0, axis=1),
            np.any(won < worst, axis=1),
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
    gap). Its root is found by Newton's method, kept inside a bracket and from leaping far.

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
