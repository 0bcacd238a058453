"""One parameter's profile: the blend weight of H1, the exponent of the power link, and others.

The log-likelihood is maximised over everything else at each value of the parameter. Its interval
is where the profile lies within chi2_1 / 2 of its maximum. That takes the anchors for independent
choices, which they are not: those of a batch share candidates, and all share an encoder. Read it
as the interval of this bank's maximum and no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.stats import chi2

from ..checks import check_fraction
from .choice_bank import Array, ChoiceBank
from .link_fit import FLOOR, Coordinate, Design, LinkFit, fit_link, power_coordinate


@dataclass(frozen=True)
class ProfileEstimate:
    """A parameter with its profile-likelihood interval.

    Attributes:
        value: maximum-likelihood estimate.
        low: lower end; the range's own end where the profile does not fall far enough, NaN where
            none was asked for.
        high: upper end, likewise.
        fit: the other parameters there.
    """

    value: float
    low: float
    high: float
    fit: LinkFit


def profile_blend(bank: ChoiceBank, *, confidence: float = 0.95) -> ProfileEstimate:
    """Lambda of H1 with its profile interval in [0, 1].

    Args:
        bank: the choices it is fitted to.
        confidence: nominal level, for independent anchors (see the module).

    Returns:
        The estimate; ``fit`` holds H1's two weights.
    """
    design = Design(bank, ("identity", "shortfall"))
    best = fit_link(design)
    lam = float(best.blend[1])
    if not math.isfinite(lam):
        raise ValueError(
            "winners score no higher than chance, so there is no link whose blend could be fitted"
        )

    def deviance(weight: float) -> float:
        mixed = design.mixed((1.0 - weight, weight))
        fit = fit_link(mixed, np.array([1.0 / best.temperature]))
        return 2.0 * (best.log_likelihood - fit.log_likelihood)

    low, high = _interval(deviance, lam, (0.0, 1.0), confidence)
    return ProfileEstimate(lam, low, high, best)


def fit_power(
    bank: ChoiceBank, *, bounds: tuple[float, float] = (-1.0, 3.0), confidence: float | None = 0.95
) -> ProfileEstimate:
    """The power link: softmax of (1 - (1 - s)^gamma) / (gamma tau), with gamma free.

    It has as many parameters as H1 and softmax inside (gamma = 1). An estimate at or below 0 says
    endpoint, one between 0 and 1 says sharper at the top without one.

    Args:
        bank: the choices it is fitted to.
        bounds: range of gamma. Below -1 the coordinate of a pair at the floor exceeds 1e6.
        confidence: of the profile interval, for independent anchors; None leaves it out.
    """

    def fit(gamma: float, start: Array | None) -> LinkFit:
        return fit_link(Design(bank, (power_coordinate(gamma),)), start)

    return _profile(fit, bounds, confidence)


def nearness(bank: ChoiceBank, share: float = 0.1) -> Array:
    """How near an anchor's closest candidates are: log of the mean of its smallest shortfalls.

    The winner counts as one of the candidates, so that nothing here knows who won.

    Args:
        bank: the choices.
        share: of the candidates that count as close; a tenth, as in the paper's tail size.

    Returns:
        Shape ``(batches, anchors)``.
    """
    shortfall = np.maximum(1.0 - bank.scores, FLOOR)
    shortfall[..., 1:][bank.identical] = 2.0  # no candidates, so the farthest of all
    count = max(1, round(share * shortfall.shape[-1]))
    closest = np.partition(shortfall, count - 1, axis=-1)[..., :count]
    return np.asarray(np.log(closest.mean(axis=-1)))


@dataclass(frozen=True)
class AnchorTemperature:
    """An inverse temperature of each anchor's own, exp(-kappa (u_i - centre)) / tau.

    u_i is :func:`nearness`; kappa = 0 is one temperature for all.
    """

    kappa: float
    centre: float

    def factor(self, bank: ChoiceBank) -> Array:
        """Multiplies the anchors' logits, shape ``(batches, anchors)``."""
        return np.asarray(np.exp(-self.kappa * (nearness(bank) - self.centre)))


def fit_anchor_temperature(
    bank: ChoiceBank,
    coordinates: tuple[str | Coordinate, ...] = ("identity",),
    *,
    bounds: tuple[float, float] = (-2.0, 3.0),
    confidence: float | None = None,
) -> tuple[AnchorTemperature, ProfileEstimate]:
    """Let the temperature depend on the anchor, tau_i = tau exp(kappa (u_i - mean u)).

    One winner per anchor cannot tell a temperature of its own; how near its closest candidates are
    can. With the identity coordinate this is a softmax with as many parameters as H1; with H1's
    coordinates it asks whether the endpoint is still seen once temperatures may differ.

    Args:
        bank: the choices it is fitted to.
        coordinates: of the link.
        bounds: range of kappa.
        confidence: of kappa's profile interval, for independent anchors; None leaves it out.
    """
    plain = Design(bank, coordinates)
    near = nearness(bank)
    centre = float(near.mean())

    def fit(kappa: float, start: Array | None) -> LinkFit:
        return fit_link(plain.scaled(np.exp(-kappa * (near - centre))), start)

    found = _profile(fit, bounds, confidence)
    return AnchorTemperature(found.value, centre), found


def _profile(
    fit: Callable[[float, Array | None], LinkFit],
    bounds: tuple[float, float],
    confidence: float | None,
) -> ProfileEstimate:
    weights: Array | None = None

    def log_likelihood(x: float) -> float:
        # Neighbouring values have neighbouring weights: each fit starts from the last one.
        nonlocal weights
        found = fit(float(x), weights)
        weights = found.theta
        return found.log_likelihood

    found = optimize.minimize_scalar(
        lambda x: -log_likelihood(x), bounds=bounds, method="bounded", options={"xatol": 1e-3}
    )
    value = float(found.x)
    best = fit(value, weights)
    low, high = math.nan, math.nan
    if confidence is not None:
        low, high = _interval(
            lambda x: 2.0 * (best.log_likelihood - log_likelihood(x)), value, bounds, confidence
        )
    return ProfileEstimate(value, low, high, best)


def _interval(
    deviance: Callable[[float], float],
    best: float,
    bounds: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Where the deviance reaches the quantile of chi2_1 on either side of its minimum."""
    check_fraction("confidence", confidence)
    limit = float(chi2.ppf(confidence, df=1))
    ends = []
    for bound in bounds:
        if abs(bound - best) < 1e-9:
            ends.append(bound)
            continue
        # Step out from the estimate: the ends are near it, and a root finder between is fast.
        inner, width = best, 0.05 * (bound - best)
        outer = best + width
        while abs(outer - best) < abs(bound - best) and deviance(outer) < limit:
            inner, width = outer, 2.0 * width
            outer = best + width
        if abs(outer - best) >= abs(bound - best):
            outer = bound
            if deviance(bound) < limit:
                ends.append(bound)
                continue
        root = optimize.brentq(lambda x: deviance(float(x)) - limit, inner, outer, xtol=1e-4)
        ends.append(float(root))
    return ends[0], ends[1]
