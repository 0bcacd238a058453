"""The generalised Pareto fit: brute force, scipy, published fits, closed forms, invariances."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.evt import GPDProfile, fit_gpd


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


@pytest.mark.parametrize("shape", [-0.4, 0.0, 0.7])
def test_agrees_with_scipy(shape):
    excesses = gpd_sample(shape, 1500, seed=11)
    fit = fit_gpd(excesses, threshold=0.0)
    c, _, scale = stats.genpareto.fit(excesses, floc=0)  # scipy's c is +xi
    assert fit.shape == pytest.approx(c, abs=5e-4)
    assert fit.scale == pytest.approx(scale, rel=5e-4)
    ours = stats.genpareto.logpdf(excesses, fit.shape, scale=fit.scale).sum()
    assert ours == pytest.approx(fit.log_likelihood, abs=1e-6)
    assert fit.log_likelihood >= stats.genpareto.logpdf(excesses, c, scale=scale).sum() - 1e-9


@pytest.mark.parametrize("shape", [-0.6, 0.25])
@pytest.mark.parametrize(("factor", "shift"), [(3.7e-9, 0.0), (2.5e11, 0.0), (1.0, -8.0)])
def test_units_and_origin_do_not_matter(shape, factor, shift):
    values = gpd_sample(shape, 400, seed=4)
    fit = fit_gpd(values, quantile=0.5)
    moved = fit_gpd(factor * values + shift, quantile=0.5)
    for name in ("shape", "shape_low", "shape_high"):
        assert getattr(moved, name) == pytest.approx(getattr(fit, name), abs=1e-8)
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


def test_irregular_regime_has_an_interval_and_says_where_it_is_open():
    large, small = (
        fit_gpd(gpd_sample(-0.75, size, seed), threshold=0.0) for size, seed in ((2000, 3), (60, 2))
    )
    assert large.regime == small.regime == "irregular"
    assert -1.0 < large.shape_low < -0.75 < large.shape_high < -0.5
    assert small.shape_low == -1.0
    assert ("open below" in large.note, "open below" in small.note) == (False, True)


@pytest.mark.parametrize("shape", [-1.3, -4.0])
def test_unbounded_regime_reports_no_estimate(shape):
    excesses = gpd_sample(shape, 500, seed=6)
    fit = fit_gpd(excesses, threshold=0.0)
    assert fit.regime == "unbounded"
    for name in ("shape", "scale", "log_likelihood", "endpoint"):
        assert math.isnan(getattr(fit, name)), name
    assert fit.shape_low == -1.0
    # The drop is taken from the uniform limit at shape -1.
    expected = -500 * math.log(excesses.max()) - stats.chi2.ppf(0.95, 1) / 2
    assert profile_loop(excesses.tolist(), fit.shape_high) == pytest.approx(expected, abs=1e-4)


def test_coles_daily_rainfall():
    """Coles (2001), An Introduction to Statistical Modeling of Extreme Values, section 4.4.1."""
    coles = pytest.importorskip("openturns.usecases.coles")
    rain = np.asarray(coles.Coles().rain).ravel()
    fit = fit_gpd(rain, threshold=30.0)
    assert fit.exceedances == 152
    assert fit.scale == pytest.approx(7.440, abs=5e-4)
    assert fit.shape == pytest.approx(0.1845, abs=5e-5)
    assert -fit.log_likelihood == pytest.approx(485.094, abs=5e-4)
    assert (fit.shape_low, fit.shape_high) == pytest.approx((0.014, 0.415), abs=5e-4)
    assert fit.regime == "regular"
    assert fit.endpoint == np.inf


# What every tail fit checks first, and its threshold --------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((4, 5)), r"shape \(n,\), got \(4, 5\)"),
        ([], "values is empty"),
        (["a", "b"], "real numbers, got dtype <U1"),
        ([0.1, 0.2, np.nan, np.inf], r"values\[2\] is nan; drop the 2 of 4"),
    ],
)
def test_bad_values_get_one_clear_error(values, message):
    with pytest.raises(ValueError, match=message):
        fit_gpd(values)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_values_are_read_as_float64_and_left_alone(dtype):
    values = (100 * np.random.default_rng(9).random(300)).astype(dtype)
    before = values.copy()
    fit = fit_gpd(values, quantile=0.5)
    assert fit_gpd(values.astype(np.float64).tolist(), quantile=0.5) == fit
    np.testing.assert_array_equal(values, before)


def test_threshold_is_one_of_the_values_and_exceedances_are_strict():
    values = np.arange(1.0, 101.0)
    fit = fit_gpd(values, quantile=0.8)
    assert (fit.threshold, fit.exceedances) == (80.0, 20)
    assert fit_gpd(values, threshold=80.0, quantile=0.1) == fit
    assert fit_gpd(values, threshold=90.0).exceedances == 10


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([1.0] * 30, {"threshold": 0.0}, "all 30 exceedances lie 1 above"),
        ([1e-290] * 10 + [1.0], {"threshold": 0.0}, "too wide a range"),
        (range(9), {"threshold": -1.0}, "only 9 of 9 values exceed the threshold -1"),
        (range(100), {"threshold": 90.0}, r"only 9 of 100 .* at least 10 .* lower the quantile"),
        (range(100), {"threshold": np.inf}, "threshold must be finite, got inf"),
        (range(100), {"quantile": 1.0}, "quantile must lie in .* got 1.0"),
        (range(100), {"quantile": np.nan}, "quantile must lie in .* got nan"),
        (range(500), {"confidence": 1.0}, "confidence must lie in .* got 1.0"),
    ],
)
def test_bad_input(values, settings, message):
    with pytest.raises(ValueError, match=message):
        fit_gpd(list(values), **settings)
