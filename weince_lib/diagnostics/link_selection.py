"""Which link explains the winners of a frozen encoder's choices (paper 2.3.2, D.1 to D.6).

H0 is the softmax, H1 blends the shortfall coordinate in (:mod:`.link_fit`). Both are fitted to one
half of the batches; the effect is the mean gain in log-probability of the winner on the other half,
in nats per anchor. What the paper leaves out stands beside it: links that are sharper at the top
without having an endpoint there, and temperatures that differ between anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from .choice_bank import Array, ChoiceBank
from .link_fit import Design, LinkFit, fit_link
from .link_inference import GainTest, gain_test
from .link_profile import (
    ProfileEstimate,
    fit_anchor_temperature,
    fit_power,
    power_coordinate,
    profile_blend,
)

Fitted = tuple[dict[str, float], Callable[[ChoiceBank], Array]]
"""Parameters of a fitted link, and what gives each anchor's log-probability in another bank."""


@dataclass(frozen=True)
class LinkSelection:
    """H0 against H1 on one division of the batches.

    Attributes:
        h0: the softmax fitted to the held-in batches; its ``temperature`` is tau_0.
        h1: the blend; ``value`` is lambda with its profile interval, ``fit.temperature`` tau_1.
        gain: log-likelihood of H1 minus H0 on the held-out batches, nats per anchor.
        statistic: likelihood ratio 2 (l_1 - l_0) on the held-in batches.
        identical: negatives of all batches that were left out, being at cosine 1: items that are in
            a batch twice.
        near_duplicates: further negatives at a cosine of 0.999 or more, which were kept. A few that
            are the anchor's own item, with augmentation or noise of their own, are enough to pull
            the blend weight towards 0, so that a result with any deserves a look at the items.
    """

    h0: LinkFit
    h1: ProfileEstimate
    gain: GainTest
    statistic: float
    identical: int
    near_duplicates: int


def halves(bank: ChoiceBank) -> tuple[ChoiceBank, ChoiceBank]:
    """Held-in and held-out batches: even and odd ones.

    The paper does not say how it divides them.

    Raises:
        ValueError: for fewer than four batches: two held-out ones are the least a test needs.
    """
    if bank.batches < 4:
        raise ValueError(f"link selection needs 4 batches or more, got {bank.batches}")
    return bank.of(range(0, bank.batches, 2)), bank.of(range(1, bank.batches, 2))


def select_link(bank: ChoiceBank, *, repetitions: int = 1999, seed: int = 0) -> LinkSelection:
    """Fit H0 and H1 to half of the batches and compare them on the other half.

    Args:
        bank: the choices; 32 batches of 256 pairs in the paper.
        repetitions: of the bootstraps over held-out batches.
        seed: of the bootstraps.
    """
    held_in, held_out = halves(bank)
    h0 = fit_link(Design(held_in, ("identity",)))
    h1 = profile_blend(held_in)
    design = Design(held_out, ("identity", "shortfall"))
    softmax = design.log_probability(np.array([h0.theta[0], 0.0]))
    gains = (design.log_probability(h1.fit.theta) - softmax).mean(axis=1)
    return LinkSelection(
        h0,
        h1,
        gain_test(gains, repetitions=repetitions, seed=seed),
        max(0.0, 2.0 * (h1.fit.log_likelihood - h0.log_likelihood)),
        int(bank.identical.sum()),
        bank.near_duplicates,
    )


@dataclass(frozen=True)
class CrossValidation:
    """Held-out gain and blend weight of each fold, shape ``(folds,)``."""

    gains: Array
    blends: Array


def cross_validate(bank: ChoiceBank, *, folds: int = 5, seed: int = 0) -> CrossValidation:
    """Held-out gain by cross-validation over batches (paper D.5: five folds).

    Folds share most of what they are fitted to, so that their spread is no standard error.

    Args:
        bank: the choices.
        folds: number of folds; whole batches are dealt to them at random.
        seed: of the deal.

    Raises:
        ValueError: for fewer than two folds or more folds than batches.
    """
    if not 2 <= folds <= bank.batches:
        raise ValueError(f"folds must lie between 2 and {bank.batches} batches, got {folds}")
    order = np.random.default_rng(seed).permutation(bank.batches)
    whole = Design(bank, ("identity", "shortfall"))
    start0, start1 = fit_link(whole.only((0,))).theta, fit_link(whole).theta
    gains, blends = [], []
    for fold in range(folds):
        out = order[fold::folds]
        design = whole.of([b for b in range(bank.batches) if b not in out])
        h0 = fit_link(design.only((0,)), start0)
        h1 = fit_link(design, start1)
        held_out = whole.of(out)
        softmax = held_out.log_probability(np.array([h0.theta[0], 0.0]))
        gains.append(float((held_out.log_probability(h1.theta) - softmax).mean()))
        blends.append(float(h1.blend[1]))
    return CrossValidation(np.array(gains), np.array(blends))


