"""What a threshold should be, and how well the tail above it fits values that are new to it.

If excesses over u_0 are generalised Pareto with (sigma, xi), then so are those over every u > u_0,
with the same xi and sigma_u = sigma + xi (u - u_0). So above a good threshold the shape and the
modified scale sigma* = sigma_u - xi u are constant, and the mean excess
e(u) = sigma_u / (1 - xi), for xi < 1, is a straight line with slope xi / (1 - xi)
(Davison and Smith 1990; Coles 2001, sections 4.3.1 and 4.3.4). For xi < 0, sigma* = -xi x_F.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import expon, genpareto
from scipy.stats import t as student

from ..checks import FloatArray, check_fraction, check_values
from .endpoint import FLOOR, KnownEndpointFit, fit_known_endpoint
from .gpd import (
    GPDFit,
    GPDProfile,
    fit_gpd,
    likelihood_drop,
    select_exceedances,
    select_threshold,
)

#: Levels of the threshold that are looked at by default.
QUANTILES = (0.9, 0.95, 0.975, 0.99, 0.995)
#: Doublings of the step after which an end of an interval counts as infinite.
_MAX_STEPS = 60
#: Stands for minus infinity where a minimiser needs a number.
_VERY_LOW = -1e6
#: The upper half of the values, evenly in the logarithm of the share above the threshold.
MEAN_EXCESS_QUANTILES = tuple((1.0 - np.geomspace(0.5, 0.005, 40)).tolist())


@dataclass(frozen=True)
class StabilityPoint:
    """The fits above one threshold.

    Attributes:
        quantile: level of the threshold among the values.
        fit: the generalised Pareto fit.
        modified_scale: sigma* = sigma - xi u, in the units of the values; nan without an estimate.
        modified_scale_low: lower end of its profile-likelihood interval.
        modified_scale_high: upper end.
        known: the fit with the endpoint known; ``None`` without one, and where the threshold has
            come within the floor of it.
    """

    quantile: float
    fit: GPDFit
    modified_scale: float
    modified_scale_low: float
    modified_scale_high: float
    known: KnownEndpointFit | None


@dataclass(frozen=True)
class MeanExcess:
    """Mean excess e(u) over one threshold u, with a t-interval; all in the units of the values."""

    threshold: float
    exceedances: int
    mean: float
    low: float
    high: float
    confidence: float


def parameter_stability(
    values: npt.ArrayLike,
    *,
    quantiles: Sequence[float] = QUANTILES,
    endpoint: float | None = None,
    confidence: float = 0.95,
) -> list[StabilityPoint]:
    """Shape and modified scale over thresholds.

    Every interval is a profile-likelihood one. An information matrix would not exist for shapes at
    or below -1/2.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        quantiles: levels of the thresholds, ascending.
        endpoint: x_F for the fits with a known endpoint; ``None`` leaves them out.
        confidence: nominal level of every interval.

    Returns:
        One :class:`StabilityPoint` per level.

    Raises:
        ValueError: for levels that do not ascend or leave fewer than 10 exceedances, and as
            :func:`weince_lib.evt.fit_gpd` and :func:`weince_lib.evt.fit_known_endpoint`.
    """
    array = check_values(values)
    points = []
    for level in _ascending(quantiles):
        fit = fit_gpd(array, quantile=level, confidence=confidence)
        known = None
        if endpoint is not None and fit.threshold < endpoint - FLOOR:
            known = fit_known_endpoint(
                array, endpoint=endpoint, quantile=level, confidence=confidence
            )
        points.append(StabilityPoint(level, fit, *_modified_scale(array, fit), known))
    return points


def mean_residual_life(
    values: npt.ArrayLike,
    *,
    quantiles: Sequence[float] = MEAN_EXCESS_QUANTILES,
    confidence: float = 0.95,
) -> list[MeanExcess]:
    """Mean excess over thresholds, with t-intervals.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        quantiles: levels of the thresholds, ascending.
        confidence: level of every interval, which takes the values for independent.

    Returns:
        One :class:`MeanExcess` per level.

    Raises:
        ValueError: for levels that do not ascend or leave fewer than 2 exceedances, and values of
            the wrong form.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    points = []
    for level in _ascending(quantiles):
        u = select_threshold(array, None, level)
        excesses = array[array > u] - u
        count = int(excesses.size)
        if count < 2:
            raise ValueError(
                f"quantile {level} leaves {count} values above the threshold, at least 2 are "
                "needed: lower it"
            )
        mean, error = float(excesses.mean()), float(excesses.std(ddof=1)) / math.sqrt(count)
        half = float(student.ppf(0.5 + confidence / 2, count - 1)) * error
        points.append(MeanExcess(u, count, mean, mean - half, mean + half, confidence))
    return points


