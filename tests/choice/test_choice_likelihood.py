"""Likelihoods written out, and their maxima against choix, statsmodels' data and closed forms."""

import itertools
import math

import choix
import numpy as np
import pytest
import statsmodels.api as sm
import torch
from statsmodels.discrete.conditional_models import ConditionalLogit

from weince_lib import infonce_loss
from weince_lib.choice import (
    fit_conditional_logit,
    fit_scores_from_rankings,
    fit_scores_from_winners,
    ranking_log_likelihood,
    sample_rankings,
    sample_winners,
    top1_log_likelihood,
)
from weince_lib.losses.candidates import two_view_scores

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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: top1_log_likelihood(SCORES, []), "not be empty"),
        (lambda: top1_log_likelihood(SCORES, [0.5]), "integers, got float64"),
        (lambda: top1_log_likelihood(SCORES, [4]), "winner 4 does not exist; there are 4"),
        (lambda: top1_log_likelihood([SCORES], [0, 1]), "do not fit 2 observations"),
        (lambda: top1_log_likelihood([1.0, math.nan], [0]), "must be finite, or -inf"),
        (lambda: top1_log_likelihood([1.0, -math.inf], [0]), "two candidates or more, row 0 has 1"),
        (lambda: top1_log_likelihood([1.0, 2.0, -math.inf], [2]), "winner 2 is not on offer"),
        (lambda: ranking_log_likelihood(SCORES, [[0, 1, 0]]), "row 0 places a candidate twice"),
        (lambda: ranking_log_likelihood([1.0, 2.0, -math.inf], [[0, 1]]), "finite scores"),
    ],
)
def test_bad_choices(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Maximum likelihood --------------------------------------------------------------------------

ITEMS = 5
TRUE = np.random.default_rng(0).normal(size=ITEMS)


def subsets(choices, size, seed):
    rng = np.random.default_rng(seed)
    return np.argsort(rng.random((choices, ITEMS)), axis=1)[:, :size]


def drawn(sets):
    """Winning columns, drawn with the true scores."""
    noise = np.random.default_rng(1).gumbel(size=sets.shape)
    return (TRUE[sets] + noise).argmax(axis=1)


def test_scores_from_winners_are_those_of_choix():
    sets = subsets(150, 4, seed=2)
    winners = drawn(sets)
    fit = fit_scores_from_winners(sets, winners, ITEMS)
    data = [(row[w], np.delete(row, w).tolist()) for row, w in zip(sets, winners, strict=True)]
    np.testing.assert_allclose(fit.estimate, choix.opt_top1(ITEMS, data, tol=1e-8), atol=1e-6)
    assert fit.estimate.sum() == pytest.approx(0.0, abs=1e-12)
    expected = top1_log_likelihood(fit.estimate[sets], winners).sum()
    assert fit.log_likelihood == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("places", [ITEMS, 3, 2])
def test_scores_from_rankings_are_those_of_choix(places):
    sets = subsets(80, places, seed=3)
    noise = np.random.default_rng(4).gumbel(size=sets.shape)
    order = np.argsort(-(TRUE[sets] + noise), axis=1)
    rankings = np.take_along_axis(sets, order, axis=1)
    fit = fit_scores_from_rankings(rankings, ITEMS)
    found = choix.opt_rankings(ITEMS, [tuple(row) for row in rankings.tolist()], tol=1e-8)
    np.testing.assert_allclose(fit.estimate, found, atol=2e-6)
    if places == ITEMS:
        expected = ranking_log_likelihood(fit.estimate, rankings).sum()
        assert fit.log_likelihood == pytest.approx(expected, rel=1e-12)


def test_winners_of_one_set_give_log_shares():
    """With one candidate set the maximum is the log of the winning shares, centred."""
    winners = np.repeat([0, 1, 2], [50, 30, 20])
    fit = fit_scores_from_winners(np.tile([0, 1, 2], (100, 1)), winners, 3)
    shares = np.log([0.5, 0.3, 0.2])
    np.testing.assert_allclose(fit.estimate, shares - shares.mean(), atol=1e-9)
    # Its covariance is the delta method's for multinomial shares.
    centre = np.eye(3) - 1 / 3
    expected = centre @ np.diag(1 / np.array([50, 30, 20])) @ centre
    np.testing.assert_allclose(fit.covariance, expected, atol=1e-9)


def mode_choice():
    data = sm.datasets.modechoice.load_pandas().data
    column = {name: data[name].to_numpy().reshape(210, 4) for name in data}
    dummies = [(column["mode"] == mode).astype(float) for mode in (1, 2, 3)]
    income_air = column["hinc"] * dummies[0]
    features = np.stack([*dummies, column["gc"], column["ttme"], income_air], axis=2)
    return features, column["choice"].argmax(axis=1)


def test_travel_mode_choice_has_its_published_log_likelihood():
    features, winners = mode_choice()
    fit = fit_conditional_logit(features, winners)
    assert fit.log_likelihood == pytest.approx(-199.1284, abs=5e-5)
    published = [5.2074, 3.8690, 3.1632, -0.0155, -0.0961, 0.0133]
    np.testing.assert_allclose(fit.estimate, published, atol=6e-5)
    peer = ConditionalLogit(
        np.eye(4)[winners].ravel(), features.reshape(840, 6), groups=np.repeat(np.arange(210), 4)
    ).fit(disp=False)
    np.testing.assert_allclose(fit.standard_errors, peer.bse, rtol=1e-3)


def test_units_and_absent_candidates_change_nothing_else():
    features, winners = mode_choice()
    fit = fit_conditional_logit(features, winners)
    padded = np.concatenate([features * 1e6, np.full((210, 2, 6), np.nan)], axis=1)
    again = fit_conditional_logit(padded, winners)
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-9)
    np.testing.assert_allclose(again.estimate * 1e6, fit.estimate, rtol=1e-7)
    np.testing.assert_allclose(again.standard_errors * 1e6, fit.standard_errors, rtol=1e-7)