def _weighted(*coordinates: str) -> Callable[[ChoiceBank], Fitted]:
    def fit(held_in: ChoiceBank) -> Fitted:
        found = fit_link(Design(held_in, coordinates))
        parameters = {"temperature": found.temperature}
        parameters |= {
            f"weight of {name}": float(weight)
            for name, weight in zip(coordinates[1:], found.blend[1:], strict=True)
        }
        return parameters, lambda bank: Design(bank, coordinates).log_probability(found.theta)

    return fit


def _power(held_in: ChoiceBank) -> Fitted:
    found = fit_power(held_in)
    coordinate = power_coordinate(found.value)
    parameters = {"temperature": found.fit.temperature, "exponent": found.value}
    return (
        parameters | {"exponent low": found.low, "exponent high": found.high},
        lambda bank: Design(bank, (coordinate,)).log_probability(found.fit.theta),
    )


def _own_temperature(*coordinates: str) -> Callable[[ChoiceBank], Fitted]:
    def fit(held_in: ChoiceBank) -> Fitted:
        own, found = fit_anchor_temperature(held_in, coordinates)
        parameters = {"temperature": found.fit.temperature, "kappa": own.kappa}
        if len(coordinates) > 1:
            parameters["weight of shortfall"] = float(found.fit.blend[1])

        def log_probability(bank: ChoiceBank) -> Array:
            return (
                Design(bank, coordinates).scaled(own.factor(bank)).log_probability(found.fit.theta)
            )

        return parameters, log_probability

    return fit


#: Links by name, the softmax first: each maps held-in choices to a fitted link. ``blend`` is H1.
#: ``endpoint`` is the Weibull link alone (lambda = 1). ``power`` and ``cubic`` can be sharper at
#: the top without an endpoint; ``anchor`` lets the temperature depend on the anchor. Those with
#: ``heavy-tail`` are the ablation of D.6: in the shortfall's place, alone, and added to H1.
LINKS: dict[str, Callable[[ChoiceBank], Fitted]] = {
    "softmax": _weighted("identity"),
    "blend": _weighted("identity", "shortfall"),
    "endpoint": _weighted("shortfall"),
    "power": _power,
    "cubic": _weighted("identity", "cubic"),
    "anchor": _own_temperature("identity"),
    "anchor blend": _own_temperature("identity", "shortfall"),
    "heavy-tail blend": _weighted("identity", "heavy-tail"),
    "heavy-tail": _weighted("heavy-tail"),
    "blend + heavy-tail": _weighted("identity", "shortfall", "heavy-tail"),
}


@dataclass(frozen=True)
class Comparison:
    """Several links fitted to the same held-in batches.

    Attributes:
        parameters: by link, what was fitted.
        per_batch: by link, mean log-probability of the winner in each held-out batch, nats.
    """

    parameters: Mapping[str, Mapping[str, float]]
    per_batch: Mapping[str, Array]

    def gain(self, link: str, over: str = "softmax") -> GainTest:
        """Held-out gain of one link over another, nats per anchor, batches as units."""
        return gain_test(self.per_batch[link] - self.per_batch[over])


def compare_links(bank: ChoiceBank, links: Iterable[str] = tuple(LINKS)) -> Comparison:
    """Fit several links to half of the batches and score them on the other half.

    Args:
        bank: the choices.
        links: names in :data:`LINKS`.

    Raises:
        ValueError: for an unknown link, with the known ones listed.
    """
    held_in, held_out = halves(bank)
    parameters, per_batch = {}, {}
    for name in links:
        if name not in LINKS:
            raise ValueError(f"unknown link {name!r}; known: {', '.join(LINKS)}")
        parameters[name], log_probability = LINKS[name](held_in)
        per_batch[name] = log_probability(held_out).mean(axis=1)
    return Comparison(parameters, per_batch)
