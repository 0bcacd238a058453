"""Maxima of independent variables that are not identically distributed (paper Appendix A).

Everything rests on the exceedance probabilities p_i = F_bar_i(u_N(x)) at the level
u_N(x) = b_N + a_N x, with S = sum p_i. The maximum of N = mn variables stays below the level with
probability prod (1 - p_i), within half of sum p_i^2 of exp(-S). Two conditions make the limit an
extreme value law:

- (I) infinitesimality: the largest p_i vanishes, so that no candidate decides alone;
- (H) homogeneity: a block of n drawn at random from the mn behaves, for each m, like the first n.

The paper asks in (H) for a non-degenerate limit of the block's maximum. We ask that it be of the
type of the limit itself, which the proof uses: :class:`RankedCandidates` shows why.

In the functions ``p`` holds the exceedance probabilities of N candidates in their order, shape
``(..., N)``, and ``blocks`` is m, at least 2, which divides N. They raise ``ValueError`` for
probabilities outside [0, 1], fewer than two candidates, and blocks that do not fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from ..checks import FloatArray, check_at_least, check_values
from .families import Family


@dataclass(frozen=True)
class ScoredUtilities:
    """Utilities X_i = location_i + scale_i Z_i with independent Z_i of one law.

    The three rows of the paper's Table 1: locations for Gumbel, scales for Frechet, and for Weibull
    scales of the shortfall, x_F - X_i = scale_i W_i, with the bounded ``noise`` stored by its
    shortfall and all x_F equal.

    Attributes:
        noise: law of Z_i, in the coordinate y of :class:`~weince_lib.evt.Family`.
        location: shape ``(N,)``; zero for bounded noise, whose endpoint all candidates share.
        scale: shape ``(N,)``, positive.

    Raises:
        ValueError: for shapes that do not match, fewer than two candidates, values that are not
            finite, scales that are not positive, or locations of bounded noise that differ.
    """

    noise: Family
    location: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        location, scale = (
            check_values(getattr(self, name), name) for name in ("location", "scale")
        )
        if location.shape != scale.shape:
            raise ValueError(
                "location and scale must both have shape (N,), got "
                f"{location.shape} and {scale.shape}"
            )
        check_at_least("number of candidates", location.size, 2)
        if not (scale > 0).all():
            index = int(np.argmin(scale))
            raise ValueError(f"scale[{index}] is {scale[index]:g}; scales must be positive")
        if self.noise.bounded and np.ptp(location) > 0:
            raise ValueError("bounded noise shares its endpoint: let all locations be equal")

    @property
    def size(self) -> int:
        """Number of candidates N."""
        return int(np.asarray(self.scale).size)

    def first(self, n: int) -> ScoredUtilities:
        """The first n candidates."""
        return ScoredUtilities(self.noise, self.location[:n], self.scale[:n])

    def exceedance(self, u: npt.ArrayLike) -> FloatArray:
        """p_i = P(X_i > u), the shape of ``u`` with an axis of N candidates added last."""
        return self.noise.survival(self._standardised(u))

    def constants(self) -> tuple[float, float]:
        """``(a_N, b_N)`` with F_bar_avg(b_N) = 1 / N and a_N = F_bar_avg(b_N) / f_avg(b_N).

        F_bar_avg and f_avg are the means of the candidates' survival functions and densities.
        """
        n = self.size
        # One candidate alone has p_i = 1/N at its own level: the common level lies between these.
        own = self.location + self.scale * float(self.noise.exceedance_level(1.0 / n))
        low, high = float(own.min()), float(own.max())
        if high > low:
            level = brentq(
                lambda u: math.log(n * float(self.exceedance(u).mean())),
                low,
                high,
                xtol=1e-14 * max(1.0, abs(low), abs(high)),
                rtol=1e-14,
            )
        else:
            level = low
        density = self.noise.density(self._standardised(level)) / self.scale
        return 1.0 / (n * float(density.mean())), float(level)

    def sample_maxima(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Maxima of ``size`` draws of all candidates, not normalised, shape ``(size,)``."""
        drawn = self.noise.sample((size, self.size), rng)
        return np.asarray((self.location + self.scale * drawn).max(axis=1))

    def _standardised(self, u: npt.ArrayLike) -> FloatArray:
        u = np.asarray(u, dtype=np.float64)
        return np.asarray((u[..., None] - self.location) / self.scale)


