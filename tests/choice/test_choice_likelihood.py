"""Likelihoods of choices and rankings against the model written out, and what they refuse."""

import itertools
import math

import numpy as np
import pytest
import torch

from weince_lib import infonce_loss
from weince_lib.choice import ranking_log_likelihood, top1_log_likelihood
from weince_lib.losses.similarity import two_view_scores

SCORES = [0.3, -1.2, 2.0, 0.9]


def plackett_luce(scores, order):
    """Probability of an order: a product of first choices from what is left."""
    left, probability = list(range(len(scores))), 1.0
    for item in order:
        probability *= math.exp(scores[item]) / sum(math.exp(scores[j]) for j in left)
        left.remove(item)
    return probability


def test_winner_has_its_softmax_probability():
    found = top1_log_likelihood(SCORES, [2, 0, 2])
    total = sum(math.exp(s) for s in SCORES)
    expected = [math.log(math.exp(SCORES[w]) / total) for w in (2, 0, 2)]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_absent_candidate_takes_no_part():
    scores = np.array([[0.3, -np.inf, 2.0], [1.0, 2.0, 3.0]])
    found = top1_log_likelihood(scores, [0, 1])
    assert found[0] == pytest.approx(-math.log1p(math.exp(1.7)), rel=1e-13)
    assert found[1] == pytest.approx(2.0 - math.log(sum(map(math.exp, (1, 2, 3)))), rel=1e-13)


def test_infonce_is_its_mean_negative():
    generator = torch.Generator().manual_seed(5)
    z0, z1 = torch.randn(2, 20, 6, generator=generator, dtype=torch.float64)
    scores, positives = two_view_scores(z0, z1)
    logits = scores.numpy() / 0.5
    np.fill_diagonal(logits, -np.inf)
    found = -top1_log_likelihood(logits, positives.numpy()).mean()
    assert found == pytest.approx(float(infonce_loss(z0, z1, 0.5, impl="reference")), rel=1e-12)


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_rankings_have_their_product_probability_and_sum_to_one(places):
    orders = list(itertools.permutations(range(4), places))
    found = np.exp(ranking_log_likelihood(SCORES, orders))
    np.testing.assert_allclose(found, [plackett_luce(SCORES, o) for o in orders], rtol=1e-12)
    assert found.sum() == pytest.approx(1.0, rel=1e-12)


def test_one_place_is_the_top1_likelihood():
    rows = np.array([SCORES, SCORES[::-1]])
    found = ranking_log_likelihood(rows, [[1], [3]])
    np.testing.assert_allclose(found, top1_log_likelihood(rows, [1, 3]), rtol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top1_log_likelihood(SCORES, []), "not be empty"),
        (lambda: top1_log_likelihood(SCORES, [0.5]), "integers, got float64"),
        (lambda: top1_log_likelihood(SCORES, [4]), "winner 4 does not exist; there are 4"),
        (lambda: top1_log_likelihood(SCORES, [-1]), "winner -1 does not exist"),
        (lambda: top1_log_likelihood([SCORES], [0, 1]), "do not fit 2 observations"),
        (lambda: top1_log_likelihood([1.0, math.nan], [0]), "must be finite, or -inf"),
        (lambda: top1_log_likelihood([1.0, math.inf], [0]), "must be finite, or -inf"),
        (lambda: top1_log_likelihood([1.0, -math.inf], [0]), "two candidates or more, row 0 has 1"),
        (lambda: top1_log_likelihood([1.0, 2.0, -math.inf], [2]), "winner 2 is not on offer"),
        (lambda: ranking_log_likelihood(SCORES, [[0, 1, 0]]), "row 0 places a candidate twice"),
        (lambda: ranking_log_likelihood(SCORES, [0, 1]), "2 axes"),
        (lambda: ranking_log_likelihood([1.0, 2.0, -math.inf], [[0, 1]]), "finite scores"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
