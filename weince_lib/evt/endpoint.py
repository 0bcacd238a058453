"""The endpoint of a tail: known, estimated, or to be tested.

**Known**, as it is for a cosine: x_F = 1. With
P(X > x | X > u) = ((x_F - x) / (x_F - u))^beta for u < x < x_F, the logarithms
Z = log((x_F - u) / (x_F - x)) are exponential with mean -xi = 1 / beta. So the maximum-likelihood
estimate is their mean (the Hill estimator of the shortfalls; Levina and Bickel 2004),

    xi_hat = -mean log((x_F - u) / (x_F - x)),    n xi_hat / xi ~ Gamma(n, 1),

and the interval is exact for every xi < 0, also below -1 where the generalised Pareto likelihood
has no maximum. It is biased if the endpoint is wrong or the tail not yet a power of the shortfall.

**Estimated.** With theta = xi / sigma = -1 / (x_F - u), fixing the endpoint fixes theta, and the
best shape is Grimshaw's mean log(1 + theta y): the known-endpoint estimate. So the profile
likelihood over the endpoint has a closed form, and its highest point is the implied endpoint
u - sigma / xi. Twice the drop of that profile is chi-square with one degree of freedom for
xi > -1/2. For -1 < xi <= -1/2 the largest value carries most of what is known of the endpoint, the
estimate nears it faster than 1 / sqrt(n) and the drop follows another law (Smith 1985); for
xi <= -1 there is no estimate.

**An exact pivot** for all of them. For Z_1..Z_n independent and exponential with one unknown mean,
the share G = max Z / sum Z of the largest does not depend on that mean (Fisher 1929, Proc. R. Soc.
A 125, 54-59):

    P(G > g) = sum_{j >= 1, j g < 1} (-1)^(j-1) C(n, j) (1 - j g)^(n-1).

At the right endpoint the Z above are such variables whatever the shape, so G tests an endpoint
and, turned round, gives an exact interval.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gammaincinv, gammaln
from scipy.stats import chi2

from ..checks import FloatArray, check_finite, check_fraction, check_positive, check_values
from .gpd import (
    REGULAR_ABOVE,
    GPDProfile,
    ProfilePoint,
    Regime,
    likelihood_drop,
    select_exceedances,
    select_threshold,
)

#: Least shortfall from a known endpoint: what a float32 cosine resolves and what the losses use.
FLOOR = 1e-6
#: Terms of the alternating sum that are looked at; near the quantiles in use about 20 count.
_TERMS = 400
#: Above this bound on the sum of the terms' sizes their cancellation costs digits that matter.
_SAFE_SUM = 1e8


@dataclass(frozen=True)
class KnownEndpointFit:
    """A power-law tail in the shortfall from a known endpoint, above a threshold.

    Attributes:
        threshold: u, in the units of the values.
        endpoint: x_F, in the units of the values.
        exceedances: number n of values strictly above the threshold.
        floored: exceedances nearer to the endpoint than the floor, set to the floor; with any of
            them the interval is only approximate.
        shape: xi_hat < 0.
        shape_low: lower end of the exact interval for xi.
        shape_high: upper end.
        beta: tail index -1 / xi_hat; the maximum-likelihood estimate.
    """

    threshold: float
    endpoint: float
    exceedances: int
    floored: int
    shape: float
    shape_low: float
    shape_high: float
    beta: float


def fit_known_endpoint(
    values: npt.ArrayLike,
    *,
    endpoint: float = 1.0,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
    floor: float = FLOOR,
) -> KnownEndpointFit:
    """Estimate the shape of a tail whose endpoint is known.

    The interval is exact for independent exceedances whose tail is a power of the shortfall. It is
    too short for cosines that share anchors, and biased if the endpoint is wrong.

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
    u, shortfall = select_shortfalls(values, endpoint, threshold, quantile, floor)
    log_ratio = np.log((endpoint - u) / np.maximum(shortfall, floor))
    n = int(log_ratio.size)
    total_log = float(log_ratio.sum())
    tail = 0.5 * (1.0 - confidence)
    return KnownEndpointFit(
        threshold=u,
        endpoint=float(endpoint),
        exceedances=n,
        floored=int(np.count_nonzero(shortfall < floor)),
        shape=-total_log / n,
        shape_low=-total_log / float(gammaincinv(n, tail)),
        shape_high=-total_log / float(gammaincinv(n, 0.5 * (1.0 + confidence))),
        beta=n / total_log,
    )