def held_out_misses(
    fitted_to: npt.ArrayLike, held_out: npt.ArrayLike, *, quantile: float = 0.99
) -> tuple[float, float]:
    """How far two fitted tails are from values they were not fitted to.

    Both tails are fitted above a threshold: the generalised Pareto law by maximum likelihood, and
    the exponential law by its mean. Their quantiles at 199 levels from 0.005 to 0.995 are compared
    with those of the held-out values above the same threshold, as in a quantile plot.

    Args:
        fitted_to: shape ``(n,)``.
        held_out: shape ``(m,)``.
        quantile: of ``fitted_to``, the threshold; 0.99 as in the paper's Figure 3.

    Returns:
        The largest distance from the diagonal of the generalised Pareto law and of the exponential
        law, in the units of the values. The first is nan where there is no estimate.

    Raises:
        ValueError: see :func:`weince_lib.evt.fit_gpd`; also if too few held-out values exceed the
            threshold.
    """
    fit = fit_gpd(fitted_to, quantile=quantile)
    inside, outside = (
        select_exceedances(check_values(x), fit.threshold) - fit.threshold
        for x in (fitted_to, held_out)
    )
    levels = np.linspace(0.005, 0.995, 199)
    observed = np.quantile(outside, levels)
    laws = (genpareto(fit.shape, scale=fit.scale), expon(scale=inside.mean()))
    pareto, exponential = (float(np.abs(law.ppf(levels) - observed).max()) for law in laws)
    return pareto, exponential


def _ascending(quantiles: Sequence[float]) -> list[float]:
    levels = [float(level) for level in quantiles]
    if not levels or any(b <= a for a, b in itertools.pairwise(levels)):
        raise ValueError(f"quantiles must ascend and not be empty, got {levels}")
    return levels


def _modified_scale(values: FloatArray, fit: GPDFit) -> tuple[float, float, float]:
    """Estimate and profile-likelihood interval of sigma* = sigma - xi u, in units of the values.

    With sigma* held at a value, each shape xi has its scale sigma* + xi u, so the profile is a
    maximum over shapes. In theta = xi / sigma the log-likelihood per excess is

        -log sigma - L(theta) - L(theta) / (theta sigma),    L(theta) = mean log(1 + theta y),

    with L(theta) / theta = mean y at theta = 0. L is interpolated over the scanned curve, which
    finds the hill; the maximum itself is taken with L exact.
    """
    if fit.regime == "unbounded":
        return math.nan, math.nan, math.nan
    profile = GPDProfile(values[values > fit.threshold] - fit.threshold)
    drop = likelihood_drop(fit.confidence)
    points, best = profile.solve(drop)
    if best is None:  # fit_gpd has found one in the same curve
        raise AssertionError("the profile lost its maximum")
    level = profile.level(points, drop)
    # Beyond the last node no scale whatever may reach the level.
    while profile.endpoint_log_likelihood(points[-1].s) > level:
        points.append(profile.at(2.0 * points[-1].s - points[-2].s))
    shapes = np.array([p.shape for p in points])
    mean_log = CubicSpline([p.s for p in points], [p.mean_log for p in points], extrapolate=False)
    u = fit.threshold / profile.largest

    def log_likelihood(scale: FloatArray, theta: FloatArray, logs: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            over_theta = np.where(theta == 0.0, profile.mean, logs / theta)
            heights = -np.log(scale) - logs - over_theta / scale
            allowed = (scale > 0.0) & (theta > -1.0) & (theta * scale >= -1.0)
        return np.where(allowed & np.isfinite(heights), heights, -math.inf)

    def below_level(value: float) -> float:
        """How far the highest log-likelihood with sigma* at ``value`` lies below the level."""

        def lost(shape: float) -> float:
            scale = np.array([value + shape * u])
            with np.errstate(divide="ignore", invalid="ignore"):
                theta = shape / scale
            if not theta[0] > -1.0:
                return -_VERY_LOW
            logs = np.array([profile.mean_log(math.log1p(float(theta[0])))])
            return -max(float(log_likelihood(scale, theta, logs)[0]), _VERY_LOW)

        scale = value + shapes * u
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = shapes / scale
            heights = log_likelihood(scale, theta, mean_log(np.log1p(theta)))
        top = int(np.argmax(heights))
        bounds = (float(shapes[max(top - 1, 0)]), float(shapes[min(top + 1, shapes.size - 1)]))
        found = minimize_scalar(lost, bounds=bounds, method="bounded", options={"xatol": 1e-6})
        return level + float(found.fun)

    estimate = best.scale - best.shape * u

    def end(step: float) -> float:
        inside = estimate
        for _ in range(_MAX_STEPS):
            outside = inside + step
            if below_level(outside) > 0.0:
                return float(brentq(below_level, inside, outside, xtol=1e-12, rtol=1e-8))
            inside, step = outside, 2.0 * step
        return math.copysign(math.inf, step)

    step = 0.05 * (abs(estimate) + best.scale)
    low, high = end(-step) * profile.largest, end(step) * profile.largest
    return fit.scale - fit.shape * fit.threshold, low, high