@dataclass(frozen=True)
class RankedCandidates:
    """A sequence with (I) whose maxima converge to a law that is no extreme value law.

    Candidate i = 1, 2, ... exceeds y >= 0 with probability 1 / (i + e^y), and is 0 otherwise: later
    candidates are ever easier negatives. The product telescopes, so for every n exactly

        P(M_n - log n <= x) = 1 / (1 + e^-x),    x >= -log n:

    the limit is logistic. A random block of n from mn has the limit (1 + m e^-x)^(-1/m), not
    degenerate and of another type: what (H) has to exclude. (The class of all such limits is
    Mejzler's, 1956.)

    Attributes:
        size: number of candidates N, at least 2.
    """

    size: int

    def __post_init__(self) -> None:
        check_at_least("number of candidates", self.size, 2)

    def exceedance(self, u: npt.ArrayLike) -> FloatArray:
        """p_i = P(X_i > u), the shape of ``u`` with an axis of N candidates added last."""
        u = np.asarray(u, dtype=np.float64)[..., None]
        p = 1.0 / (np.arange(1, self.size + 1) + np.exp(u))
        return np.asarray(np.where(u < 0.0, 1.0, p))

    def constants(self) -> tuple[float, float]:
        """``(a_N, b_N)`` = (1, log N)."""
        return 1.0, math.log(self.size)

    def sample_maxima(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Maxima of ``size`` draws of all candidates, not normalised, shape ``(size,)``."""
        # 1 / U exceeds i + e^y with probability 1 / (i + e^y).
        excess = 1.0 / (1.0 - rng.random((size, self.size))) - np.arange(1, self.size + 1)
        return np.asarray(np.log(np.maximum(excess, 1.0)).max(axis=1))


def block_limit_cdf(x: npt.ArrayLike, blocks: int = 1) -> FloatArray:
    """Limit (1 + m e^-x)^(-1/m) of a random block's maximum in :class:`RankedCandidates`.

    x is the block's maximum less the log of its size; one block gives the logistic law.
    """
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(np.exp(-np.logaddexp(0.0, math.log(blocks) - x) / blocks))


def maximum_cdf(p: npt.ArrayLike) -> FloatArray:
    """P(no exceedance) = prod (1 - p_i), exactly."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.log1p(-_check_probabilities(p)).sum(axis=-1)))


def infinitesimality(p: npt.ArrayLike) -> FloatArray:
    """The largest exceedance probability; condition (I) is that it vanishes."""
    return np.asarray(_check_probabilities(p).max(axis=-1))


def poisson_gap_bound(p: npt.ArrayLike) -> FloatArray:
    """Bound on exp(-S) - prod (1 - p_i) >= 0: half of sum p_i^2, itself at most p_max S / 2.

    From 0 <= e^-p - (1 - p) <= p^2 / 2 and a telescoping product whose factors are at most 1.
    """
    return np.asarray(0.5 * np.square(_check_probabilities(p)).sum(axis=-1))


def block_sum_spread(p: npt.ArrayLike, blocks: int) -> FloatArray:
    """Exact standard deviation of a random block's tail sum (sampling without replacement).

    Var S_k = n (1 - 1/m) sum (p_i - p_mean)^2 / (N - 1) with N = mn, at most (m - 1) / m^2 times
    N / (N - 1) sum p_i^2, which vanishes under (I).
    """
    p = _check_probabilities(p)
    n = _block_size(p.shape[-1], blocks)
    return np.asarray(np.sqrt(n * (1.0 - 1.0 / blocks)) * p.std(axis=-1, ddof=1))


def permutation_blocks(
    p: npt.ArrayLike, blocks: int, repetitions: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Tail sums and exact maximum laws of the blocks of uniformly random permutations.

    Args:
        p: exceedance probabilities, shape ``(N,)``.
        blocks: m.
        repetitions: number of permutations.
        rng: draws the permutations.

    Returns:
        ``(sums, cdfs)``, both of shape ``(repetitions, m)``: S_k, the sum of p over block k, and
        the probability prod (1 - p_i) that the block's maximum stays below the level.
    """
    p = _check_probabilities(p)
    if p.ndim != 1:
        raise ValueError(f"p must have shape (N,), got {p.shape}")
    n = _block_size(p.size, blocks)
    with np.errstate(divide="ignore"):
        log_below = np.log1p(-p)
    sums, cdfs = np.empty((2, repetitions, blocks))
    for row in range(repetitions):
        order = rng.permutation(p.size).reshape(blocks, n)
        sums[row] = p[order].sum(axis=1)
        cdfs[row] = np.exp(log_below[order].sum(axis=1))
    return sums, cdfs


def homogeneity_gap(p: npt.ArrayLike, blocks: int) -> FloatArray:
    """How much a random block differs from the first n candidates: |S_first - S / m|.

    Both are expected numbers of exceedances among n candidates; where (H) holds in the sense of
    this module the difference vanishes.
    """
    p = _check_probabilities(p)
    n = _block_size(p.shape[-1], blocks)
    return np.asarray(np.abs(p[..., :n].sum(axis=-1) - p.sum(axis=-1) / blocks))


def _block_size(candidates: int, blocks: int) -> int:
    check_at_least("blocks", blocks, 2)
    if candidates % blocks:
        raise ValueError(f"{candidates} candidates do not split into {blocks} blocks of one size")
    return candidates // blocks


def _check_probabilities(p: npt.ArrayLike) -> FloatArray:
    p = np.asarray(p, dtype=np.float64)
    if p.ndim == 0 or p.shape[-1] < 2:
        raise ValueError(f"p needs an axis of at least 2 candidates, got shape {p.shape}")
    outside = ~((p >= 0.0) & (p <= 1.0))
    if outside.any():
        raise ValueError(f"exceedance probabilities must lie in [0, 1], got {p[outside][0]}")
    return p
