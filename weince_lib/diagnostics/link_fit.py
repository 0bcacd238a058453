"""Links from scores to winning probabilities: fits by maximum likelihood, and profiles.

Every link here is a softmax over candidates of a sum of coordinates with weights that are not
negative,

    p_ij proportional to exp(sum_c theta_c x_c(s_ij)),  theta_c >= 0,

so that its log-likelihood is concave in theta. H0 of paper section 2.3.2 has one coordinate,
x = s with theta = 1 / tau_0. H1 has two, s and the shortfall coordinate g(s) = -log(1 - s):
softmax(T_lambda(s) / tau_1) with T_lambda(s) = (1 - lambda) s + lambda g(s) is theta =
((1 - lambda), lambda) / tau_1, so that tau_1 = 1 / sum(theta) and lambda = theta_g / sum(theta).
(The paper's display of T_lambda is missing from our source; this form is the convex combination
that its text describes.)

A profile maximises the log-likelihood over everything but one parameter: the blend weight of H1,
the exponent of the power link, or how the temperature depends on the anchor. Its interval is where
it lies within chi2_1 / 2 of its maximum. That takes the anchors for independent choices, which they
are not: those of a batch share candidates, and all share an encoder. Read it as the interval of
this bank's maximum and no more.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.stats import chi2

from ..checks import check_fraction
from .choice_bank import Array, ChoiceBank

#: Least distance from either end of [-1, 1], as in the losses: rounding decides what is nearer.
FLOOR = 1e-6
#: A Newton step that promises less than this (nats per anchor) ends the search; the weights are
#: then right to about 1e-7 of their standard error's scale.
SETTLED = 1e-16
NEARLY_SETTLED = 1e-12
MAX_STEPS = 60
#: A weight beyond it (a temperature of 1e-6) is on its way to infinity.
LARGEST = 1e6

UNBOUNDED = (
    "no temperature above 0 maximises the likelihood: (nearly) every winner has the highest score "
    "of its candidates; use more anchors or more candidates"
)

Coordinate = Callable[[Array], Array]

#: Score coordinates by name. ``heavy-tail`` is a power law in the distance from the lower bound
#: -1, our choice: the paper does not say which coordinate its Frechet link has. ``cubic`` is convex
#: for s > 0 and bounded: sharper at the top, without an endpoint.
COORDINATES: dict[str, Coordinate] = {
    "identity": lambda s: s,
    "shortfall": lambda s: -np.log(np.maximum(1.0 - s, FLOOR)),
    "heavy-tail": lambda s: np.log(np.maximum(1.0 + s, FLOOR)),
    "cubic": lambda s: s**3,
}
#: Coordinates of H1. H0 has the first of them alone.
BLEND = ("identity", "shortfall")


def power_coordinate(exponent: float) -> Coordinate:
    """Box-Cox power of the shortfall, (1 - (1 - s)^gamma) / gamma.

    gamma = 1 is the softmax's s, gamma = 0 the endpoint link's -log(1 - s). It is unbounded at the
    cap only for gamma <= 0: between 0 and 1 it is sharper at the top and has no endpoint.
    """

    def coordinate(s: Array) -> Array:
        logarithm = np.log(np.maximum(1.0 - s, FLOOR))
        if abs(exponent) < 1e-9:
            return -logarithm
        return np.asarray(-np.expm1(exponent * logarithm) / exponent)

    return coordinate


class Design:
    """Coordinates of a bank's candidates, ready for likelihoods.

    Losers at cosine 1 are left out, see :class:`~.choice_bank.ChoiceBank`.

    Args:
        bank: the choices.
        coordinates: names in :data:`COORDINATES`, or functions of the score.

    Raises:
        ValueError: for an unknown coordinate, with the known ones listed.
    """

    def __init__(self, bank: ChoiceBank, coordinates: Sequence[str | Coordinate]) -> None:
        #: Losers that are no candidates, or None if all are.
        self.left_out = bank.identical if bank.identical.any() else None
        x = []
        for chosen in coordinates:
            if isinstance(chosen, str) and chosen not in COORDINATES:
                raise ValueError(f"unknown coordinate {chosen!r}; known: {', '.join(COORDINATES)}")
            function = COORDINATES[chosen] if isinstance(chosen, str) else chosen
            values = function(bank.scores)
            # Relative to the winner: its logit is then 0 for every theta.
            values = values[..., 1:] - values[..., :1]
            if self.left_out is not None:
                values[self.left_out] = 0.0
            x.append(values)
        self.relative: tuple[Array, ...] = tuple(x)
        self.batches, self.per_batch = bank.scores.shape[:2]

    @property
    def anchors(self) -> int:
        """Anchors of all batches together."""
        return self.batches * self.per_batch

    def only(self, coordinates: Sequence[int]) -> Design:
        """The design with some of its coordinates, by number."""
        part = copy.copy(self)
        part.relative = tuple(self.relative[c] for c in coordinates)
        return part

    def of(self, batches: Iterable[int]) -> Design:
        """The design of some of the batches, by number."""
        part = copy.copy(self)
        index = list(batches)
        part.relative = tuple(x[index] for x in self.relative)
        part.left_out = None if self.left_out is None else self.left_out[index]
        part.batches = len(index)
        return part

    def scaled(self, factor: Array) -> Design:
        """Each anchor's logits times its own inverse temperature, shape ``(batches, anchors)``."""
        part = copy.copy(self)
        part.relative = tuple(x * factor[..., None] for x in self.relative)
        return part

    def mixed(self, weights: Sequence[float]) -> Design:
        """One coordinate in place of several: their sum with the given weights."""
        part = copy.copy(self)
        terms = (weight * x for weight, x in zip(weights, self.relative, strict=True))
        part.relative = (np.asarray(sum(terms)),)
        return part

    def _weights(self, theta: Array) -> tuple[Array, Array, Array]:
        """exp(logit - shift) of the losers, the sum over all candidates, and the shift."""
        logits = theta[0] * self.relative[0]
        for weight, x in zip(theta[1:], self.relative[1:], strict=True):
            logits += weight * x
        shift = np.maximum(logits.max(axis=-1), 0.0)
        logits -= shift[..., None]
        np.exp(logits, out=logits)
        if self.left_out is not None:
            logits[self.left_out] = 0.0
        return logits, logits.sum(axis=-1) + np.exp(-shift), shift

    def log_probability(self, theta: Array) -> Array:
        """Log-probability of each anchor's winner, nats, shape ``(batches, anchors)``."""
        _, total, shift = self._weights(np.asarray(theta, dtype=np.float64))
        return -np.log(total) - shift

    def derivatives(self, theta: Array) -> tuple[float, Array, Array]:
        """Log-likelihood, gradient and Hessian per anchor, in closed form.

        With p the fitted probabilities and x relative to the winner: gradient -E_p[x], Hessian
        -Cov_p[x], each averaged over anchors.
        """
        value, scores, hessian = self._moments(np.asarray(theta, dtype=np.float64))
        return value, scores.mean(axis=(1, 2)), hessian

    def batch_scores(self, theta: Array) -> Array:
        """Gradient of the mean log-likelihood of each batch, shape ``(batches, coordinates)``."""
        return self._moments(np.asarray(theta, dtype=np.float64))[1].mean(axis=2).T

    def _moments(self, theta: Array) -> tuple[float, Array, Array]:
        p, total, shift = self._weights(theta)
        value = float(np.mean(-np.log(total) - shift))
        p /= total[..., None]
        mean = np.stack([np.einsum("bac,bac->ba", p, x) for x in self.relative])
        k = len(self.relative)
        hessian = np.empty((k, k))
        for i in range(k):
            px = p * self.relative[i]
            for j in range(i, k):
                second = np.einsum("bac,bac->", px, self.relative[j]) / self.anchors
                covariance = second - np.mean(mean[i] * mean[j])
                hessian[i, j] = hessian[j, i] = -covariance
        return value, -mean, hessian


