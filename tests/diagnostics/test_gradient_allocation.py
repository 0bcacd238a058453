"""Risk and gradients: automatic differentiation, exact probabilities, known distances."""

import itertools
import math

import numpy as np
import pytest
import torch
from link_samples import random_bank

from weince_lib.diagnostics.choice_bank import ChoiceBank
from weince_lib.diagnostics.gradient_allocation import (
    COARSE,
    FINE,
    LossGradient,
    Subsets,
    allocate,
    culprits,
    distance,
    distance_curve,
    draw_subsets,
    exact_risk,
    histogram,
    infonce,
    weibit,
    weince,
)
from weince_lib.losses import TailSettings, blended_logits, tail_evidence


def choices():
    return random_bank(batches=1, anchors=40, candidates=61)


@pytest.mark.parametrize(
    ("loss", "lam", "beta"),
    [
        (infonce(0.3), 0.0, 0.0),
        (weibit(1.7), 1.0, 1.7),
        (LossGradient(0.3, lambda _: (0.4, 2.0)), 0.4, 2.0),
    ],
    ids=["infonce", "weibit", "blend"],
)
def test_gradients_against_automatic_differentiation(loss, lam, beta):
    subsets = draw_subsets(choices(), 7, 3)
    found = loss.on_negatives(subsets)
    for a, d in itertools.product(range(4), range(3)):
        row = np.r_[subsets.positive[a], subsets.negatives[a, d]]
        s = torch.tensor(row[None], requires_grad=True)
        one = torch.ones(1, dtype=torch.float64)
        logits = blended_logits(s, lam * one, beta * one, 0.3)
        torch.nn.functional.cross_entropy(logits, torch.zeros(1, dtype=torch.long)).backward()
        np.testing.assert_allclose(found[a, d], s.grad[0, 1:].numpy(), rtol=1e-10)


def test_weince_reads_lambda_and_beta_as_in_training():
    settings = TailSettings()
    draw = torch.Generator().manual_seed(0)
    z = torch.nn.functional.normalize(
        torch.randn(120, 6, generator=draw, dtype=torch.float64), dim=1
    )
    scores, positives = z @ z.T, torch.arange(120).roll(60)
    evidence = tail_evidence(scores.clone(), positives, settings)
    mask = ~torch.eye(120, dtype=torch.bool)
    mask[torch.arange(120), positives] = False
    subsets = Subsets(
        scores[torch.arange(120), positives].numpy(), scores[mask].reshape(120, 1, 118).numpy()
    )
    lam, beta = weince(settings).blend(subsets)
    np.testing.assert_allclose(lam[:, 0], evidence.lam.numpy(), atol=1e-10)
    np.testing.assert_allclose(beta[:, 0], evidence.beta.numpy(), rtol=1e-9)


def test_subsets_are_drawn_without_replacement_from_the_anchors_negatives():
    bank = choices()
    subsets = draw_subsets(bank, 20, 4, seed=3)
    assert subsets.negatives.shape == (40, 4, 20)
    assert np.array_equal(subsets.positive, bank.scores[0, :, 0])
    for a, d in itertools.product(range(40), range(4)):
        row = subsets.negatives[a, d]
        assert len(set(row)) == 20
        assert set(row) <= set(bank.scores[0, a, 1:])
    assert np.array_equal(draw_subsets(bank, 20, 4, seed=3).negatives, subsets.negatives)
    with pytest.raises(ValueError, match="61"):
        draw_subsets(bank, 61, 1)


def test_exact_risk_against_all_subsets_and_against_draws():
    small = ChoiceBank(random_bank(batches=1, anchors=3, candidates=8, seed=4).scores)
    found = exact_risk(small, 3)
    for a, row in enumerate(small.scores[0]):
        best = [max(subset) for subset in itertools.combinations(row[1:], 3)]
        lost = [b for b in best if b > row[0]]
        expected = np.histogram(lost, bins=COARSE)[0] / math.comb(7, 3)
        np.testing.assert_allclose(found[a], expected, atol=1e-12)
    bank = choices()
    drawn = culprits(draw_subsets(bank, 10, 2000))
    expected = exact_risk(bank, 10)
    share = histogram(drawn, np.ones_like(drawn), COARSE) / 2000
    error = np.sqrt(expected * (1 - expected) / 2000)
    assert (np.abs(share - expected) <= 5 * error + 1 / 2000).all()