def select_shortfalls(
    values: npt.ArrayLike,
    endpoint: float,
    threshold: float | None,
    quantile: float,
    floor: float,
) -> tuple[float, FloatArray]:
    """Check what a fit with a known endpoint needs.

    Returns:
        The threshold, and the shortfalls x_F - x of the exceedances, which are not floored yet.

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
    return u, endpoint - select_exceedances(array, u)


def nearest_tail_index(shortfall: npt.ArrayLike, tail: int) -> FloatArray:
    """Tail index of each anchor from its nearest candidates (Hill; Levina and Bickel 2004).

        beta_hat = k / sum_{m <= k} log(delta_(k+1) / delta_(m)).

    This is :func:`fit_known_endpoint` for each anchor alone, without an interval. For independent
    shortfalls with an exact power law, k beta / beta_hat is Gamma(k, 1). As the shortfall is half a
    squared chord, twice the tail index is the local intrinsic dimension; on the sphere in R^d it is
    d - 1.

    Args:
        shortfall: 1 - cosine to every candidate, shape ``(anchors, candidates)``, positive.
        tail: k, from 2 to the number of candidates less one.

    Returns:
        Shape ``(anchors,)``.

    Raises:
        ValueError: for another shape, a tail that does not fit, or a shortfall that is not positive
            and finite (leave the anchor itself and its exact duplicates out).
    """
    shortfall = np.asarray(shortfall, dtype=np.float64)
    if shortfall.ndim != 2:
        raise ValueError(f"shortfall must have shape (anchors, candidates), got {shortfall.shape}")
    if not 2 <= tail < shortfall.shape[1]:
        raise ValueError(
            f"tail must lie between 2 and {shortfall.shape[1] - 1} for {shortfall.shape[1]} "
            f"candidates, got {tail}"
        )
    nearest = np.sort(np.partition(shortfall, tail, axis=1)[:, : tail + 1], axis=1)
    if not (np.isfinite(nearest).all() and (nearest > 0.0).all()):
        raise ValueError(
            "shortfalls must be positive and finite; leave the anchor itself and its exact "
            "duplicates out"
        )
    if not (nearest[:, 0] < nearest[:, -1]).all():
        raise ValueError("an anchor's nearest shortfalls are all equal; take a longer tail")
    return np.asarray(tail / np.log(nearest[:, -1:] / nearest[:, :-1]).sum(axis=1))


@dataclass(frozen=True)
class EndpointFit:
    """An endpoint estimated from the values above a threshold.

    Attributes:
        threshold: u, in the units of the values.
        exceedances: number of values strictly above the threshold.
        endpoint: maximum-likelihood estimate u - sigma / xi; infinity for xi >= 0, nan where the
            likelihood has no maximum (shape at or below -1).
        median_unbiased: the endpoint at which the share of the largest log ratio is its median.
            As often too low as too high, and there for every shape; infinity where the values
            look no lighter-tailed than an exponential law.
        low: lower end of the interval that is valid here: the profile likelihood's for shapes above
            -1/2, the largest share's for others.
        high: upper end; infinity where the values do not exclude a tail without an endpoint.
        profile_low: lower end by the profile likelihood.
        profile_high: upper end.
        exact_low: lower end by the largest share.
        exact_high: upper end. Both ends are infinite where even the exponential tail is too light
            for the values.
        regime: as in :class:`weince_lib.evt.GPDFit`.
    """

    threshold: float
    exceedances: int
    endpoint: float
    median_unbiased: float
    low: float
    high: float
    profile_low: float
    profile_high: float
    exact_low: float
    exact_high: float
    regime: Regime


def fit_endpoint(
    values: npt.ArrayLike,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> EndpointFit:
    """Estimate the endpoint of a tail and give the interval that is valid for its shape.

    The shape says which interval holds, and the shape is itself estimated: near -1/2 look at both.
    In simulation the profile interval's 0.95 becomes 0.88 at shape -0.8, 0.92 at -0.6 and 0.93 to
    0.94 from -0.4 to -0.2 with 100 exceedances, the one chosen here 0.94 to 0.97; the largest-share
    interval keeps 0.95 throughout and is about 1.3 times as long.
    Values that tie at the largest, as rounded or duplicated ones do, pull both intervals to it.
    Both treat the exceedances as independent.

    Arguments and errors are those of :func:`weince_lib.evt.fit_gpd`.

    Returns:
        An :class:`EndpointFit`, in the units of the values.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    excesses = select_exceedances(array, u) - u
    profile = GPDProfile(excesses)
    drop = likelihood_drop(confidence)
    points, best = profile.solve(drop)
    endpoint = math.nan
    regime: Regime = "unbounded"
    if best is not None:
        endpoint = u - profile.largest / math.expm1(best.s) if best.shape < 0.0 else math.inf
        regime = "regular" if best.shape > REGULAR_ABOVE else "irregular"
    unit = excesses / profile.largest
    tail = 0.5 * (1.0 - confidence)
    ends = [
        endpoint_at_share(unit, share_quantile(level, profile.size))
        for level in (1.0 - tail, 0.5, tail)
    ]
    exact_low, median, exact_high = (u + profile.largest * end for end in ends)
    profile_low, profile_high = (
        u + profile.largest * end for end in endpoint_interval(profile, points, drop)
    )
    by_profile = regime == "regular"
    return EndpointFit(
        threshold=u,
        exceedances=profile.size,
        endpoint=endpoint,
        median_unbiased=median,
        low=profile_low if by_profile else exact_low,
        high=profile_high if by_profile else exact_high,
        profile_low=profile_low,
        profile_high=profile_high,
        exact_low=exact_low,
        exact_high=exact_high,
        regime=regime,
    )


