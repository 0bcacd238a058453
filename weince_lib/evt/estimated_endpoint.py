"""The endpoint as a parameter: its estimate, its intervals, and the test that it is a given one.

With theta = xi / sigma = -1 / (x_F - u), fixing the endpoint fixes theta, and the best shape is
Grimshaw's mean log(1 + theta y): the known-endpoint estimate. So the profile likelihood over the
endpoint has a closed form, and its highest point is the implied endpoint u - sigma / xi.

Twice the drop of that profile is chi-square with one degree of freedom for xi > -1/2. For
-1 < xi <= -1/2 the largest value carries most of what is known of the endpoint, the estimate nears
it faster than 1 / sqrt(n) and the drop follows another law (Smith 1985); for xi <= -1 there is no
estimate. The largest-share interval (:mod:`weince_lib.evt.largest_share`) is exact for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import chi2

from ..checks import check_fraction
from .exceedances import check_values, select_exceedances, select_threshold
from .gpd import REGULAR_ABOVE, Regime
from .largest_share import endpoint_at_share, share_quantile
from .profile import GPDProfile, ProfilePoint

EndpointMethod = Literal["profile likelihood", "largest share"]


@dataclass(frozen=True)
class EndpointFit:
    """An endpoint estimated from the values above a threshold.

    Attributes:
        threshold: u, in the units of the values.
        total: number of values.
        exceedances: number of values strictly above the threshold.
        largest: the largest value; no endpoint lies below it.
        endpoint: maximum-likelihood estimate u - sigma / xi; infinity for xi >= 0, nan where the
            likelihood has no maximum.
        median_unbiased: the endpoint at which the share of the largest log ratio is its median.
            As often too low as too high, and there for every shape; infinity where the values
            look no lighter-tailed than an exponential law.
        low: lower end of the interval that is valid here.
        high: upper end; infinity where the values do not exclude a tail without an endpoint.
        method: which of the two intervals that is.
        profile_low: lower end by the profile likelihood.
        profile_high: upper end.
        exact_low: lower end by the largest share.
        exact_high: upper end. Both ends are infinite where even the exponential tail is too light
            for the values.
        confidence: level of the intervals.
        regime: as in :class:`weince_lib.evt.GPDFit`.
        note: one sentence on what of this is valid.
    """

    threshold: float
    total: int
    exceedances: int
    largest: float
    endpoint: float
    median_unbiased: float
    low: float
    high: float
    method: EndpointMethod
    profile_low: float
    profile_high: float
    exact_low: float
    exact_high: float
    confidence: float
    regime: Regime
    note: str


_NOTES: dict[Regime, str] = {
    "regular": (
        "Shape above -1/2: the profile-likelihood interval holds for independent exceedances of a "
        "generalised Pareto tail"
    ),
    "irregular": (
        "Shape at or below -1/2: the drop in likelihood is not chi-square there, so the interval "
        "is the largest-share one, exact for independent exceedances of a power tail"
    ),
    "unbounded": (
        "No maximum-likelihood estimate (shape at or below -1): use the median-unbiased one; the "
        "interval is the largest-share one, exact for independent exceedances of a power tail"
    ),
}


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
    Values that tie at the largest, as rounded or duplicated ones do, pull both intervals to it;
    the note counts them. Both treat the exceedances as independent.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: level of the intervals.

    Returns:
        An :class:`EndpointFit`, in the units of the values.

    Raises:
        ValueError: as :func:`weince_lib.evt.fit_gpd`.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    excesses = select_exceedances(array, u) - u
    profile = GPDProfile(excesses)
    drop = 0.5 * float(chi2.ppf(confidence, df=1))
    points = profile.scan(drop)
    best = profile.maximum(points)
    endpoint = math.nan
    regime: Regime = "unbounded"
    if best is not None:
        points = sorted([*points, best], key=lambda point: point.s)
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
    note = _NOTES[regime]
    ties = int(np.count_nonzero(unit == 1.0))
    if ties > 1:
        note += (
            f"; {ties} values tie at the largest (rounded or duplicated), which both intervals "
            "read as an endpoint next to it"
        )
    return EndpointFit(
        threshold=u,
        total=int(array.size),
        exceedances=profile.size,
        largest=u + profile.largest,
        endpoint=endpoint,
        median_unbiased=median,
        low=profile_low if by_profile else exact_low,
        high=profile_high if by_profile else exact_high,
        method="profile likelihood" if by_profile else "largest share",
        profile_low=profile_low,
        profile_high=profile_high,
        exact_low=exact_low,
        exact_high=exact_high,
        confidence=confidence,
        regime=regime,
        note=note + ".",
    )


def endpoint_interval(
    profile: GPDProfile, points: list[ProfilePoint], drop: float
) -> tuple[float, float]:
    """Least and greatest endpoint within ``drop`` of the highest likelihood.

    Args:
        profile: of the excesses.
        points: a scan of the profile with its maximum, ascending.
        drop: in nats of the whole sample.

    Returns:
        x_F - u in units of the largest excess; the least is 1, the greatest may be infinity.
    """
    level = max(0.0, *(p.log_likelihood for p in points)) - drop / profile.size
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
