"""The generalised Pareto fit against brute force, scipy, closed forms and its own invariances."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.evt import GPDProfile, fit_gpd, sphere_shape


def gpd_sample(shape, size, seed):
    """Excesses of scale 1 by inverting the distribution function."""
    u = np.random.default_rng(seed).random(size)
    return -np.log1p(-u) if shape == 0 else np.expm1(-shape * np.log1p(-u)) / shape


def log_likelihood_loop(excesses, shape, scale):
    """The log-likelihood as it is written in textbooks, one excess after the other."""
    total = 0.0
    for y in excesses:
        if scale <= 0.0 or shape * y / scale <= -1.0:
            return -math.inf
        total -= math.log(scale)
        total -= y / scale if shape == 0.0 else (1.0 + 1.0 / shape) * math.log1p(shape * y / scale)
    return total


def profile_loop(excesses, shape):
    """Maximum over the scale, for one shape: a grid over log scale, then refined."""
    least = -shape * max(excesses) if shape < 0 else 0.0
    steps = np.linspace(-12.0, 6.0, 181)
    values = [log_likelihood_loop(excesses, shape, least + math.exp(t)) for t in steps]
    t = steps[int(np.argmax(values))]
    found = optimize.minimize_scalar(
        lambda t: -log_likelihood_loop(excesses, shape, least + math.exp(t)),
        bounds=(t - 0.1, t + 0.1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return -found.fun


@pytest.mark.parametrize("shape", [-0.7, -0.3, 0.2, 1.2])
def test_estimate_and_interval_against_explicit_loops(shape):
    excesses = [float(y) for y in 3.0 * gpd_sample(shape, 45, seed=5)]
    fit = fit_gpd(excesses, threshold=0.0, confidence=0.9)
    assert fit.regime != "unbounded"
    assert log_likelihood_loop(excesses, fit.shape, fit.scale) == pytest.approx(
        fit.log_likelihood, abs=1e-9
    )
    assert profile_loop(excesses, fit.shape) == pytest.approx(fit.log_likelihood, abs=1e-7)
    for other in np.linspace(max(fit.shape - 1.0, -0.98), fit.shape + 1.5, 15):
        assert profile_loop(excesses, float(other)) <= fit.log_likelihood + 1e-7
    drop = stats.chi2.ppf(0.9, 1) / 2
    assert fit.shape_low < fit.shape < fit.shape_high
    for end in (fit.shape_low, fit.shape_high):
        if end != -1.0:
            assert profile_loop(excesses, end) == pytest.approx(fit.log_likelihood - drop, abs=1e-6)


@pytest.mark.parametrize("s", [-4.0, -1.5, -0.5, 0.0, 1e-9, 0.7, 3.0])
def test_profile_curve_is_the_profile_and_its_slope(s):
    excesses = gpd_sample(0.1, 40, seed=2)
    profile = GPDProfile(excesses)
    unit = [float(v) for v in excesses / excesses.max()]
    point = profile.at(s)
    assert profile_loop(unit, point.shape) == pytest.approx(40 * point.log_likelihood, abs=1e-7)
    h = 1e-4
    slope = profile_loop(unit, point.shape + h) - profile_loop(unit, point.shape - h)
    assert slope / (2 * h) == pytest.approx(40 * point.score, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("s", [-30.0, -45.0, -200.0])
def test_profile_ends_in_the_uniform_distribution(s):
    point = GPDProfile(gpd_sample(0.1, 40, seed=2)).at(s)
    assert (point.shape, point.scale) == pytest.approx((-1.0, 1.0), abs=1e-10)
    assert point.log_likelihood == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("shape", [-0.9, -0.5, 0.0, 0.8])
def test_no_hill_is_missed_in_small_samples(shape):
    """Grimshaw's own profile, xi(theta) = mean log(1 + theta y), on a dense grid over theta."""
    estimates = 0
    for seed in range(25):
        excesses = gpd_sample(shape, 14, seed=seed)
        fit = fit_gpd(excesses, threshold=0.0)
        s = np.linspace(-12.0, 25.0, 6000)
        theta = np.expm1(s[s != 0]) / excesses.max()
        xi = np.log1p(theta[:, None] * excesses).mean(axis=1)
        value = -14 * (np.log(xi / theta) + xi + 1.0)
        top = value[xi >= -1.0].max()
        uniform = -14 * math.log(excesses.max())
        if fit.regime == "unbounded":
            assert top <= uniform + 1e-9
        else:
            estimates += 1
            assert uniform <= fit.log_likelihood
            assert top == pytest.approx(fit.log_likelihood, abs=1e-3)
            assert top <= fit.log_likelihood + 1e-9
    assert estimates > 0


