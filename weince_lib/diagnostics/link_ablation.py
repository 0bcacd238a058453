"""Link selection on parts of the negatives: how hard they are, and how many (paper D.1).

Keeping the winner and the hardest negatives makes a set of candidates that depends on who won, and
the softmax does not survive that: winners drawn from an exact softmax then look as if they had a
shortfall link. Each ablation can therefore be made in two ways, and also on simulated winners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .choice_bank import ChoiceBank
from .link_fit import Design, fit_link
from .link_selection import halves

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
    h0 = fit_link(Design(bank, ("identity",)))
    return draw_winners(bank, h0.theta[0] * bank.scores, seed=seed)


def draw_winners(bank: ChoiceBank, logits: np.ndarray, *, seed: int = 0) -> ChoiceBank:
    """The same scores with winners drawn with the given logits; none of them is at cosine 1.

    Args:
        bank: the choices.
        logits: shape of ``bank.scores``.
        seed: of the winners.
    """
    draw = np.random.default_rng(seed)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights[..., 1:][bank.identical] = 0.0
    cumulative = np.cumsum(weights, axis=-1)
    uniform = draw.random(logits.shape[:2]) * cumulative[..., -1]
    winners = (uniform[..., None] > cumulative).sum(axis=-1)
    return bank.with_winners(np.minimum(winners, logits.shape[-1] - 1))


def _ablate(bank: ChoiceBank, kept: int, selection: Selection) -> AblationPoint:
    if selection not in get_args(Selection):
        raise ValueError(
            f"unknown selection {selection!r}; known: {', '.join(get_args(Selection))}"
        )
    parts = [
        half.hardest(kept) if selection == "winner kept" else half.hardest_candidates(kept)
        for half in halves(bank)
    ]
    held_in, held_out = (Design(part, ("identity", "shortfall")) for part in parts)
    h0 = fit_link(held_in.only((0,)))
    h1 = fit_link(held_in)
    softmax = held_out.log_probability(np.array([h0.theta[0], 0.0]))
    gain = float((held_out.log_probability(h1.theta) - softmax).mean())
    return AblationPoint(
        bank.negatives,
        kept,
        sum(part.anchors for part in parts) / bank.anchors,
        float(h1.blend[1]),
        gain,
        float(np.median((1.0 - parts[0].scores[..., 1:])[~parts[0].identical])),
    )