FEATURES = np.random.default_rng(7).normal(size=(50, 3, 2))
PAIRS = list(itertools.permutations(range(3), 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_conditional_logit(FEATURES[0], [0] * 3), "shape .choices, candidates, p"),
        (lambda: fit_conditional_logit(FEATURES, [0] * 49), "49 winners for 50"),
        (
            lambda: fit_conditional_logit(FEATURES[:, :, [0, 0]], [0, 1] * 25),
            "collinear",
        ),
        (
            lambda: fit_conditional_logit(np.ones((50, 3, 1)), [0] * 50),
            "column 0 .* does not vary within",
        ),
        (
            lambda: fit_conditional_logit(FEATURES[:, :, :1], FEATURES[:, :, 0].argmax(axis=1)),
            "separate",
        ),
        (
            lambda: fit_conditional_logit(np.where(FEATURES > 2, np.nan, FEATURES), [0] * 50),
            "finite, or all NaN",
        ),
        (lambda: fit_scores_from_winners([[0, 1], [1, 2]], [0, 0], 3), "3 groups of items"),
        (lambda: fit_scores_from_winners([[0, 3]], [0], 3), "item 3 does not exist; there are 3"),
        (lambda: fit_scores_from_winners([[0, 1]], [2], 3), "winner 2 does not exist"),
        (
            lambda: fit_scores_from_rankings([[0], [1]], 2),
            "ranking must be at least 2, got 1",
        ),
        (lambda: fit_scores_from_rankings(PAIRS, 4), "2 groups of items"),
    ],
)
def test_bad_data(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", ["winners", "rankings"])
def test_standard_errors_are_the_spread_of_the_estimates(kind):
    """Over 120 samples; the mean square within five of its standard errors."""
    scores = np.array([0.6, 0.0, -0.6])
    z = []
    for seed in range(120):
        if kind == "winners":
            winners = sample_winners(scores, 300, seed=seed)
            fit = fit_scores_from_winners(np.tile([0, 1, 2], (300, 1)), winners, 3)
        else:
            fit = fit_scores_from_rankings(sample_rankings(scores, 150, seed=seed), 3)
        z.append((fit.estimate - scores) / fit.standard_errors)
    # Each item's z has mean square 1; the three sum to 0 and so count as two.
    assert abs(np.mean(np.square(z)) - 1.0) < 5 * np.sqrt(2 / 240)
    assert np.abs(np.mean(z, axis=0)).max() < 5 / np.sqrt(120)
