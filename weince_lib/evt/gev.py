"""The generalised extreme-value law of block maxima (paper section 2.2, Appendix A).

    G(x) = exp(-(1 + xi z)_+^(-1/xi)),  read as exp(-exp(-z)) at xi = 0,  z = (x - mu) / sigma.

scipy's ``genextreme`` has the opposite sign, c = -xi; here xi < 0 is always the Weibull domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from .exceedances import MIN_EXCEEDANCES, FloatArray, check_confidence, check_values
from .gpd import REGULAR_ABOVE

#: Below this shape the likelihood is unbounded.
_LEAST_SHAPE = -1.0
#: Above this one no data in use here lie.
_TOP_SHAPE = 5.0
#: Bound on log k, k = 1 / (sigma - xi mu), of maxima in units of their standard deviation.
_MOST_LOG_K = 8.0


@dataclass(frozen=True)
class GEVFit:
    """A generalised extreme-value fit to block maxima.

    Attributes:
        maxima: number of maxima.
        location: mu, in the units of the maxima; nan where there is no estimate.
        scale: sigma, in the units of the maxima; nan where there is no estimate.
        shape: xi; nan where there is no estimate.
        log_likelihood: at the estimate; nan where there is none.
        shape_low: lower end of the profile-likelihood interval for xi; -1 where it runs into it.
        shape_high: upper end.
        endpoint: mu - sigma / xi for xi < 0, otherwise infinity; nan where there is no estimate.
        confidence: nominal level of the interval.
        regime: ``"regular"`` (xi > -1/2), ``"irregular"``, or ``"unbounded"`` (no maximum above
            xi = -1).
    """

    maxima: int
    location: float
    scale: float
    shape: float
    log_likelihood: float
    shape_low: float
    shape_high: float
    endpoint: float
    confidence: float
    regime: str


def fit_gev(maxima: npt.ArrayLike, *, confidence: float = 0.95) -> GEVFit:
    """Fit the law of block maxima by maximum likelihood.

    The likelihood is profiled over the shape on (-1, 5), which leaves a maximum over one number.

    Args:
        maxima: one maximum per block, shape ``(n,)``, at least 10.
        confidence: nominal level of the profile-likelihood interval for the shape.

    Returns:
        A :class:`GEVFit`.

    Raises:
        ValueError: for maxima that are not a vector of finite real numbers, fewer than 10 of them,
            or all equal.
    """
    check_confidence(confidence)
    array = check_values(maxima, "maxima")
    if array.size < MIN_EXCEEDANCES:
        raise ValueError(f"only {array.size} maxima, at least {MIN_EXCEEDANCES} are needed")
    spread = float(array.std())
    if spread == 0.0:
        raise ValueError(f"all {array.size} maxima equal {array[0]:.6g}: there is nothing to fit")
    centre = float(array.mean())
    profile = _Profile((array - centre) / spread)
    grid = np.r_[_LEAST_SHAPE + 1e-3, np.arange(-0.9, 1.01, 0.1), 1.5, 2.0, 3.0, _TOP_SHAPE]
    heights = np.array([profile.height(shape) for shape in grid.tolist()])
    top = int(np.argmax(heights))
    location = scale = shape = value = endpoint = math.nan
    regime, best = "unbounded", float(heights[top])
    if 0 < top < grid.size - 1:
        found = optimize.minimize_scalar(
            lambda xi: -profile.height(xi),
            bounds=(float(grid[top - 1]), float(grid[top + 1])),
            method="bounded",
            options={"xatol": 1e-7},
        )
        shape, best = float(found.x), -float(found.fun)
        location, scale = profile.parameters(shape)
        location, scale = centre + spread * location, spread * scale
        value = best - array.size * math.log(spread)
        endpoint = location - scale / shape if shape < 0.0 else math.inf
        regime = "regular" if shape > REGULAR_ABOVE else "irregular"
    level = best - 0.5 * float(stats.chi2.ppf(confidence, df=1))
    low, high = _ends(profile, grid, heights, level)
    return GEVFit(
        maxima=int(array.size),
        location=location,
        scale=scale,
        shape=shape,
        log_likelihood=value,
        shape_low=low,
        shape_high=high,
        endpoint=endpoint,
        confidence=confidence,
        regime=regime,
    )


class _Profile:
    """The likelihood over the shape, for standardised maxima x.

    With 1 / k = sigma - xi mu and t = log(1 + xi k x) / xi, read as k x at xi = 0,

        log(1 + xi z) / xi = A + t,    A = log(1 / (sigma k)) / xi,

    and for given xi and k the best A is log mean exp(-t), which leaves a maximum over k alone:
    l = n log k - n A - (1 + xi) sum t - n.
    """

    def __init__(self, maxima: FloatArray) -> None:
        self._maxima = maxima
        self._least, self._largest = float(maxima.min()), float(maxima.max())

    def parameters(self, shape: float) -> tuple[float, float]:
        """Best location and scale for a shape."""
        k = math.exp(float(self._fit(shape).x))
        log_scale = self._shift(self._logs(k, shape))
        scale = math.exp(-shape * log_scale) / k
        factor = math.expm1(shape * log_scale) / shape if shape else log_scale
        return -scale * factor, scale

    def height(self, shape: float) -> float:
        """Highest log-likelihood for a shape."""
        return -float(self._fit(shape).fun)

    def _fit(self, shape: float) -> optimize.OptimizeResult:
        top = _MOST_LOG_K
        if shape < 0.0:
            top = min(top, -math.log(-shape * self._largest))
        elif shape > 0.0:
            top = min(top, -math.log(-shape * self._least))
        return optimize.minimize_scalar(
            lambda log_k: self._lost(math.exp(log_k), shape, log_k),
            bounds=(-_MOST_LOG_K, top),
            method="bounded",
            options={"xatol": 1e-8},
        )

    def _lost(self, k: float, shape: float, log_k: float) -> float:
        logs = self._logs(k, shape)
        value = log_k - self._shift(logs) - (1.0 + shape) * float(logs.mean()) - 1.0
        return -self._maxima.size * value

    def _logs(self, k: float, shape: float) -> FloatArray:
        if shape == 0.0:
            return k * self._maxima
        return np.log1p(shape * k * self._maxima) / shape

    @staticmethod
    def _shift(logs: FloatArray) -> float:
        return float(special.logsumexp(-logs)) - math.log(logs.size)


def _ends(
    profile: _Profile, grid: FloatArray, heights: FloatArray, level: float
) -> tuple[float, float]:
    inside = np.flatnonzero(heights >= level)
    first, last = int(inside[0]), int(inside[-1])

    def crossing(left: float, right: float) -> float:
        return float(optimize.brentq(lambda xi: profile.height(xi) - level, left, right, xtol=1e-6))

    low = _LEAST_SHAPE if first == 0 else crossing(float(grid[first - 1]), float(grid[first]))
    if last == grid.size - 1:
        return low, math.inf
    return low, crossing(float(grid[last]), float(grid[last + 1]))
