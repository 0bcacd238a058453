"""Tails with a known answer: the sphere, uniform and Beta shortfalls, exact duplicates."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from weince_lib.evt import endpoint_test, fit_endpoint, fit_gpd, fit_known_endpoint, sphere_shape


def sphere_cosines(dimension, size, seed):
    half = (dimension - 1) / 2
    return 2.0 * np.random.default_rng(seed).beta(half, half, size=size) - 1.0


def known_endpoint_limit(dimension, quantile):
    """-E[log((1 - u) / (1 - s)) | s > u] by quadrature over the exact density of the cosine."""
    half = (dimension - 1) / 2
    law = stats.beta(half, half, loc=-1.0, scale=2.0)
    u = law.ppf(quantile)
    value = integrate.quad(lambda s: math.log((1 - u) / (1 - s)) * law.pdf(s), u, 1.0)[0]
    return -value / (1 - quantile)


def gpd_limit(dimension, quantile):
    """Shape with the highest expected likelihood, over 4,000 exact quantiles of the excess."""
    half = (dimension - 1) / 2
    law = stats.beta(half, half, loc=-1.0, scale=2.0)
    u = law.ppf(quantile)
    y = law.isf((1 - quantile) * (np.arange(4000) + 0.5) / 4000) - u

    def lost(parameters):
        shape, scale = parameters[0], math.exp(parameters[1])
        inside = 1 + shape * y / scale
        if inside.min() <= 0 or shape < -1:
            return math.inf
        return math.log(scale) + (1 + 1 / shape) * np.log(inside).mean()

    start = [-0.3, math.log(0.35 * y.max())]
    return optimize.minimize(lost, start, method="Nelder-Mead", options={"fatol": 1e-12}).x[0]


@pytest.mark.parametrize("dimension", [4, 6, 16, 64])
def test_sphere(dimension):
    """At a finite threshold the target is the limit's neighbour, not the limit; 4 errors' width."""
    cosines = sphere_cosines(dimension, 200_000, seed=dimension)
    for quantile in (0.9, 0.99):
        n = 200_000 * (1 - quantile)
        known = fit_known_endpoint(cosines, quantile=quantile)
        limit = known_endpoint_limit(dimension, quantile)
        assert known.shape == pytest.approx(limit, abs=4 * abs(limit) / math.sqrt(n))
        assert limit < sphere_shape(dimension)  # the limit is neared from below
        fit = fit_gpd(cosines, quantile=quantile)
        limit = gpd_limit(dimension, quantile)
        # (1 + xi) / sqrt(n) is the standard error above -1/2; below it, -xi / sqrt(n) is.
        error = max(1 + limit, -limit) / math.sqrt(n)
        assert fit.shape == pytest.approx(limit, abs=4 * error)
        assert fit.shape < 0


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
    assert known.floored >= 60
    assert "60 of" in known.note
    clean = fit_known_endpoint(scores[scores < 1.0], quantile=0.99)
    assert known.shape < clean.shape - 0.5  # duplicates make the tail look far shorter
    ends = fit_endpoint(scores, quantile=0.99)
    assert (ends.largest, ends.exact_low) == (1.0, 1.0)
    assert "60 values tie at the largest" in ends.note
    assert "tie" not in fit_endpoint(scores[scores < 1.0], quantile=0.99).note
    assert fit_gpd(scores, quantile=0.99).regime in ("irregular", "unbounded")
    assert endpoint_test(scores, quantile=0.99).floored >= 60
    with pytest.raises(ValueError, match="all 60 exceedances lie"):
        fit_gpd(scores, threshold=math.nextafter(1.0, 0.0))
