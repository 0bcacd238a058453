"""Random utilities against their laws, simulated winners and rankings against exact ones.

Tests on draws have a fixed seed and would fail by chance once in 10^5.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from weince_lib.choice import (
    random_utility,
    ranking_log_likelihood,
    sample_rankings,
    sample_winners,
    scaling_model,
    shortfall_model,
    simulate_winners,
    top1_probabilities,
    translation_model,
)
from weince_lib.links import gumbel_link

FALSE_ALARM = 1e-5
SCORES = np.array([0.15, 0.45, 0.70, 0.90])
MODELS = {
    "normal": translation_model(SCORES, stats.norm(scale=0.4)),
    "student": scaling_model(SCORES, stats.burr12(1.0, 2.0)),
    "beta": shortfall_model(1 - SCORES, stats.beta(0.8, 2.0)),
}


@pytest.mark.parametrize("name", MODELS)
def test_winners_have_the_probabilities_of_the_quadrature(name):
    counts = np.bincount(simulate_winners(MODELS[name], 40_000, seed=2), minlength=4)
    expected = 40_000 * top1_probabilities(MODELS[name])
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > FALSE_ALARM


def test_shortfalls_below_the_spacing_of_doubles_still_decide():
    """Half the utilities round to 1, where argmax would always name the first."""
    model = shortfall_model([1e-17, 1e-17], stats.weibull_min(1.0))
    share = simulate_winners(model, 4000, seed=4).mean()
    assert abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: translation_model([1.0], stats.norm()), "two candidates or more"),
        (lambda: translation_model([1.0, np.nan], stats.norm()), "finite, got nan"),
        (lambda: translation_model([1.0, 2.0], stats.norm), "frozen continuous law"),
        (lambda: translation_model([1.0, 2.0], stats.poisson(2)), "frozen continuous law"),
        (lambda: translation_model([1.0, 2.0], stats.norm(), [1, 0]), "at least 1"),
        (lambda: translation_model([1.0, 2.0], stats.norm(), [1]), "counts of shape"),
        (lambda: scaling_model([1.0, 0.0], stats.pareto(1)), "rho must be positive .* got 0"),
        (lambda: scaling_model([1.0, 2.0], stats.norm()), "positive numbers"),
        (lambda: shortfall_model([0.1, -0.2], stats.expon()), "shortfall must be positive"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# The Gumbel-max trick ------------------------------------------------------------------------

DRAWN_FROM = np.array([0.1, 0.9, -0.4, 0.5])


def fits(counts, probabilities):
    expected = probabilities * counts.sum()
    assert expected.min() > 5
    return stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_winners_follow_the_softmax(temperature):
    winners = sample_winners(DRAWN_FROM, 40_000, temperature=temperature, seed=1)
    counts = np.bincount(winners, minlength=4)
    assert fits(counts, np.exp(gumbel_link(DRAWN_FROM, temperature)))
    # The test has power: it tells a temperature 15 % off.
    assert (
        not fits(counts, np.exp(gumbel_link(DRAWN_FROM, 1.15 * temperature))) or temperature == 4.0
    )


def test_rankings_follow_plackett_luce():
    orders = list(itertools.permutations(range(4)))
    drawn = sample_rankings(DRAWN_FROM, 60_000, temperature=0.5, seed=2)
    number = {order: i for i, order in enumerate(orders)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=24)
    assert fits(counts, np.exp(ranking_log_likelihood(DRAWN_FROM / 0.5, orders)))


def test_first_place_is_the_winner_of_the_same_draw():
    winners = sample_winners(DRAWN_FROM, 500, seed=3)
    np.testing.assert_array_equal(sample_rankings(DRAWN_FROM, 500, seed=3)[:, 0], winners)
    assert not np.array_equal(sample_winners(DRAWN_FROM, 500, seed=4), winners)


def test_blocks_bound_the_memory_and_leave_the_draws_as_they_are(monkeypatch):
    whole = sample_winners(DRAWN_FROM, 1003, seed=5)
    monkeypatch.setattr(random_utility, "BLOCK", 40)
    np.testing.assert_array_equal(sample_winners(DRAWN_FROM, 1003, seed=5), whole)


@pytest.mark.parametrize("draw", [sample_winners, sample_rankings])
@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        ([1.0], {}, "two candidates or more"),
        ([[1.0, 2.0]], {}, r"shape \(candidates,\)"),
        ([1.0, np.inf], {}, "finite, got inf"),
        ([1.0, 2.0], {"temperature": -1.0}, "temperature must be positive"),
        ([1.0, 2.0], {"repetitions": 0}, "repetitions must be at least 1, got 0"),
    ],
)
def test_bad_draws(draw, given, settings, message):
    with pytest.raises(ValueError, match=message):
        draw(given, **({"repetitions": 3} | settings))
