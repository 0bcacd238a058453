"""Banks of a frozen encoder: two replayed dropout passes of drawn batches, and their cosines."""

import numpy as np
import pytest
import torch
from text_models import corpus, model

from weince_lib.losses import PRESETS
from weince_lib.text.banks import DropoutBank, dropout_bank
from weince_lib.text.steps import dropout_seed, replayed

#: Two batches of three: row = anchor, column = candidate, the diagonal holds the positives.
SCORES = torch.tensor(
    [
        [[0.9, 0.1, 0.2], [0.3, 0.8, 0.4], [0.5, 0.6, 0.7]],
        [[0.0, -0.1, -0.2], [-0.3, 1.0, -0.4], [-0.5, -0.6, -0.7]],
    ],
    dtype=torch.float64,
)


def by_hand(made, tokens, batches, size, seed):
    """The views as the module's head says, one after another."""
    drawn = np.random.default_rng(seed).permutation(len(tokens))[: batches * size]
    made.train()
    views = []
    for number, rows in enumerate(drawn.reshape(batches, size)):
        for view in (0, 1):
            with replayed(dropout_seed(seed, number, view, 0), torch.device("cpu")):
                views.append(made(*tokens.batch(rows)).detach().float())
    return torch.stack(views).reshape(batches, 2, size, -1), drawn


def test_diagonal_is_the_positive():
    bank = DropoutBank(SCORES, torch.empty(0))
    negatives = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert bank.negatives().tolist() == [*negatives, *(-v for v in negatives)]
    choices = bank.choices().scores
    assert choices.shape == (2, 3, 3)
    assert choices[0].tolist() == [[0.9, 0.1, 0.2], [0.8, 0.3, 0.4], [0.7, 0.5, 0.6]]
    assert choices[1].tolist() == [[0.0, -0.1, -0.2], [1.0, -0.3, -0.4], [-0.7, -0.5, -0.6]]


def test_bank_is_two_dropout_passes_of_drawn_batches():
    made, tokens = model("tiny"), corpus()
    bank = dropout_bank(made, tokens, batches=3, batch_size=10, seed=4)
    views, drawn = by_hand(made, tokens, 3, 10, 4)
    assert len(set(drawn.tolist())) == 30  # no sentence twice
    torch.testing.assert_close(bank.views, views)
    assert bank.views.dtype == torch.float32 and not bank.views.requires_grad
    for batch in range(3):
        for anchor, candidate in ((0, 0), (0, 7), (7, 0)):
            a, b = views[batch, 0, anchor].double(), views[batch, 1, candidate].double()
            cosine = float(a @ b / (a.norm() * b.norm()))
            assert float(bank.scores[batch, anchor, candidate]) == pytest.approx(cosine, abs=1e-6)
    assert not torch.equal(bank.views[:, 0], bank.views[:, 1])  # dropout was on


def test_a_seed_replays_the_bank_and_leaves_random_numbers_alone():
    made, tokens = model("static"), corpus()
    before = torch.get_rng_state()
    first, again, other = (
        dropout_bank(made, tokens, batches=2, batch_size=8, seed=seed).scores for seed in (1, 1, 2)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_is_as_before_even_after_an_error(training):
    made = model("static").train(training)
    dropout_bank(made, corpus(), batches=2, batch_size=8)
    assert made.training == training
    with torch.no_grad():
        made.encoder.words.fill_(float("nan"))
    with pytest.raises(ValueError):
        dropout_bank(made, corpus(), batches=2, batch_size=8)
    assert made.training == training


@pytest.mark.parametrize(("batches", "size"), [(6, 10), (1, 51), (0, 8)])
def test_too_few_sentences(batches, size):
    with pytest.raises(ValueError, match=f"50 sentences.*{batches} batches of {size}"):
        dropout_bank(model("static"), corpus(), batches=batches, batch_size=size)


def test_evidence_has_all_anchors():
    bank = dropout_bank(model("tiny"), corpus(), batches=2, batch_size=16)
    evidence = bank.evidence(PRESETS["paper"])
    assert evidence.rho.shape == evidence.lam.shape == (32,)
    assert evidence.rho_0.shape == (2,)
    assert ((evidence.lam >= 0) & (evidence.lam <= 1)).all()