@dataclass(frozen=True)
class LinkFit:
    """A fitted link.

    Attributes:
        theta: weights of the coordinates, not negative, shape ``(coordinates,)``.
        log_likelihood: at theta, nats, summed over anchors.
        anchors: number of anchors it was fitted to.
    """

    theta: Array
    log_likelihood: float
    anchors: int

    @property
    def temperature(self) -> float:
        """Tau = 1 / sum(theta); infinite where all weights are 0."""
        total = float(self.theta.sum())
        return 1.0 / total if total > 0.0 else math.inf

    @property
    def blend(self) -> Array:
        """Theta / sum(theta): (1 - lambda, lambda) for H1; NaN where all weights are 0."""
        total = float(self.theta.sum())
        return self.theta / total if total > 0.0 else np.full_like(self.theta, math.nan)


def fit_link(design: Design, start: Array | None = None) -> LinkFit:
    """Maximise the log-likelihood over weights that are not negative.

    It is concave, so that the maximum is the only one. Newton's method finds the maximum over a
    set of weights, the others being 0, and the set is right when its weights are not negative and
    no other one wants to grow (Karush-Kuhn-Tucker). With three weights at most, the sets can be
    tried in turn, the largest first.

    Args:
        design: coordinates of the choices.
        start: weights to start from, for instance of a similar bank; 1 for each by default. They
            change the time and not the result.

    Raises:
        ValueError: if no temperature above 0 maximises the likelihood, because winners are above
            all losers; more anchors or more candidates are the mend.
    """
    k = len(design.relative)
    if any(bool((x <= 0.0).all()) for x in design.relative):
        raise ValueError(UNBOUNDED)
    for size in range(k, -1, -1):
        for chosen in itertools.combinations(range(k), size):
            theta = _maximum(design, chosen, start)
            if theta is None or (theta < 0.0).any():
                continue
            value, gradient, hessian = design.derivatives(theta)
            others = [c for c in range(k) if c not in chosen]
            curvature = np.maximum(-np.diag(hessian), 1e-300)
            # What a Newton step in a weight at 0 would gain, in nats per anchor.
            gain = np.maximum(gradient, 0.0) ** 2 / curvature
            if (gain[others] < NEARLY_SETTLED).all():
                return LinkFit(theta, value * design.anchors, design.anchors)
    if start is not None:  # it may have been far off
        return fit_link(design)
    raise ValueError(UNBOUNDED)


