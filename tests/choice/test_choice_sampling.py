"""Gumbel-max draws against the softmax and Plackett-Luce laws.

Goodness of fit is a chi-square test with a fixed seed; each would fail by chance once in 10^5.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

from weince_lib.choice import ranking_log_likelihood, sample_rankings, sample_winners, sampling
from weince_lib.links import gumbel_link

SCORES = np.array([0.1, 0.9, -0.4, 0.5])
FALSE_ALARM = 1e-5


def fits(counts, probabilities):
    expected = probabilities * counts.sum()
    assert expected.min() > 5
    return stats.chisquare(counts, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_winners_follow_the_softmax(temperature):
    winners = sample_winners(SCORES, 40_000, temperature=temperature, seed=1)
    counts = np.bincount(winners, minlength=4)
    assert fits(counts, np.exp(gumbel_link(SCORES, temperature)))
    # The test has power: it tells a temperature 15 % off.
    assert not fits(counts, np.exp(gumbel_link(SCORES, 1.15 * temperature))) or temperature == 4.0


def test_rankings_follow_plackett_luce():
    orders = list(itertools.permutations(range(4)))
    drawn = sample_rankings(SCORES, 60_000, temperature=0.5, seed=2)
    number = {order: i for i, order in enumerate(orders)}
    counts = np.bincount([number[tuple(row)] for row in drawn.tolist()], minlength=24)
    assert fits(counts, np.exp(ranking_log_likelihood(SCORES / 0.5, orders)))


def test_first_place_is_the_winner_of_the_same_draw():
    winners = sample_winners(SCORES, 500, seed=3)
    np.testing.assert_array_equal(sample_rankings(SCORES, 500, seed=3)[:, 0], winners)
    assert not np.array_equal(sample_winners(SCORES, 500, seed=4), winners)


def test_blocks_bound_the_memory_and_leave_the_draws_as_they_are(monkeypatch):
    whole = sample_winners(SCORES, 1003, seed=5)
    monkeypatch.setattr(sampling, "BLOCK", 40)
    assert list(sampling.block_sizes(25, 4)) == [10, 10, 5]
    assert list(sampling.block_sizes(2, 400)) == [1, 1]
    np.testing.assert_array_equal(sample_winners(SCORES, 1003, seed=5), whole)


class ZeroUniforms(np.random.RandomState):
    """A generator whose uniforms are 0, which -log(-log(u)) turns into minus infinity."""

    def random(self, *args, **kwargs):
        return np.zeros(kwargs.get("size") or args[0])

    uniform = random


def test_no_logarithm_of_zero(monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", ZeroUniforms)
    with np.errstate(all="raise"):
        assert set(sample_winners(SCORES, 200).tolist()) == {0, 1, 2, 3}
        assert sample_rankings(SCORES, 200).shape == (200, 4)


def test_scores_far_apart_do_no_harm():
    with np.errstate(all="raise"):
        assert set(sample_winners([0.0, 1e300], 100, temperature=1e-3).tolist()) == {1}


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
def test_bad_input(draw, given, settings, message):
    with pytest.raises(ValueError, match=message):
        draw(given, **({"repetitions": 3} | settings))