@pytest.mark.parametrize("shape", [-0.4, -0.2, 0.0, 0.3, 0.7, 1.5])
def test_agrees_with_scipy(shape):
    excesses = gpd_sample(shape, 1500, seed=11)
    fit = fit_gpd(excesses, threshold=0.0)
    c, _, scale = stats.genpareto.fit(excesses, floc=0)  # scipy's c is +xi
    assert fit.shape == pytest.approx(c, abs=5e-4)
    assert fit.scale == pytest.approx(scale, rel=5e-4)
    ours = stats.genpareto.logpdf(excesses, fit.shape, scale=fit.scale).sum()
    assert ours == pytest.approx(fit.log_likelihood, abs=1e-6)
    assert fit.log_likelihood >= stats.genpareto.logpdf(excesses, c, scale=scale).sum() - 1e-9


@pytest.mark.parametrize("shape", [-0.95, -0.7, -0.55, -0.45, 0.0, 0.5, 2.0])
def test_recovers_the_shape_of_a_large_sample(shape):
    fit = fit_gpd(gpd_sample(shape, 60_000, seed=8), threshold=0.0, confidence=0.999)
    assert fit.shape_low <= shape <= fit.shape_high
    assert fit.shape_high - fit.shape_low < 0.1
    assert fit.regime == ("regular" if shape > -0.5 else "irregular")
    if shape < 0:
        assert fit.endpoint == pytest.approx(-1.0 / shape, rel=0.02)
        assert fit.endpoint == fit.threshold - fit.scale / fit.shape
    assert math.isfinite(fit.shape_standard_error) == (fit.regime == "regular")
    # Expected information (Smith 1985); below -1/4 the observed one has infinite variance.
    if shape > -0.25:
        expected = (1 + shape) / math.sqrt(60_000)
        assert fit.shape_standard_error == pytest.approx(expected, rel=0.03)
        expected = math.sqrt(2 * (1 + shape) / 60_000)
        assert fit.scale_standard_error == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("shape", [-0.6, 0.25])
@pytest.mark.parametrize(("factor", "shift"), [(3.7e-9, 0.0), (2.5e11, 0.0), (1.0, -8.0)])
def test_units_and_origin_do_not_matter(shape, factor, shift):
    values = gpd_sample(shape, 400, seed=4)
    fit = fit_gpd(values, quantile=0.5)
    moved = fit_gpd(factor * values + shift, quantile=0.5)
    for name in ("shape", "shape_low", "shape_high"):
        assert getattr(moved, name) == pytest.approx(getattr(fit, name), abs=1e-8)
    assert moved.shape_standard_error == pytest.approx(
        fit.shape_standard_error, rel=1e-6, nan_ok=True
    )
    assert moved.scale == pytest.approx(factor * fit.scale, rel=1e-8)
    assert moved.endpoint == pytest.approx(factor * fit.endpoint + shift, rel=1e-8)
    shifted = fit.log_likelihood - fit.exceedances * math.log(factor)
    assert moved.log_likelihood == pytest.approx(shifted, abs=1e-6)
    assert (moved.regime, moved.exceedances) == (fit.regime, fit.exceedances)


def test_shape_zero_has_its_closed_form():
    """Where mean y^2 = 2 (mean y)^2 the estimate is xi = 0, sigma = mean y."""
    base = gpd_sample(0.0, 300, seed=1)

    def excess_score(power):
        y = base**power
        return np.mean(y**2) - 2 * np.mean(y) ** 2

    y = base ** optimize.brentq(excess_score, 0.5, 2.0, xtol=1e-15)
    fit = fit_gpd(y, threshold=0.0)
    assert fit.shape == pytest.approx(0.0, abs=1e-6)
    assert fit.scale == pytest.approx(y.mean(), rel=1e-6)
    assert fit.log_likelihood == pytest.approx(-300 * (math.log(y.mean()) + 1), rel=1e-9)
    z = y / y.mean()
    information = np.array(
        [
            [np.sum(2 * z**3 / 3 - z**2), np.sum(z**2 - z) / y.mean()],
            [np.sum(z**2 - z) / y.mean(), 300 / y.mean() ** 2],
        ]
    )
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert (fit.shape_standard_error, fit.scale_standard_error) == pytest.approx(errors, rel=1e-3)


