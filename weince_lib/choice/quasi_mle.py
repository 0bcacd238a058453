"""Quasi-maximum likelihood of one-parameter top-1 links (paper Appendix C.1).

The link p_theta(j) proportional to exp(theta T_j) has one slope theta for a coordinate T: the
cosine itself for the softmax (theta = 1/tau), -log(1 - s) for the endpoint link (theta = beta).
Fitted to winners of another law p*, the estimate tends to the pseudo-true slope that minimises
E KL(p* || p_theta), with covariance B / (n A^2):

    score      psi = T_Y - E_theta T         (Y the winner of its candidate set)
    A = E Var_theta(T),  B = E psi^2         (White 1982; A = B where the link is right)

The expectations run over candidate sets and winners alike, so B is for sets drawn anew with every
observation. For sets held fixed it is too large wherever the link is wrong, and the sandwich
interval conservative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from ..checks import check_fraction
from .winner_sums import BoolArray, FloatArray, WinnerSums, check_candidates, maximise

Covariance = Literal["sandwich", "naive"]


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
    return _fit(WinnerSums.of_winners(T, candidate, flat), index.shape[:-1])


def fit_mean(coordinate: npt.ArrayLike, mean: npt.ArrayLike, size: npt.ArrayLike) -> QuasiMLE:
    """Fit the slope to the mean coordinate of n winners of one candidate set.

    The mean is all the likelihood needs, so the exact law of the estimate follows from the law of
    a sum (:func:`weince_lib.choice.lattice_sum_law`). The sandwich covariance needs more than the
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
