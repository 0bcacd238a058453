"""The known-endpoint estimate: transcription, exactness, the sphere, and what it refuses."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from weince_lib.evt import fit_known_endpoint, sphere_shape, sphere_tail_index


def endpoint_sample(shape, size, rng, endpoint=1.0):
    """x_F - W with P(W <= w) = w^beta on (0, 1), beta = -1 / shape."""
    return endpoint - rng.random(size) ** (-shape)


def test_against_an_explicit_loop():
    values = endpoint_sample(-0.6, 200, np.random.default_rng(0))
    fit = fit_known_endpoint(values, threshold=0.4, confidence=0.9)
    total, count = 0.0, 0
    for x in values:
        if x > 0.4:
            total += math.log((1.0 - x) / (1.0 - 0.4))
            count += 1
    assert fit.exceedances == count
    assert fit.shape == pytest.approx(total / count, rel=1e-12)
    assert fit.shape < 0
    assert fit.beta == pytest.approx(-1.0 / fit.shape, rel=1e-12)
    assert (fit.threshold, fit.endpoint, fit.total, fit.floored) == (0.4, 1.0, 200, 0)
    # n xi_hat / xi at both ends of the interval is a 5 % and a 95 % point of Gamma(n, 1).
    tails = [
        stats.gamma.cdf(count * fit.shape / end, count) for end in (fit.shape_low, fit.shape_high)
    ]
    assert tails == pytest.approx([0.05, 0.95], abs=1e-9)
    assert fit.shape_low < fit.shape < fit.shape_high < 0
    assert (fit.beta_low, fit.beta_high) == pytest.approx(
        (-1.0 / fit.shape_low, -1.0 / fit.shape_high), rel=1e-12
    )


@pytest.mark.parametrize("shape", [-0.3, -0.6, -2.0])
def test_interval_is_exact_above_a_quantile(shape):
    """400 samples with 20 exceedances each; each tail errs in 10 % of them."""
    rng = np.random.default_rng(12)
    above = below = 0
    for _ in range(400):
        values = endpoint_sample(shape, 100, rng)
        fit = fit_known_endpoint(values, quantile=0.8, confidence=0.8, floor=1e-12)
        assert fit.exceedances == 20
        below += shape < fit.shape_low
        above += shape > fit.shape_high
    four_sigma = 4 * math.sqrt(400 * 0.1 * 0.9)
    assert abs(below - 40) < four_sigma
    assert abs(above - 40) < four_sigma


def test_maximises_the_likelihood_of_its_model():
    values = endpoint_sample(-0.5, 300, np.random.default_rng(3), endpoint=5.0)
    fit = fit_known_endpoint(values, endpoint=5.0, quantile=0.6)
    shortfalls = [5.0 - x for x in values if x > fit.threshold]
    top = 5.0 - fit.threshold

    def log_likelihood(beta):
        return sum(math.log(beta / top) + (beta - 1) * math.log(w / top) for w in shortfalls)

    best = log_likelihood(fit.beta)
    assert all(log_likelihood(fit.beta * f) < best for f in (0.9, 0.99, 1.01, 1.1))


@pytest.mark.parametrize("quantile", [0.9, 0.99])
def test_sphere_in_six_dimensions(quantile):
    """-0.44 at the 0.9 quantile, -0.42 at 0.99, from above the limit -0.4 in size."""
    cosines = 2.0 * np.random.default_rng(7).beta(2.5, 2.5, size=400_000) - 1.0
    fit = fit_known_endpoint(cosines, quantile=quantile)
    assert fit.shape == pytest.approx({0.9: -0.44, 0.99: -0.42}[quantile], abs=0.015)
    assert fit.shape < sphere_shape(6)


def test_sphere_tail_index_is_the_exponent_of_the_cap():
    assert [sphere_tail_index(d) for d in (2, 3, 6)] == [0.5, 1.0, 2.5]
    assert sphere_shape(6) == pytest.approx(-0.4)
    for d in (2, 3, 6, 17):

        def cap(x, d=d):  # area of the cap 1 - s <= x, up to a constant; s = cos(angle)
            return integrate.quad(lambda t: math.sin(t) ** (d - 2), 0, math.acos(1 - x))[0]

        slope = math.log(cap(2e-4) / cap(1e-4)) / math.log(2)
        assert sphere_tail_index(d) == pytest.approx(slope, rel=1e-3)


def test_duplicates_and_rounding_above_the_cap_are_floored_and_counted():
    values = np.concatenate([np.linspace(0.0, 0.9, 40), [1.0, 1.0, 1.0 + 2.4e-7, 1.0 - 1e-8]])
    fit = fit_known_endpoint(values, threshold=0.5)
    assert fit.floored == 4
    assert "4 of 22 exceedances were floored" in fit.note
    clean = values.copy()
    clean[-4:] = 1.0 - 1e-6
    assert fit.shape == pytest.approx(fit_known_endpoint(clean, threshold=0.5).shape, rel=1e-9)
    higher = fit_known_endpoint(values, threshold=0.5, floor=1e-3)
    assert higher.shape > fit.shape


def test_a_change_of_units_changes_the_units_alone():
    values = endpoint_sample(-0.7, 500, np.random.default_rng(1))
    fit = fit_known_endpoint(values, quantile=0.8)
    scaled = fit_known_endpoint(1e6 * values, endpoint=1e6, quantile=0.8, floor=1.0)
    assert scaled.shape == pytest.approx(fit.shape, rel=1e-9)
    assert scaled.threshold == pytest.approx(1e6 * fit.threshold, rel=1e-12)


GOOD = [0.01 * i for i in range(100)]


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([*GOOD, 1.5, 2.0], {}, r"values\[100\] = 1.5 lies above the endpoint 1, as do 2 of 102"),
        ([*GOOD, 1.00001], {}, "above the endpoint"),
        (GOOD, {"threshold": 1.0}, "threshold 1 lies within 1e-06 of the endpoint"),
        ([*GOOD, *[1.0] * 50], {}, "within 1e-06 of the endpoint"),
        (GOOD, {"quantile": 0.95}, "only 5 of 100 values exceed"),
        (GOOD, {"endpoint": math.nan}, "endpoint must be finite, got nan"),
        (GOOD, {"floor": 0.0}, "floor must be positive and finite, got 0.0"),
        (GOOD, {"confidence": 95}, "confidence must lie in .* got 95"),
    ],
)
def test_bad_input(values, settings, message):
    with pytest.raises(ValueError, match=message):
        fit_known_endpoint(values, **settings)


def test_bad_dimension():
    with pytest.raises(ValueError, match="dimension must be at least 2, got 1"):
        sphere_tail_index(1)
    with pytest.raises(TypeError):
        sphere_shape(2.5)