def _maximum(design: Design, chosen: tuple[int, ...], start: Array | None) -> Array | None:
    """Weights of the chosen coordinates that maximise the likelihood; None if it has no maximum."""
    index = list(chosen)
    theta = np.zeros(len(design.relative))
    if not index:
        return theta
    part = design.only(index)
    inner = np.ones(len(index)) if start is None else np.asarray(start, np.float64)[index]
    value, gradient, hessian = part.derivatives(inner)
    promised = math.inf
    for _ in range(MAX_STEPS):
        # A ridge far below the curvature: two coordinates can be collinear in small banks.
        ridge = 1e-12 * float(-np.trace(hessian)) + 1e-300
        step = np.linalg.solve(-hessian + ridge * np.eye(len(index)), gradient)
        promised = float(gradient @ step)
        if promised < SETTLED:
            theta[index] = inner
            return theta
        length = 1.0
        while length > 1e-8:
            trial = part.derivatives(inner + length * step)
            if trial[0] >= value + 1e-4 * length * promised - 1e-14 * (1.0 + abs(value)):
                break
            length *= 0.5
        inner = inner + length * step
        value, gradient, hessian = trial
        if np.abs(inner).max() > LARGEST:
            return None
    if promised > NEARLY_SETTLED:
        return None
    theta[index] = inner  # as good as rounding allows
    return theta


