"""Tails with a known answer: the sphere, Beta shortfalls, exact duplicates; dimension."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from weince_lib.evt import (
    endpoint_test,
    families,
    fit_endpoint,
    fit_gpd,
    fit_known_endpoint,
    nearest_tail_index,
    shape_above,
    sphere_shape,
)


@pytest.mark.parametrize("dimension", [2, 3, 6, 17])
def test_cosine_law_is_the_density_of_the_angle(dimension):
    """P(s > cos t) is the integral of sin^(d-2), which is a cap's share of the sphere."""
    law = families.sphere_cosine(dimension)

    def cap(angle):
        return integrate.quad(lambda t: math.sin(t) ** (dimension - 2), 0, angle)[0]

    for angle in (0.3, 1.0, 2.0):
        expected = cap(angle) / cap(math.pi)
        assert law.survival(math.cos(angle) - 1.0) == pytest.approx(expected, rel=1e-8)
    assert law.shape == sphere_shape(dimension) == pytest.approx(-2 / (dimension - 1))


@pytest.mark.parametrize("dimension", [4, 6, 16, 64])
@pytest.mark.parametrize("quantile", [0.9, 0.99])
def test_shape_above_a_finite_threshold(dimension, quantile):
    """At a finite threshold the target is not yet the limit; 4.5 standard errors' width."""
    law = families.sphere_cosine(dimension)
    exact = shape_above(law, quantile)
    assert exact < sphere_shape(dimension)  # the limit is neared from below
    cosines = 1.0 + law.sample(200_000, np.random.default_rng(dimension))
    fit = fit_known_endpoint(cosines, threshold=1.0 + float(law.exceedance_level(1 - quantile)))
    assert abs(fit.shape / exact - 1.0) < 4.5 / math.sqrt(fit.exceedances)
    assert fit_gpd(cosines, quantile=quantile).shape < 0


def test_shape_above_tends_to_the_limit_and_is_exact_for_powers():
    law = families.sphere_cosine(6)
    values = [shape_above(law, q) for q in (0.9, 0.999, 1 - 1e-6, 1 - 1e-10)]
    gaps = np.abs(np.array(values) + 0.4)
    assert np.all(np.diff(gaps) < 0)
    assert gaps[-1] < 1e-4
    for quantile in (0.1, 0.9):
        assert shape_above(families.uniform(), quantile) == pytest.approx(-1.0, rel=1e-9)
        assert shape_above(families.beta(1, 4), quantile) == pytest.approx(-0.25, rel=1e-9)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_beta_shortfalls(beta):
    """P(W <= w) = w^beta exactly, Beta(beta, 1); beta = 1 is the uniform, shape -1."""
    scores = 1.0 - np.random.default_rng(5).beta(beta, 1.0, size=40_000)
    known = fit_known_endpoint(scores, quantile=0.95, floor=1e-12)
    assert known.beta == pytest.approx(beta, rel=4 / math.sqrt(2000))
    fit = fit_gpd(scores, quantile=0.95, confidence=0.9999)
    if beta == 3.0:
        assert fit.regime == "regular"
        assert fit.shape == pytest.approx(-1 / 3, abs=4 * (2 / 3) / math.sqrt(2000))
        assert fit.endpoint == pytest.approx(1.0, abs=0.05)
    if beta == 0.5:
        assert fit.regime == "unbounded"
    assert fit.shape_low <= -1 / beta or fit.shape_low == -1.0
    ends = fit_endpoint(scores, quantile=0.95, confidence=0.999)
    assert ends.low <= 1.0 <= ends.high
    assert ends.low <= ends.median_unbiased <= ends.high


def test_exact_duplicates_are_seen_and_counted():
    """A share of pairs at cosine 1 exactly, as duplicated images give."""
    rng = np.random.default_rng(7)
    scores = np.concatenate([1.0 - rng.beta(3.0, 1.0, size=20_000), np.ones(60)])
    known = fit_known_endpoint(scores, quantile=0.99)
    clean = fit_known_endpoint(scores[scores < 1.0], quantile=0.99)
    assert known.floored >= 60
    assert known.shape < clean.shape - 0.5  # duplicates make the tail look far shorter
    assert fit_endpoint(scores, quantile=0.99).exact_low == 1.0
    assert fit_gpd(scores, quantile=0.99).regime in ("irregular", "unbounded")
    assert endpoint_test(scores, quantile=0.99).floored >= 60


def test_nearest_tail_index_is_the_known_endpoint_fit_of_each_anchor():
    shortfall = np.random.default_rng(0).random((4, 60)) ** 0.5
    found = nearest_tail_index(shortfall, 20)
    for row, value in zip(shortfall, found, strict=True):
        ordered = sorted(row)
        terms = [math.log(ordered[20] / ordered[m]) for m in range(20)]
        assert value == pytest.approx(20 / sum(terms), rel=1e-12)
        fit = fit_known_endpoint(1 - row, threshold=1 - ordered[20], floor=1e-12)
        assert value == pytest.approx(fit.beta, rel=1e-9)


def test_nearest_tail_index_has_its_gamma_law():
    """k beta / beta_hat is Gamma(k, 1) for a power law; 3,000 anchors, false alarm 1e-4."""
    shortfall = np.random.default_rng(1).random((3000, 80)) ** (1 / 1.7)
    found = nearest_tail_index(shortfall, 12)
    assert stats.kstest(12 * 1.7 / found, stats.gamma(12).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nearest_tail_index(np.ones(5), 2), r"shape \(anchors, candidates\), got \(5,\)"),
        (lambda: nearest_tail_index(np.ones((2, 5)), 5), "between 2 and 4 for 5 candidates, got 5"),
        (lambda: nearest_tail_index(np.zeros((2, 5)), 3), "must be positive and finite"),
        (lambda: shape_above(families.normal(), 0.9), "normal has no endpoint"),
        (lambda: sphere_shape(1), "dimension must be at least 2, got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