def test_a_duplicate_of_the_anchor_is_in_no_set():
    """An item twice in a batch, at cosine 1, beats every positive; it is not counted."""
    bank = random_bank(batches=1, anchors=6, candidates=9)
    scores = bank.scores.copy()
    scores[..., 4] = 1.0
    marked, without = ChoiceBank(scores), ChoiceBank(np.delete(bank.scores, 4, axis=-1))
    drawn = draw_subsets(marked, 7, 20, seed=1).negatives
    assert (drawn < 1.0).all()
    for size in (1, 3, 7):
        np.testing.assert_allclose(exact_risk(marked, size), exact_risk(without, size), atol=1e-12)
    with pytest.raises(ValueError, match="cosine 1"):
        draw_subsets(marked, 8, 2)


def test_histogram_adds_weights_by_anchor_and_leaves_nan_out():
    values = np.array([[0.052, 0.055, np.nan], [-1.0, 1.0, 1.00001]])
    found = histogram(values, np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 3.0]]))
    assert found.shape == (2, 200)
    assert found.sum(axis=1).tolist() == [3.0, 6.0]
    assert found[0, np.searchsorted(FINE, 0.054) - 1] == 3.0
    assert (found[1, 0], found[1, -1]) == (1.0, 5.0)


def test_known_distances():
    point = np.zeros((3, 200))
    point[0, 0] = 2.0
    point[1, 5] = point[2, 105] = 1.0
    assert distance(point[:1], point[:1])[0] == 0
    assert distance(point[:1], point[1:2])[0] == 0  # one bin of the coarse ones
    assert distance(point[:1], point[2:])[0] == 1
    assert distance(point[:1], point[2:], "wasserstein")[0] == pytest.approx(1.05)
    with pytest.raises(ValueError, match=r"'kl'.*wasserstein"):
        distance(point, point, "kl")


def test_allocation_sums_and_bootstraps_over_anchors():
    subsets = draw_subsets(choices(), 20, 5)
    found = allocate(subsets, {"infonce": infonce(0.5), "sharp": infonce(0.02)})
    lost = culprits(subsets)
    assert found.lost == np.isfinite(lost).mean()
    assert found.risk.sum() == np.isfinite(lost).sum()
    shares = found.shares()
    assert set(shares) == {"risk", "infonce", "sharp"}
    gradient = infonce(0.5).on_negatives(subsets)
    expected = np.histogram(subsets.negatives, bins=COARSE, weights=gradient)[0] / gradient.sum()
    np.testing.assert_allclose(shares["infonce"], expected, atol=1e-12)
    far, near = found.distance("infonce"), found.distance("sharp")
    by_hand = 0.5 * np.abs(shares["infonce"] - shares["risk"]).sum()
    assert far.mean == pytest.approx(by_hand)
    assert far.low < far.mean < far.high
    nearer = found.distance("sharp", over="infonce")
    assert nearer.mean == pytest.approx(far.mean - near.mean)
    assert nearer.low > 0
    assert found.below_risk("infonce") > found.below_risk("sharp") > 0


def test_softmax_follows_the_risk_exactly_as_its_temperature_goes_to_zero():
    # The culprit is the largest negative, and so is where such a softmax looks.
    subsets = draw_subsets(choices(), 20, 5)
    curve = distance_curve(subsets, infonce, [0.5, 0.1, 0.02, 1e-4])
    assert curve == sorted(curve, reverse=True)
    assert curve[-1] < 0.01 < curve[1]


def test_no_risk_is_an_error():
    with pytest.raises(ValueError, match="negative"):
        allocate(Subsets(np.array([0.9]), np.array([[[0.1, 0.2]]])), {})