def test_sphere_in_six_dimensions():
    """Cosines to a fixed direction: -0.44 at the 0.9 quantile, -0.42 at 0.99, limit -0.4."""
    cosines = 2.0 * np.random.default_rng(7).beta(2.5, 2.5, size=400_000) - 1.0
    at_90, at_99 = (fit_gpd(cosines, quantile=q) for q in (0.9, 0.99))
    assert at_90.exceedances == 40_000
    assert at_90.shape == pytest.approx(-0.44, abs=0.01)
    assert at_99.shape == pytest.approx(-0.42, abs=0.03)
    assert at_99.shape_low < sphere_shape(6) < at_99.shape_high + 0.02
    assert at_99.endpoint == pytest.approx(1.0, abs=0.01)


def test_profile_interval_keeps_its_level():
    covered = 0
    for seed in range(300):
        fit = fit_gpd(gpd_sample(-0.3, 200, seed=seed), threshold=0.0)
        covered += fit.shape_low <= -0.3 <= fit.shape_high
    assert 0.88 <= covered / 300 <= 0.99  # 0.95 less the small-sample loss, 4 standard errors


def test_irregular_regime_has_an_interval_but_no_standard_error():
    fit = fit_gpd(gpd_sample(-0.75, 2000, seed=3), threshold=0.0)
    assert fit.regime == "irregular"
    assert -1.0 < fit.shape_low < -0.75 < fit.shape_high < -0.5
    assert math.isnan(fit.shape_standard_error)
    assert math.isnan(fit.scale_standard_error)
    assert "no standard error" in fit.note
    assert "open below" not in fit.note


def test_interval_that_runs_into_minus_one_says_so():
    fit = fit_gpd(gpd_sample(-0.75, 60, seed=2), threshold=0.0)
    assert fit.regime == "irregular"
    assert fit.shape_low == -1.0
    assert "open below" in fit.note


@pytest.mark.parametrize("shape", [-1.3, -2.0, -4.0])
def test_unbounded_regime_reports_no_estimate(shape):
    fit = fit_gpd(gpd_sample(shape, 500, seed=6), threshold=0.0)
    assert fit.regime == "unbounded"
    for name in ("shape", "scale", "log_likelihood", "endpoint"):
        assert math.isnan(getattr(fit, name)), name
    assert math.isnan(fit.shape_standard_error)
    assert fit.shape_low == -1.0
    assert -1.0 < fit.shape_high < -0.8
    assert "fit_known_endpoint" in fit.note


def test_upper_end_in_the_unbounded_regime_is_the_drop_from_the_uniform():
    excesses = [float(y) for y in gpd_sample(-1.5, 60, seed=6)]
    fit = fit_gpd(excesses, threshold=0.0)
    assert fit.regime == "unbounded"
    uniform = -60 * math.log(max(excesses))
    drop = stats.chi2.ppf(0.95, 1) / 2
    assert profile_loop(excesses, fit.shape_high) == pytest.approx(uniform - drop, abs=1e-5)


def test_threshold_is_an_order_statistic_and_exceedances_are_strict():
    values = np.arange(1.0, 101.0)
    fit = fit_gpd(values, quantile=0.8)
    assert (fit.threshold, fit.exceedances, fit.total) == (80.0, 20, 100)
    assert fit_gpd(values, threshold=80.0, quantile=0.1) == dataclasses.replace(fit)


def test_precision_and_container_of_the_input_do_not_matter():
    values = gpd_sample(0.2, 300, seed=9).astype(np.float32)
    fit = fit_gpd(values, quantile=0.5)
    assert fit_gpd(values.astype(np.float64).tolist(), quantile=0.5) == fit
    assert all(type(getattr(fit, name)) is float for name in ("threshold", "shape", "shape_low"))


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([1.0] * 30, {"threshold": 0.0}, "all 30 exceedances lie 1 above"),
        ([1e-290] * 10 + [1.0], {"threshold": 0.0}, "too wide a range"),
        (range(9), {"threshold": -1.0}, "only 9 of 9 values exceed the threshold -1"),
        (range(500), {}, "only 5 of 500 .* lower the quantile"),
        (range(500), {"confidence": 1.0}, "confidence must lie in .* got 1.0"),
    ],
)
def test_bad_input(values, settings, message):
    with pytest.raises(ValueError, match=message):
        fit_gpd(list(values), **settings)
