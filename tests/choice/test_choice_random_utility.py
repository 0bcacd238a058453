"""Simulated utilities against their laws, simulated winners against quadrature.

Tests on draws have a fixed seed and would fail by chance once in 10^5.
"""

import numpy as np
import pytest
from scipy import stats

from weince_lib.choice import (
    sample_utilities,
    scaling_model,
    shortfall_model,
    simulate_winners,
    top1_probabilities,
    translation_model,
)

SCORES = np.array([0.15, 0.45, 0.70, 0.90])
FALSE_ALARM = 1e-5
MODELS = {
    "normal": translation_model(SCORES, stats.norm(scale=0.4)),
    "student": scaling_model(SCORES, stats.burr12(1.0, 2.0)),
    "beta": shortfall_model(1 - SCORES, stats.beta(0.8, 2.0)),
}
#: The law of each utility, written with scipy's own location and scale.
LAWS = {
    "normal": [stats.norm(s, 0.4).cdf for s in SCORES],
    "student": [stats.burr12(1.0, 2.0, scale=s).cdf for s in SCORES],
    "beta": [
        lambda x, q=1 - s: stats.beta(0.8, 2.0, scale=q).sf(1 - x)  # P(1 - q W <= x)
        for s in SCORES
    ],
}


@pytest.mark.parametrize("name", MODELS)
def test_utilities_have_their_law(name):
    drawn = sample_utilities(MODELS[name], 4000, seed=1)
    assert drawn.shape == (4000, 4)
    for column, cdf in zip(drawn.T, LAWS[name], strict=True):
        assert stats.kstest(column, cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", MODELS)
def test_winners_have_the_probabilities_of_the_quadrature(name):
    counts = np.bincount(simulate_winners(MODELS[name], 40_000, seed=2), minlength=4)
    expected = 40_000 * top1_probabilities(MODELS[name])
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name", MODELS)
def test_index_model_is_additive_in_its_coordinate(name):
    """log F and density in the coordinate T are those of the utility, moved along."""
    model, t = MODELS[name], np.linspace(-1.5, 0.7, 23)
    for index, cdf in zip(model.index, LAWS[name], strict=True):
        x = {"gumbel": t, "frechet": np.exp(t), "weibull": 1 - np.exp(-t)}[model.geometry]
        np.testing.assert_allclose(np.exp(model.noise_log_cdf(t - index)), cdf(x), atol=1e-12)
        np.testing.assert_allclose(model.noise_survival(t - index), 1 - cdf(x), atol=1e-12)
    step = 1e-5
    slope = model.noise_survival(t - step) - model.noise_survival(t + step)
    density = np.exp(model.noise_log_density(t))
    low, high = model.noise_support()
    inside = (t > low + 0.05) & (t < high - 0.05)
    assert inside.sum() > 5
    np.testing.assert_allclose(density[inside], slope[inside] / (2 * step), rtol=1e-4, atol=1e-7)


def test_counts_repeat_candidates():
    model = translation_model([0.0, 5.0], stats.norm(), [3, 2])
    drawn = sample_utilities(model, 2000, seed=3)
    assert drawn.shape == (2000, 5)
    assert drawn[:, :3].mean() == pytest.approx(0.0, abs=0.1)
    assert drawn[:, 3:].mean() == pytest.approx(5.0, abs=0.1)


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
        (lambda: shortfall_model([0.1, 0.2], stats.expon(), endpoint=np.inf), "endpoint must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
