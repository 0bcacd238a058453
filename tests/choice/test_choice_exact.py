"""Quadrature of winner probabilities against closed forms, other quadrature and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from weince_lib import links
from weince_lib.choice import (
    exact,
    maximum_level,
    scaling_model,
    shortfall_model,
    tail_weights,
    top1_probabilities,
    top1_probabilities_of_laws,
    translation_model,
)

SCORES = np.array([0.15, 0.45, 0.70, 0.90])


@pytest.mark.parametrize("candidates", [2, 4, 50, 10_000])
def test_max_stable_noise_has_exactly_its_link(candidates):
    """Table 1's three rows; every candidate of the 10,000 has a score of its own."""
    s = 0.95 * np.random.default_rng(candidates).random(candidates) + 1e-4
    for model, link in (
        (translation_model(s, stats.gumbel_r(scale=0.2)), links.gumbel_link(s, 0.2)),
        (scaling_model(s, stats.invweibull(0.7)), links.frechet_link(s, 0.7)),
        (shortfall_model(1 - s, stats.weibull_min(0.8)), links.weibull_link(s, 0.8)),
    ):
        found = top1_probabilities(model)
        np.testing.assert_allclose(found, np.exp(link), rtol=1e-9, atol=1e-13)
        if candidates == 10_000:
            break  # the other two are the same code in another coordinate


@pytest.mark.parametrize("counts", [10**5, 10**9, 10**15])
def test_a_hundred_thousand_candidates_and_more_through_counts(counts):
    eta = np.array([0.0, 0.5, 1.0])
    many = np.array([counts, counts // 10, 3])
    found = top1_probabilities(translation_model(eta, stats.gumbel_r(), many))
    expected = np.exp(eta) / (many @ np.exp(eta))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert many @ found == pytest.approx(1.0, abs=1e-10)


DIFFERENCES = [
    (stats.norm(), lambda d: stats.norm.cdf(-d / math.sqrt(2))),
    (stats.gumbel_r(), lambda d: 1 / (1 + math.exp(d))),
    (stats.expon(), lambda d: math.exp(-d) / 2),
    (stats.laplace(), lambda d: math.exp(-d) * (2 + d) / 4),
    (stats.cauchy(), lambda d: stats.cauchy.cdf(-d / 2)),
    (stats.uniform(), lambda d: max(0.0, 1 - d) ** 2 / 2),
]


@pytest.mark.parametrize("gap", [0.0, 0.25, 1.0, 3.0])
@pytest.mark.parametrize(("noise", "loses"), DIFFERENCES)
def test_two_candidates_have_closed_forms(noise, loses, gap):
    found = top1_probabilities(translation_model([0.0, gap], noise))
    np.testing.assert_allclose(found, [loses(gap), 1 - loses(gap)], atol=1e-12)


def test_uniforms_of_different_length():
    """P(U(0, 1) beats U(0, 2) and U(0, 4)) = int_0^1 t/2 t/4 dt = 1/24."""
    laws = [stats.uniform(0, 1), stats.uniform(0, 2), stats.uniform(0, 4)]
    found = top1_probabilities_of_laws(laws)
    assert found[0] == pytest.approx(1 / 24, abs=1e-13)
    assert found[1] == pytest.approx(1 / 24 + 3 / 16, abs=1e-13)  # int_1^2 t/8
    assert found.sum() == pytest.approx(1.0, abs=1e-13)


@pytest.mark.parametrize(
    "noise", [stats.norm(), stats.gamma(1.3), stats.t(3), stats.beta(1.4, 1.7), stats.logistic()]
)
def test_against_scipys_adaptive_quadrature(noise):
    found = top1_probabilities(translation_model(SCORES, noise))
    low, high = noise.support()
    points = sorted({0.0, *(s + e for s in SCORES for e in (low, high) if np.isfinite(e))})

    def win_density(t):
        others = np.prod([noise.cdf(t - s) for s in SCORES[:3]])
        return others * noise.pdf(t - SCORES[3])

    if np.isfinite(high):
        pieces = [(a, b) for a, b in itertools.pairwise(points) if b > a]
        last = sum(integrate.quad(win_density, a, b, limit=200)[0] for a, b in pieces)
    else:
        ends = (max(low, -200.0) + SCORES[3], 0.9 + noise.isf(1e-13))
        last = integrate.quad(
            win_density, *ends, points=[0.9, 2.0, 5.0], limit=500, epsabs=1e-12, epsrel=1e-12
        )[0]
    assert found[3] == pytest.approx(last, abs=1e-8)
    assert found.sum() == pytest.approx(1.0, abs=1e-11)


def test_density_without_a_bound_needs_its_own_geometry():
    """Next to a singularity away from 0 doubles are too coarse; the geometry puts it at 0."""
    noise = stats.beta(0.4, 0.7)
    with pytest.raises(RuntimeError, match="miss the tolerance"):
        top1_probabilities(translation_model(SCORES, noise))
    found = top1_probabilities(shortfall_model(1 - SCORES, noise))
    assert found.sum() == pytest.approx(1.0, abs=1e-10)


def test_a_tolerance_out_of_reach_is_an_error(monkeypatch):
    monkeypatch.setattr(exact, "_MOST_HALVINGS", 1)
    model = translation_model(np.linspace(0, 0.1, 300), stats.uniform())
    with pytest.raises(RuntimeError, match="miss the tolerance"):
        top1_probabilities(model)
    with pytest.raises(ValueError, match="two candidates or more, got 1"):
        top1_probabilities_of_laws([stats.norm()])


def test_level_is_passed_by_one_candidate_on_average():
    same = translation_model([0.3], stats.norm(), [1000])
    assert maximum_level(same) == pytest.approx(0.3 + stats.norm.isf(1e-3), abs=1e-10)
    for model in (
        translation_model(SCORES, stats.norm(), [5, 10, 20, 3]),
        scaling_model(SCORES, stats.pareto(2.0), [5, 10, 20, 3]),
        shortfall_model(1 - SCORES, stats.uniform(), [5, 10, 20, 3]),
    ):
        b = maximum_level(model)
        assert model.counts @ model.noise_survival(b - model.index) == pytest.approx(1.0)


def test_tail_weights_are_the_survival_functions_shares():
    counts = np.array([50, 100, 30, 10])
    normal = translation_model(SCORES, stats.norm(), counts)
    weights, level = tail_weights(normal), maximum_level(normal)
    survival = [stats.norm.sf(level - s) for s in SCORES]
    np.testing.assert_allclose(np.exp(weights), survival / (counts @ survival), rtol=1e-12)
    # Pareto tails are powers: at a level above them the weights are Table 1's link.
    pareto = tail_weights(scaling_model(SCORES, stats.pareto(2.0), counts))
    expected = SCORES**2 / (counts @ SCORES**2)
    np.testing.assert_allclose(np.exp(pareto), expected, rtol=1e-12)
