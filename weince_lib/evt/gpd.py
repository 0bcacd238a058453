"""Peaks over a threshold: the generalised Pareto fit with its profile-likelihood interval.

Above a high threshold u the excesses x - u of any law in a domain of attraction follow, in the
limit, the generalised Pareto distribution (Balkema-de Haan 1974, Pickands 1975),

    P(x - u > y) = (1 + xi y / sigma)_+^(-1/xi),  read as exp(-y / sigma) at xi = 0,

with the shape xi of paper Eq. (2.5): xi < 0 is the Weibull domain, with endpoint u - sigma / xi.
What maximum likelihood is worth depends on xi (Smith 1985, Biometrika 72, 67-90): regular for
xi > -1/2, consistent but irregular for -1 < xi <= -1/2, and without a maximum for xi <= -1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt
from scipy.stats import chi2

from ..checks import check_fraction
from .exceedances import check_values, select_exceedances, select_threshold
from .profile import GPDProfile

Regime = Literal["regular", "irregular", "unbounded"]

#: Smith's bound: at or below it the information is infinite and standard errors mean nothing.
REGULAR_ABOVE = -0.5
#: The least shape the likelihood can bound.
LEAST_SHAPE = -1.0

_NOTES: dict[Regime, str] = {
    "regular": (
        "Regular maximum likelihood (shape > -1/2): the estimate, its standard errors and the "
        "profile interval hold for independent exceedances"
    ),
    "irregular": (
        "Irregular maximum likelihood (-1 < shape <= -1/2): the estimate is consistent and the "
        "profile interval nearly keeps its level, but there is no standard error"
    ),
    "unbounded": (
        "No maximum-likelihood estimate: on shapes >= -1 the likelihood is highest at -1 and below "
        "it is unbounded, so only the interval's upper end is informative; with a known endpoint "
        "use fit_known_endpoint"
    ),
}
_OPEN_BELOW = (
    "; the interval runs into shape -1, below which the likelihood is unbounded, so read it as "
    "open below"
)


@dataclass(frozen=True)
class GPDFit:
    """A generalised Pareto fit above a threshold. Without an estimate its fields are nan.

    Attributes:
        threshold: u, in the units of the values.
        total: number of values.
        exceedances: number of values strictly above the threshold.
        shape: xi; nan in the unbounded regime.
        scale: sigma, in the units of the values; nan in the unbounded regime.
        log_likelihood: at the estimate, of the exceedances in the units of the values; nan in the
            unbounded regime.
        shape_low: lower end of the profile-likelihood interval for xi; -1 exactly where the
            interval runs into that bound, and is then open below.
        shape_high: upper end. In the unbounded regime the drop is taken from the likelihood's
            limit at shape -1, the highest among shapes >= -1.
        shape_standard_error: from the observed information; nan unless regular.
        scale_standard_error: the same for sigma.
        endpoint: u - sigma / xi for xi < 0, otherwise infinity; nan in the unbounded regime.
        confidence: nominal level of the interval.
        regime: ``"regular"`` (xi > -1/2), ``"irregular"`` (-1 < xi <= -1/2) or ``"unbounded"``.
        note: one sentence on what of this is valid.
    """

    threshold: float
    total: int
    exceedances: int
    shape: float
    scale: float
    log_likelihood: float
    shape_low: float
    shape_high: float
    shape_standard_error: float
    scale_standard_error: float
    endpoint: float
    confidence: float
    regime: Regime
    note: str


def fit_gpd(
    values: npt.ArrayLike,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> GPDFit:
    """Fit a generalised Pareto distribution to the exceedances by maximum likelihood.

    The maximum is taken over all shapes above -1, through the one-dimensional profile of
    :class:`weince_lib.evt.profile.GPDProfile`; where the likelihood's limit at -1 is higher than
    every maximum above it, the data are no more compatible with any such shape than with a tail
    too short for maximum likelihood, and no estimate is reported. A change of units changes
    nothing but the units.

    The interval is the profile-likelihood one and never shape +- z standard errors, which at
    shape -0.6 covers 0.55 to 0.65 instead of 0.95. For shapes from 0 to -0.8 the profile interval
    is itself a little short, mostly at its upper end: in simulation 0.95 becomes 0.82 to 0.92 with
    20 exceedances, 0.86 to 0.95 with 100 and 0.89 to 0.95 with 500. It treats the exceedances as
    independent: cosines that share anchors are not, and their interval is shorter still.

    Args:
        values: sample, shape ``(n,)``, any real dtype; its upper tail is fitted.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: nominal level of the interval for the shape.

    Returns:
        A :class:`GPDFit`.

    Raises:
        ValueError: for values that are not a vector of finite real numbers, fewer than 10
            exceedances, exceedances that are all equal, and settings outside their range.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    profile = GPDProfile(select_exceedances(array, u) - u)
    drop = 0.5 * float(chi2.ppf(confidence, df=1))
    points = profile.scan(drop)
    best = profile.maximum(points)
    shape = scale = log_likelihood = shape_error = scale_error = endpoint = math.nan
    regime: Regime = "unbounded"
    if best is not None:
        points = sorted([*points, best], key=lambda point: point.s)
        shape, scale = best.shape, best.scale * profile.largest
        log_likelihood = profile.size * (best.log_likelihood - math.log(profile.largest))
        endpoint = u - scale / shape if shape < 0.0 else math.inf
        regime = "regular" if shape > REGULAR_ABOVE else "irregular"
        if regime == "regular":
            shape_error, scale_error = profile.standard_errors(best)
            scale_error *= profile.largest
    low, high = profile.interval(points, drop)
    note = _NOTES[regime]
    if low == LEAST_SHAPE and regime != "unbounded":
        note += _OPEN_BELOW
    return GPDFit(
        threshold=u,
        total=int(array.size),
        exceedances=profile.size,
        shape=shape,
        scale=scale,
        log_likelihood=log_likelihood,
        shape_low=low,
        shape_high=high,
        shape_standard_error=shape_error,
        scale_standard_error=scale_error,
        endpoint=endpoint,
        confidence=confidence,
        regime=regime,
        note=note + ".",
    )
