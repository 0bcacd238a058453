"""What a threshold should be: parameter stability and mean residual life.

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
from scipy.stats import chi2
from scipy.stats import t as student

from ..checks import check_fraction
from .clusters import check_clusters
from .endpoint import KnownEndpointFit, fit_known_endpoint
from .exceedances import FloatArray, check_values, select_threshold
from .gpd import GPDFit, fit_gpd
from .profile import GPDProfile
from .target import TargetProfile

#: Levels of the threshold that are looked at by default.
QUANTILES = (0.9, 0.95, 0.975, 0.99, 0.995)
#: The upper half of the values, evenly in the logarithm of the share above the threshold.
MEAN_EXCESS_QUANTILES = tuple((1.0 - np.geomspace(0.5, 0.005, 40)).tolist())


@dataclass(frozen=True)
class StabilityPoint:
    """The fits above one threshold.

    Attributes:
        quantile: level of the threshold among the values.
        fit: the generalised Pareto fit; without an estimate in the unbounded regime.
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
    """Mean excess over one threshold.

    Attributes:
        threshold: u, in the units of the values.
        exceedances: number of values strictly above it.
        mean: e(u), in the units of the values.
        low: lower end of the t-interval.
        high: upper end.
        confidence: level of the interval.
    """

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
    floor: float = 1e-6,
) -> list[StabilityPoint]:
    """Shape and modified scale over thresholds.

    Every interval is a profile-likelihood one, so none needs an information matrix, which does
    not exist for shapes at or below -1/2. Where there is no estimate at all, its fields are nan.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        quantiles: levels of the thresholds, ascending.
        endpoint: x_F for the fits with a known endpoint; ``None`` leaves them out.
        confidence: nominal level of every interval.
        floor: least shortfall from the known endpoint.

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
        if endpoint is not None and fit.threshold < endpoint - floor:
            known = fit_known_endpoint(
                array, endpoint=endpoint, quantile=level, confidence=confidence, floor=floor
            )
        points.append(StabilityPoint(level, fit, *_modified_scale(array, fit), known))
    return points


def mean_residual_life(
    values: npt.ArrayLike,
    *,
    quantiles: Sequence[float] = MEAN_EXCESS_QUANTILES,
    clusters: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> list[MeanExcess]:
    """Mean excess over thresholds, with t-intervals.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        quantiles: levels of the thresholds, ascending.
        clusters: label of the cluster each value comes from, shape ``(n,)``, such as its batch.
            The interval is then over clusters (a ratio of sums, linearised, t with one degree of
            freedom less than clusters above the threshold); without labels it takes the values for
            independent.
        confidence: level of every interval.

    Returns:
        One :class:`MeanExcess` per level.

    Raises:
        ValueError: for levels that do not ascend or leave fewer than 2 exceedances (or clusters),
            and values or labels of the wrong form.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    labels = None if clusters is None else check_clusters(clusters, array.size)[:, 0]
    points = []
    for level in _ascending(quantiles):
        u = select_threshold(array, None, level)
        above = array > u
        excesses = array[above] - u
        groups = np.arange(excesses.size) if labels is None else labels[above]
        _, groups = np.unique(groups, return_inverse=True)
        count = int(groups.max(initial=-1)) + 1
        if count < 2:
            raise ValueError(
                f"quantile {level} leaves {count} {'values' if labels is None else 'clusters'} "
                "above the threshold, at least 2 are needed: lower it"
            )
        mean = float(excesses.mean())
        residuals = np.bincount(groups, weights=excesses - mean)
        error = math.sqrt(count / (count - 1) * float(residuals @ residuals)) / excesses.size
        half = float(student.ppf(0.5 + confidence / 2, count - 1)) * error
        points.append(MeanExcess(u, int(excesses.size), mean, mean - half, mean + half, confidence))
    return points


def _ascending(quantiles: Sequence[float]) -> list[float]:
    levels = [float(level) for level in quantiles]
    if not levels or any(b <= a for a, b in itertools.pairwise(levels)):
        raise ValueError(f"quantiles must ascend and not be empty, got {levels}")
    return levels


def _modified_scale(values: FloatArray, fit: GPDFit) -> tuple[float, float, float]:
    """Estimate and interval of sigma - xi u."""
    if fit.regime == "unbounded":
        return math.nan, math.nan, math.nan
    profile = GPDProfile(values[values > fit.threshold] - fit.threshold)
    drop = 0.5 * float(chi2.ppf(fit.confidence, df=1))
    points = profile.scan(drop)
    best = profile.maximum(points)
    if best is None:  # fit_gpd has found one in the same curve
        raise AssertionError("the profile lost its maximum")
    points = sorted([*points, best], key=lambda point: point.s)
    u = fit.threshold / profile.largest

    def curve(shape: FloatArray, value: float) -> tuple[FloatArray, FloatArray]:
        scale = value + shape * u
        with np.errstate(divide="ignore", invalid="ignore"):
            return shape / scale, scale

    estimate = best.scale - best.shape * u
    target = TargetProfile(profile, points, drop, curve)
    step = 0.05 * (abs(estimate) + best.scale)
    low, high = (end * profile.largest for end in target.interval(estimate, step, -math.inf))
    return fit.scale - fit.shape * fit.threshold, low, high
