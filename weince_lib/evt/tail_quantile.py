"""High quantiles (return levels) of a sample, read off its generalised Pareto tail.

With the share zeta of values above u, the value exceeded with probability p < zeta is

    x_p = u + sigma ((zeta / p)^xi - 1) / xi,    u + sigma log(zeta / p) at xi = 0,

the m-observation return level for p = 1 / m (Coles 2001, Eq. 4.12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from .exceedances import (
    FloatArray,
    check_confidence,
    check_values,
    select_exceedances,
    select_threshold,
)
from .gpd import REGULAR_ABOVE, Regime
from .profile import GPDProfile
from .target import TargetProfile


@dataclass(frozen=True)
class TailQuantile:
    """A high quantile with its profile-likelihood interval.

    Attributes:
        probability: p, with which a value exceeds the quantile.
        quantile: x_p, in the units of the values; nan in the unbounded regime.
        low: lower end of the interval; nan in the unbounded regime.
        high: upper end.
        threshold: u.
        exceedances: number of values strictly above the threshold.
        confidence: nominal level of the interval.
        regime: as in :class:`weince_lib.evt.GPDFit`.
        note: one sentence on what of this is valid.
    """

    probability: float
    quantile: float
    low: float
    high: float
    threshold: float
    exceedances: int
    confidence: float
    regime: Regime
    note: str


_NOTES: dict[Regime, str] = {
    "regular": "Profile-likelihood interval, given the share of values above the threshold",
    "irregular": (
        "Profile-likelihood interval at a shape at or below -1/2: near the endpoint it is too "
        "short; there use the largest-share interval of fit_endpoint"
    ),
    "unbounded": (
        "No maximum-likelihood estimate (shape at or below -1): use an order statistic, or the "
        "known endpoint"
    ),
}


def fit_tail_quantile(
    values: npt.ArrayLike,
    probability: float,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> TailQuantile:
    """Estimate the value exceeded with a small probability.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        probability: p, below the share of values above the threshold; 1 / m gives the level
            exceeded once in m values.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: nominal level of the interval. It takes the exceedances as independent and
            their share as known.

    Returns:
        A :class:`TailQuantile`.

    Raises:
        ValueError: for a probability that is not positive or not below the share of exceedances,
            and as :func:`weince_lib.evt.fit_gpd`.
    """
    check_confidence(confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    excesses = select_exceedances(array, u) - u
    share = excesses.size / array.size
    if not 0.0 < probability < share:
        raise ValueError(
            f"probability must lie between 0 and the share {share:.6g} of values above the "
            f"threshold, got {probability}; within the sample an order statistic does it"
        )
    profile = GPDProfile(excesses)
    drop = 0.5 * float(chi2.ppf(confidence, df=1))
    points = profile.scan(drop)
    best = profile.maximum(points)
    estimate = low = high = math.nan
    regime: Regime = "unbounded"
    if best is not None:
        points = sorted([*points, best], key=lambda point: point.s)
        regime = "regular" if best.shape > REGULAR_ABOVE else "irregular"
        log_rarity = math.log(share / probability)
        growth = math.expm1(best.shape * log_rarity) / best.shape if best.shape else log_rarity
        height = best.scale * growth

        def curve(s: FloatArray, value: float) -> tuple[FloatArray, FloatArray]:
            theta = np.expm1(s)
            with np.errstate(divide="ignore", invalid="ignore"):
                shape = np.log1p(theta * value) / log_rarity
                return theta, np.where(theta == 0.0, value / log_rarity, shape / theta)

        ends = TargetProfile(profile, points, drop, curve).interval(height, 0.05 * height, 0.0)
        estimate, low, high = (u + profile.largest * x for x in (height, *ends))
    return TailQuantile(
        probability=probability,
        quantile=estimate,
        low=low,
        high=high,
        threshold=u,
        exceedances=profile.size,
        confidence=confidence,
        regime=regime,
        note=_NOTES[regime] + ".",
    )
