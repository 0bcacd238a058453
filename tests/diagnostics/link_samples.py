"""Small banks with known links, for the tests of link selection."""

import numpy as np

from weince_lib.diagnostics.choice_bank import ChoiceBank, draw_winners


def random_bank(batches=10, anchors=24, candidates=20, seed=0):
    """Cosines of no encoder: Beta(3, 2) on [-1, 1], so that some candidates are near the cap."""
    draw = np.random.default_rng(seed)
    return ChoiceBank(2 * draw.beta(3, 2, size=(batches, anchors, candidates)) - 1)


def bank_of_blend(lam, temperature=0.3, *, seed=1, **shape):
    """Winners drawn from H1 with a given blend weight; 0 is H0."""
    bank = random_bank(**shape)
    s = bank.scores
    blend = (1 - lam) * s + lam * -np.log(1 - s)
    return draw_winners(bank, blend / temperature, seed=seed)