def endpoint_interval(
    profile: GPDProfile, points: list[ProfilePoint], drop: float
) -> tuple[float, float]:
    """Least and greatest endpoint within ``drop`` nats of the highest likelihood.

    Returns:
        x_F - u in units of the largest excess; the least is 1, the greatest may be infinity.
    """
    level = profile.level(points, drop)
    heights = [profile.endpoint_log_likelihood(p.s, p.mean_log) for p in points]
    inside = [k for k, height in enumerate(heights) if height >= level]
    if not inside:
        return 1.0, 1.0

    def crossing(left: ProfilePoint, right: ProfilePoint) -> float:
        s = brentq(
            lambda s: profile.endpoint_log_likelihood(s) - level, left.s, right.s, xtol=1e-11
        )
        return math.inf if s >= 0.0 else -1.0 / math.expm1(float(s))

    first, last = inside[0], inside[-1]
    low = 1.0
    if level > 0.0 and first > 0:
        low = crossing(points[first - 1], points[first])
    if points[last].s >= 0.0:
        return low, math.inf
    return low, crossing(points[last], points[last + 1])


@dataclass(frozen=True)
class EndpointTest:
    """The test of a tail's endpoint against any other endpoint, or none.

    Attributes:
        floored: exceedances nearer to the endpoint than the floor, set to the floor.
        shape: estimate of xi when the endpoint is the given one.
        statistic: likelihood ratio, twice the gain of a free endpoint in nats; nan where that
            shape is at or below -1, as the likelihood is then unbounded.
        p_chi_square: of the ratio by chi-square with one degree of freedom, for large samples and
            shapes above -1/2.
        p_exact: two-sided, by the share of the largest log ratio; valid for every xi < 0.
        p_value: the one to use: ``p_chi_square`` for shapes above -1/2, else ``p_exact``.
    """

    floored: int
    shape: float
    statistic: float
    p_chi_square: float
    p_exact: float
    p_value: float


def endpoint_test(
    values: npt.ArrayLike,
    *,
    endpoint: float = 1.0,
    threshold: float | None = None,
    quantile: float = 0.99,
    floor: float = FLOOR,
) -> EndpointTest:
    """Test whether a tail ends at a given point.

    Under the hypothesis the log ratios log((x_F - u) / (x_F - x)) are exponential with mean -xi. A
    small p-value says that they are not: the endpoint is another one, there is none, or the tail
    above this threshold is not yet a power of the shortfall. Exceedances count as independent.
    Arguments and errors are those of :func:`fit_known_endpoint`, ``endpoint`` the one under test.
    """
    u, shortfall = select_shortfalls(values, endpoint, threshold, quantile, floor)
    # In units of the distance from the threshold to the endpoint, where the endpoint is 1.
    excesses = 1.0 - np.maximum(shortfall, floor) / (endpoint - u)
    shape = float(np.log1p(-excesses).mean())
    statistic = likelihood_ratio(excesses)
    p_chi_square = float(chi2.sf(statistic, df=1))
    largest = float(excesses.max())
    survival = share_survival(largest_share(excesses / largest, 1.0 / largest), shortfall.size)
    p_exact = 2.0 * min(survival, 1.0 - survival)
    return EndpointTest(
        floored=int(np.count_nonzero(shortfall < floor)),
        shape=shape,
        statistic=statistic,
        p_chi_square=p_chi_square,
        p_exact=p_exact,
        p_value=p_chi_square if shape > REGULAR_ABOVE else p_exact,
    )


