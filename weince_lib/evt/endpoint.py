"""The tail index when the endpoint is known, as it is for a cosine: x_F = 1.

With P(X > x | X > u) = ((x_F - x) / (x_F - u))^beta for u < x < x_F, the logarithms
log((x_F - u) / (x_F - x)) are exponential with mean -xi = 1 / beta. So the maximum-likelihood
estimate is their mean (the Hill estimator of the shortfalls; Levina and Bickel 2004),

    xi_hat = -mean log((x_F - u) / (x_F - x)),    n xi_hat / xi ~ Gamma(n, 1),

and the interval is exact for every xi < 0, also below -1 where the generalised Pareto likelihood
has no maximum. It is biased if the endpoint is wrong or the tail not yet a power of the shortfall.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from ..checks import check_finite, check_fraction, check_positive
from .exceedances import FloatArray, check_values, select_exceedances, select_threshold


@dataclass(frozen=True)
class KnownEndpointFit:
    """A power-law tail in the shortfall from a known endpoint, above a threshold.

    Attributes:
        threshold: u, in the units of the values.
        endpoint: x_F, in the units of the values.
        total: number of values.
        exceedances: number n of values strictly above the threshold.
        floored: exceedances nearer to the endpoint than the floor, set to the floor.
        shape: xi_hat < 0.
        shape_low: lower end of the exact interval for xi.
        shape_high: upper end.
        beta: tail index -1 / xi_hat; the maximum-likelihood estimate.
        beta_low: lower end of the exact interval for beta, -1 / shape_low.
        beta_high: upper end, -1 / shape_high.
        confidence: level of the interval.
        note: one sentence on what of this is valid.
    """

    threshold: float
    endpoint: float
    total: int
    exceedances: int
    floored: int
    shape: float
    shape_low: float
    shape_high: float
    beta: float
    beta_low: float
    beta_high: float
    confidence: float
    note: str


def fit_known_endpoint(
    values: npt.ArrayLike,
    *,
    endpoint: float = 1.0,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
    floor: float = 1e-6,
) -> KnownEndpointFit:
    """Estimate the shape of a tail whose endpoint is known.

    The interval treats the exceedances as independent: cosines that share anchors are not, and
    their interval is too short.

    Args:
        values: sample, shape ``(n,)``, any real dtype; its upper tail is fitted.
        endpoint: x_F; 1 is the cap of a cosine.
        threshold: u, below the endpoint; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: level of the interval.
        floor: least shortfall x_F - x, in the units of the values. The default is what a float32
            cosine resolves and what the losses use. Exact duplicates, and values that rounding
            has put above the endpoint by no more than this, count as one floor below it.

    Returns:
        A :class:`KnownEndpointFit`.

    Raises:
        ValueError: for values that are not a vector of finite real numbers, a value above the
            endpoint by more than ``floor``, fewer than 10 exceedances, a threshold not below the
            endpoint, and settings outside their range.
    """
    check_fraction("confidence", confidence)
    array, u, shortfall = select_shortfalls(values, endpoint, threshold, quantile, floor)
    floored = int(np.count_nonzero(shortfall < floor))
    log_ratio = np.log((endpoint - u) / np.maximum(shortfall, floor))
    n = int(log_ratio.size)
    total_log = float(log_ratio.sum())
    gamma_low = float(gammaincinv(n, 0.5 * (1.0 - confidence)))
    gamma_high = float(gammaincinv(n, 0.5 * (1.0 + confidence)))
    note = (
        "The interval is exact for independent exceedances whose tail is a power of the shortfall "
        f"from {endpoint:g}, and biased if that endpoint is wrong"
    )
    if floored:
        note += (
            f"; here it is only approximate, as {floored} of {n} exceedances were floored at a "
            f"shortfall of {floor:g}"
        )
    return KnownEndpointFit(
        threshold=u,
        endpoint=float(endpoint),
        total=int(array.size),
        exceedances=n,
        floored=floored,
        shape=-total_log / n,
        shape_low=-total_log / gamma_low,
        shape_high=-total_log / gamma_high,
        beta=n / total_log,
        beta_low=gamma_low / total_log,
        beta_high=gamma_high / total_log,
        confidence=confidence,
        note=note + ".",
    )


def sphere_tail_index(dimension: int) -> float:
    """Tail index beta = (d - 1) / 2 of the cosine between a fixed and a uniform direction in R^d.

    The cosine s has density proportional to (1 - s^2)^((d - 3) / 2), so P(1 - s <= x) falls like
    x^((d - 1) / 2): a tail whose answer is known (paper Eq. 2.5 with endpoint 1).

    Args:
        dimension: d of the ambient space, at least 2 (on a line there is no angle).

    Raises:
        ValueError: for a dimension below 2.
        TypeError: for a dimension that is not an integer.
    """
    d = operator.index(dimension)
    if d < 2:
        raise ValueError(f"dimension must be at least 2, got {dimension}")
    return (d - 1) / 2


def sphere_shape(dimension: int) -> float:
    """Shape xi = -1 / beta = -2 / (d - 1) of the same cosine.

    Args:
        dimension: d of the ambient space, at least 2.

    Raises:
        ValueError: for a dimension below 2.
        TypeError: for a dimension that is not an integer.
    """
    return -1.0 / sphere_tail_index(dimension)


def select_shortfalls(
    values: npt.ArrayLike,
    endpoint: float,
    threshold: float | None,
    quantile: float,
    floor: float,
) -> tuple[FloatArray, float, FloatArray]:
    """Check everything a fit with a known endpoint needs, and select its exceedances.

    Args:
        values: sample, shape ``(n,)``.
        endpoint: x_F.
        threshold: u, or ``None`` for the quantile.
        quantile: level of the threshold when none is given.
        floor: how far a value may lie above the endpoint, and a threshold must lie below it.

    Returns:
        The checked values, the threshold, and the shortfalls x_F - x of the exceedances, which are
        not floored yet.

    Raises:
        ValueError: as :func:`fit_known_endpoint`.
    """
    check_finite("endpoint", endpoint)
    check_positive("floor", floor)
    array = check_values(values)
    above = array > endpoint + floor
    if above.any():
        index = int(np.argmax(above))
        raise ValueError(
            f"values[{index}] = {array[index]:.9g} lies above the endpoint {endpoint:g}, as do "
            f"{int(above.sum())} of {array.size} values; is the endpoint right, are the vectors "
            "normalised?"
        )
    u = select_threshold(array, threshold, quantile)
    if u >= endpoint - floor:
        raise ValueError(
            f"the threshold {u:.9g} lies within {floor:g} of the endpoint {endpoint:g}: nothing of "
            "the tail is left above it; lower the quantile or the threshold"
        )
    return array, u, endpoint - select_exceedances(array, u)
