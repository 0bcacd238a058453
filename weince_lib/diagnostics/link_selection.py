"""Which link explains the winners of a frozen encoder's choices (paper 2.3.2, D.1 to D.6).

H0 is the softmax, H1 blends the shortfall coordinate in (:mod:`.link_fit`). Both are fitted to one
half of the batches; the effect is the mean gain in log-probability of the winner on the other half,
in nats per anchor. What the paper leaves out stands beside it: links that are sharper at the top
without having an endpoint there, and temperatures that differ between anchors.

The ablations repeat the selection on parts of the negatives: how hard they are, and how many.
Keeping the winner and the hardest negatives makes a set of candidates that depends on who won, and
the softmax does not survive that: winners drawn from an exact softmax then look as if they had a
shortfall link. Each ablation can therefore be made in two ways, and also on simulated winners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .choice_bank import Array, ChoiceBank, draw_winners
from .link_fit import (
    BLEND,
    Design,
    LinkFit,
    ProfileEstimate,
    fit_anchor_temperature,
    fit_both,
    fit_link,
    fit_power,
    gains,
    power_coordinate,
    profile_blend,
)
from .link_inference import GainTest, gain_test

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
    h0 = fit_link(Design(held_in, BLEND[:1]))
    h1 = profile_blend(held_in)
    gain = gains(Design(held_out, BLEND), h0, h1.fit).mean(axis=1)
    return LinkSelection(
        h0,
        h1,
        gain_test(gain, repetitions=repetitions, seed=seed),
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
    whole = Design(bank, BLEND)
    h0, h1 = fit_both(whole)
    found, blends = [], []
    for fold in range(folds):
        out = order[fold::folds]
        kept = whole.of([b for b in range(bank.batches) if b not in out])
        fold_h0, fold_h1 = fit_both(kept, (h0.theta, h1.theta))
        found.append(float(gains(whole.of(out), fold_h0, fold_h1).mean()))
        blends.append(float(fold_h1.blend[1]))
    return CrossValidation(np.array(found), np.array(blends))


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
        found, factor = fit_anchor_temperature(held_in, coordinates)
        parameters = {"temperature": found.fit.temperature, "kappa": found.value}
        if len(coordinates) > 1:
            parameters["weight of shortfall"] = float(found.fit.blend[1])

        def log_probability(bank: ChoiceBank) -> Array:
            design = Design(bank, coordinates).scaled(factor(bank))
            return design.log_probability(found.fit.theta)

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


#: ``"winner kept"``: the winner and the hardest negatives, as we read the paper. ``"by rank"``: the
#: nearest candidates, and only anchors whose winner is among them, so that the softmax survives.
Selection = Literal["winner kept", "by rank"]


@dataclass(frozen=True)
class AblationPoint:
    """Link selection on a part of each anchor's negatives.

    Attributes:
        pool: negatives the kept ones were chosen from.
        kept: negatives kept, the hardest of the pool.
        anchors: share of anchors that remain.
        blend: lambda of H1 on the held-in batches; NaN where winners score no higher than chance.
        gain: mean held-out gain of H1 over H0, nats per anchor.
        shortfall: median shortfall 1 - s of the kept negatives, held-in batches.
    """

    pool: int
    kept: int
    anchors: float
    blend: float
    gain: float
    shortfall: float


def vary_hardness(
    bank: ChoiceBank, kept: Sequence[int], selection: Selection = "winner kept"
) -> list[AblationPoint]:
    """Keep more and more, and so easier and easier, negatives of a fixed pool (Figure 7).

    Args:
        bank: the choices; all of an anchor's negatives are the pool.
        kept: numbers of negatives to keep.
        selection: how candidates are kept, see :data:`Selection`.
    """
    return [_ablate(bank, count, selection) for count in kept]


def vary_pool(
    bank: ChoiceBank,
    pools: Sequence[int],
    kept: int = 64,
    selection: Selection = "winner kept",
    *,
    seed: int = 0,
) -> list[AblationPoint]:
    """Keep the hardest ``kept`` negatives of larger and larger random pools (Figure 8).

    Args:
        bank: the choices.
        pools: numbers of negatives drawn for each anchor; each at least ``kept``.
        kept: how many of them are kept; 64 in the paper.
        selection: how candidates are kept, see :data:`Selection`.
        seed: of the draws; smaller pools are parts of larger ones.
    """
    return [_ablate(bank.pool(size, seed=seed), kept, selection) for size in pools]


def simulate_softmax(bank: ChoiceBank, *, seed: int = 0) -> ChoiceBank:
    """The same scores with winners drawn from the softmax fitted to the bank: H0 made true.

    Args:
        bank: the choices.
        seed: of the winners.
    """
    h0 = fit_link(Design(bank, BLEND[:1]))
    return draw_winners(bank, h0.theta[0] * bank.scores, seed=seed)


def _ablate(bank: ChoiceBank, kept: int, selection: Selection) -> AblationPoint:
    if selection not in get_args(Selection):
        raise ValueError(
            f"unknown selection {selection!r}; known: {', '.join(get_args(Selection))}"
        )
    held_in, held_out = (
        half.hardest(kept) if selection == "winner kept" else half.hardest_candidates(kept)
        for half in halves(bank)
    )
    h0, h1 = fit_both(Design(held_in, BLEND))
    return AblationPoint(
        pool=bank.negatives,
        kept=kept,
        anchors=(held_in.anchors + held_out.anchors) / bank.anchors,
        blend=float(h1.blend[1]),
        gain=float(gains(Design(held_out, BLEND), h0, h1).mean()),
        shortfall=float(np.median((1.0 - held_in.scores[..., 1:])[~held_in.identical])),
    )