def likelihood_ratio(excesses: FloatArray) -> float:
    """Twice the log-likelihood a free endpoint gains over the endpoint 1.

    Both likelihoods are over shapes above -1 alone; where the shape at the endpoint 1 is at or
    below -1 the ratio is nan. ``excesses`` lie in (0, 1), in units of the distance to the endpoint.
    """
    shape = float(np.log1p(-excesses).mean())
    if shape <= -1.0:
        return math.nan
    profile = GPDProfile(excesses)
    # Only the maximum is wanted, so the scan need not bracket an interval.
    fixed = -math.log(-shape) - shape - 1.0
    best = profile.maximum(profile.scan(0.0))
    highest = (best.log_likelihood if best is not None else 0.0) - math.log(profile.largest)
    return 2.0 * profile.size * max(0.0, highest - fixed)


def share_survival(share: float, n: int) -> float:
    """P(G > share) for n >= 2 exponential variables, to about 1e-8."""
    if share <= 1.0 / n:
        return 1.0
    if share >= 1.0:
        return 0.0
    j = np.arange(1, min(n, _TERMS, math.ceil(1.0 / share) - 1) + 1, dtype=np.float64)
    log_terms = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    log_terms += (n - 1) * np.log1p(-j * share)
    # Terms this large belong to a share far in the lower tail, where the answer is 1.
    if float(log_terms.max()) > math.log(_SAFE_SUM):
        return 1.0
    signs = np.where(j % 2 == 1, 1.0, -1.0)
    return min(1.0, max(0.0, float((signs * np.exp(log_terms)).sum())))


@functools.lru_cache(maxsize=4096)
def share_quantile(probability: float, n: int) -> float:
    """The g with P(G <= g) = probability, for n exponential variables."""
    found = brentq(
        lambda log_g: share_survival(math.exp(log_g), n) - (1.0 - probability),
        -math.log(n),
        0.0,
        xtol=1e-13,
    )
    return math.exp(float(found))


def largest_share(unit: FloatArray, endpoint: float) -> float:
    """The share G of the largest log ratio for an endpoint.

    Args:
        unit: excesses over the threshold divided by their largest, shape ``(n,)``.
        endpoint: x_F - u in the same units, above 1; infinity gives the exponential tail, whose Z
            are the excesses themselves.
    """
    if math.isinf(endpoint):
        return 1.0 / float(unit.sum())
    logs = -np.log1p(-unit / endpoint)
    return float(logs.max() / logs.sum())


def endpoint_at_share(unit: FloatArray, share: float) -> float:
    """The endpoint at which the largest log ratio has this share; G falls as the endpoint rises.

    Returns:
        x_F - u in units of the largest excess; infinity where no finite endpoint gives so small a
        share.
    """
    if share <= largest_share(unit, math.inf):
        return math.inf
    # log(x_F - x_max), so that endpoints next to the largest value keep their digits.
    rest = np.sort(1.0 - unit)[1:]

    def excess_share(log_gap: float) -> float:
        gap = math.exp(log_gap)
        log_top = math.log1p(gap)
        largest = log_top - log_gap
        others = log_top - np.log(rest + gap)
        return largest / (largest + float(others.sum())) - share

    low, high = 0.0, 0.0
    while excess_share(low) < 0.0:
        low -= 8.0
        if low < -700.0:
            return 1.0
    while excess_share(high) > 0.0:
        high += 4.0
        if high > 40.0:
            return math.inf
    return 1.0 + math.exp(float(brentq(excess_share, low, high, xtol=1e-12)))
