"""The closest softmax: a published pseudo-true value, closed forms, and the proven bound."""

import numpy as np
import pytest

from weince_lib.choice import best_softmax, total_variation
from weince_lib.links import gumbel_link, weibull_link

SCORES = np.array([0.15, 0.45, 0.70, 0.90])


def test_pseudo_true_slope_of_figure_5():
    found = best_softmax(SCORES, np.exp(weibull_link(SCORES, 0.8)))
    assert 1 / found.kl_temperature == pytest.approx(2.566055, abs=5e-7)
    # The floor of the top log-odds that Figure 5 shows.
    floor = (0.75 / found.kl_temperature - 1.712053) ** 2
    assert floor == pytest.approx(0.045151, abs=2e-6)
    assert 0 < found.tv_low < found.tv < 0.1
    assert found.tv - found.tv_low < 1e-3


@pytest.mark.parametrize("temperature", [0.01, 0.3, 5.0])
def test_a_softmax_is_found_again(temperature):
    found = best_softmax(SCORES, np.exp(gumbel_link(SCORES, temperature)))
    assert found.kl_temperature == pytest.approx(temperature, rel=1e-6)
    assert found.kl == pytest.approx(0.0, abs=1e-12)
    assert found.tv == pytest.approx(0.0, abs=1e-8)
    assert found.tv_low == 0.0


def test_bound_holds_on_a_finer_search():
    p = np.array([0.5, 0.1, 0.1, 0.3])
    found = best_softmax(SCORES, p)
    searched = [
        total_variation(p, np.exp(gumbel_link(SCORES, 1 / inverse)))
        for inverse in np.geomspace(1e-6, 1e4, 20_000)
    ]
    assert found.tv_low <= min(searched)
    assert found.tv <= min(searched) + 1e-6
    assert found.kl_temperature == np.inf  # the mean score is below the flat softmax's


def test_counts_are_repetitions():
    p = np.exp(weibull_link(np.repeat(SCORES, [3, 2, 2, 1]), 2.0))
    short = best_softmax(SCORES, p[[0, 3, 5, 7]], [3, 2, 2, 1])
    long = best_softmax(np.repeat(SCORES, [3, 2, 2, 1]), p)
    assert short.tv == pytest.approx(long.tv, abs=1e-10)
    assert short.kl == pytest.approx(long.kl, abs=1e-12)
    assert total_variation([0.1, 0.4], [0.2, 0.3], [2, 2]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([0.0, 1.0], [0.2, 0.9]), "sum to 1, got 1.1"),
        (([0.0, 1.0], [-0.2, 1.2]), "at least 0"),
        (([1.0, 1.0], [0.5, 0.5]), "all equal"),
        (([0.0, 1.0], [0.2, 0.3, 0.5]), r"probabilities \(3,\)"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        best_softmax(*given)