def fit_both(
    design: Design, starts: tuple[Array | None, Array | None] = (None, None)
) -> tuple[LinkFit, LinkFit]:
    """H0 and H1 of the same choices.

    Args:
        design: with the coordinates :data:`BLEND`.
        starts: of the two searches, see :func:`fit_link`.
    """
    return fit_link(design.only((0,)), starts[0]), fit_link(design, starts[1])


def gains(design: Design, h0: LinkFit, h1: LinkFit) -> Array:
    """Log-probability of each winner under H1 minus that under H0, nats.

    Args:
        design: of any choices, with the coordinates :data:`BLEND`.
        h0: the softmax.
        h1: the blend.

    Returns:
        Shape ``(batches, anchors)``.
    """
    softmax = design.log_probability(np.array([h0.theta[0], 0.0]))
    return design.log_probability(h1.theta) - softmax


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


def profile_blend(bank: ChoiceBank) -> ProfileEstimate:
    """Lambda of H1 with its 95 % profile interval in [0, 1]; ``fit`` holds H1's two weights.

    Raises:
        ValueError: if winners score no higher than chance.
    """
    design = Design(bank, BLEND)
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

    low, high = _interval(deviance, lam, (0.0, 1.0), 0.95)
    return ProfileEstimate(lam, low, high, best)


def fit_power(bank: ChoiceBank, *, confidence: float = 0.95) -> ProfileEstimate:
    """The power link: softmax of (1 - (1 - s)^gamma) / (gamma tau), with gamma in [-1, 3] free.

    It has as many parameters as H1 and softmax inside (gamma = 1). An estimate at or below 0 says
    endpoint, one between 0 and 1 says sharper at the top without one. Below -1 the coordinate of a
    pair at the floor would exceed 1e6.
    """

    def fit(gamma: float, start: Array | None) -> LinkFit:
        return fit_link(Design(bank, (power_coordinate(gamma),)), start)

    return _profile(fit, (-1.0, 3.0), confidence)


def nearness(bank: ChoiceBank) -> Array:
    """How near an anchor's closest candidates are, shape ``(batches, anchors)``.

    It is the log of the mean of the smallest tenth of its shortfalls, as in the paper's tail size.
    The winner counts as one of the candidates, so that nothing here knows who won.
    """
    shortfall = np.maximum(1.0 - bank.scores, FLOOR)
    shortfall[..., 1:][bank.identical] = 2.0  # no candidates, so the farthest of all
    count = max(1, round(0.1 * shortfall.shape[-1]))
    closest = np.partition(shortfall, count - 1, axis=-1)[..., :count]
    return np.asarray(np.log(closest.mean(axis=-1)))


def fit_anchor_temperature(
    bank: ChoiceBank,
    coordinates: tuple[str, ...] = ("identity",),
    *,
    confidence: float | None = None,
) -> tuple[ProfileEstimate, Callable[[ChoiceBank], Array]]:
    """Let the temperature depend on the anchor, tau_i = tau exp(kappa (u_i - mean u)).

    u_i is :func:`nearness`. One winner per anchor cannot tell a temperature of its own; how near
    its closest candidates are can. With the identity coordinate this is a softmax with as many
    parameters as H1; with H1's coordinates it asks whether the endpoint is still seen once
    temperatures may differ.

    Args:
        bank: the choices it is fitted to.
        coordinates: of the link.
        confidence: of kappa's profile interval in [-2, 3]; None leaves it out.

    Returns:
        kappa, 0 for one temperature for all; and what gives the factors tau / tau_i of the logits
        of another bank's anchors, for :meth:`Design.scaled`.
    """
    plain = Design(bank, coordinates)
    near = nearness(bank)
    centre = float(near.mean())

    def fit(kappa: float, start: Array | None) -> LinkFit:
        return fit_link(plain.scaled(np.exp(-kappa * (near - centre))), start)

    found = _profile(fit, (-2.0, 3.0), confidence)
    return found, lambda other: np.exp(-found.value * (nearness(other) - centre))


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
