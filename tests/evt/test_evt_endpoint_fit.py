"""The endpoint as a parameter: the exact pivot, both intervals, and the test of a given one."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.evt import endpoint_test, fit_endpoint, fit_gpd
from weince_lib.evt.fixed_endpoint import likelihood_ratio
from weince_lib.evt.largest_share import endpoint_at_share, share_quantile, share_survival


def power_tail(shape, size, rng):
    """Endpoint 1, threshold 0."""
    return 1.0 - rng.random(size) ** -shape


def best_log_likelihood(excesses, endpoint):
    """Highest over shapes in (-1, 0) with the endpoint fixed, by scipy's density."""

    def lost(shape):
        return -stats.genpareto.logpdf(excesses, shape, scale=-shape * endpoint).sum()

    found = optimize.minimize_scalar(lost, bounds=(-1, -1e-4), method="bounded")
    return max(-found.fun, -lost(-1.0))


@pytest.mark.parametrize("g", [0.55, 0.7, 0.9])
def test_largest_share_of_two_and_three(g):
    """Shares of exponentials are uniform on the simplex."""
    assert share_survival(g, 2) == pytest.approx(2 * (1 - g), rel=1e-12)
    assert share_survival(g, 3) == pytest.approx(3 * (1 - g) ** 2, rel=1e-12)


@pytest.mark.parametrize("n", [5, 60, 1000])
def test_largest_share_against_simulation(n):
    """20,000 draws: four errors of a share are at most 0.014."""
    e = np.random.default_rng(n).standard_exponential((20_000, n))
    share = e.max(axis=1) / e.sum(axis=1)
    for p in (0.001, 0.025, 0.5, 0.975):
        g = share_quantile(p, n)
        assert share_survival(g, n) == pytest.approx(1 - p, abs=1e-9)
        assert (share <= g).mean() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 20_000))
    grid = [share_survival(x, n) for x in np.geomspace(1e-4, 1, 300)]
    assert all(b <= a + 1e-7 for a, b in itertools.pairwise(grid))


def test_endpoint_at_a_share_by_its_definition():
    unit = np.random.default_rng(0).random(50)
    unit /= unit.max()
    for share in (0.06, 0.08, 0.1):
        end = endpoint_at_share(unit, share)
        logs = [-math.log(1 - y / end) for y in unit]
        assert max(logs) / sum(logs) == pytest.approx(share, rel=1e-7)
    assert endpoint_at_share(unit, 1.0 / unit.sum()) == math.inf


@pytest.mark.parametrize("shape", [-0.7, -0.35])
def test_profile_interval_against_brute_force(shape):
    excesses = 2.5 * power_tail(shape, 80, np.random.default_rng(3))
    fit = fit_endpoint(excesses + 4.0, threshold=4.0)
    gpd = fit_gpd(excesses, threshold=0.0)
    assert fit.endpoint == pytest.approx(4.0 + gpd.endpoint, rel=1e-9)
    assert best_log_likelihood(excesses, fit.endpoint - 4.0) == pytest.approx(
        gpd.log_likelihood, abs=1e-6
    )
    drop = stats.chi2.ppf(0.95, 1) / 2
    assert fit.largest <= fit.profile_low < fit.endpoint < fit.profile_high
    for end in (fit.profile_low, fit.profile_high):
        assert best_log_likelihood(excesses, end - 4.0) == pytest.approx(
            gpd.log_likelihood - drop, abs=1e-4
        )


def test_the_interval_follows_the_regime():
    rng = np.random.default_rng(5)
    for shape, regime in ((-0.2, "regular"), (-0.75, "irregular"), (-1.6, "unbounded")):
        fit = fit_endpoint(power_tail(shape, 800, rng), threshold=0.0)
        assert fit.regime == regime
        by_profile = (fit.profile_low, fit.profile_high)
        exact = (fit.exact_low, fit.exact_high)
        assert (fit.low, fit.high) == (by_profile if regime == "regular" else exact)
        assert fit.method == ("profile likelihood" if regime == "regular" else "largest share")
        assert math.isnan(fit.endpoint) == (regime == "unbounded")
        assert math.isfinite(fit.median_unbiased)
    assert "median-unbiased" in fit.note


def test_tails_without_an_endpoint():
    rng = np.random.default_rng(6)
    gumbel = fit_endpoint(rng.standard_exponential(2000), threshold=0.0)
    assert gumbel.high == gumbel.exact_high == math.inf
    heavy = fit_endpoint(1 / rng.random(2000) - 1, threshold=0.0)
    assert heavy.endpoint == heavy.low == heavy.high == heavy.exact_low == math.inf


def test_other_units_and_origins():
    values = power_tail(-0.6, 300, np.random.default_rng(7))
    fit = fit_endpoint(values, quantile=0.5)
    moved = fit_endpoint(1e-7 * values - 0.3, quantile=0.5)
    for name in ("endpoint", "median_unbiased", "profile_high", "exact_low", "exact_high"):
        expected = 1e-7 * getattr(fit, name) - 0.3
        assert getattr(moved, name) == pytest.approx(expected, abs=1e-13), name


# The test of a given endpoint ----------------------------------------------------------------


def test_likelihood_ratio_against_brute_force():
    excesses = power_tail(-0.4, 120, np.random.default_rng(9))
    gpd = fit_gpd(excesses, threshold=0.0)
    for endpoint in (1.0, 1.2):
        found = endpoint_test(excesses, threshold=0.0, endpoint=endpoint)
        expected = 2 * (gpd.log_likelihood - best_log_likelihood(excesses, endpoint))
        assert found.statistic == pytest.approx(expected, abs=1e-5)
        assert found.p_chi_square == pytest.approx(stats.chi2.sf(expected, 1), abs=1e-4)
        expected = np.log1p(-excesses / endpoint).mean()
        assert found.shape == pytest.approx(expected, rel=1e-9)


def test_interval_and_test_agree():
    values = power_tail(-0.3, 400, np.random.default_rng(10))
    fit = fit_endpoint(values, threshold=0.0)
    settings = {"threshold": 0.0, "floor": 1e-12}
    for end in (fit.profile_low, fit.profile_high):
        p = endpoint_test(values, endpoint=end, **settings).p_chi_square
        assert p == pytest.approx(0.05, abs=1e-4)
    for end in (fit.exact_low, fit.exact_high):
        p = endpoint_test(values, endpoint=end, **settings).p_exact
        assert p == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize("shape", [-1.8, -0.8, -0.4])
def test_exact_p_value_is_uniform(shape):
    """300 samples, Kolmogorov's test at 1 in 10,000."""
    rng = np.random.default_rng(11)
    p = [
        endpoint_test(power_tail(shape, 30, rng), threshold=0.0, floor=1e-14).p_exact
        for _ in range(300)
    ]
    assert stats.kstest(p, "uniform").pvalue > 1e-4


def test_bootstrap_holds_its_size_and_gives_whole_ranks():
    """50 samples at 10 %: 4.5 errors are 9.5 samples. chi-square is no guide at shape -0.8."""
    rng = np.random.default_rng(12)
    rejected = 0
    for seed in range(50):
        found = endpoint_test(power_tail(-0.8, 15, rng), threshold=0.0, replications=19, seed=seed)
        if not math.isnan(found.statistic):
            assert found.method == "parametric bootstrap"
            assert (20 * found.p_value) == pytest.approx(round(20 * found.p_value))
            assert found.p_value >= 1 / 20
            rejected += found.p_value <= 0.1
    assert rejected <= 5 + 9.5


def test_no_ratio_below_minus_one():
    found = endpoint_test(power_tail(-1.5, 400, np.random.default_rng(13)), threshold=0.0)
    assert math.isnan(found.statistic)
    assert math.isnan(found.p_chi_square)
    assert found.method == "largest share"
    assert found.p_value == found.p_exact > 0.001
    assert math.isnan(likelihood_ratio(power_tail(-1.5, 400, np.random.default_rng(13))))


@pytest.mark.parametrize("shape", [-0.8, -0.3])
def test_wrong_endpoints_are_found(shape):
    values = power_tail(shape, 3000, np.random.default_rng(14))
    assert endpoint_test(values, threshold=0.0, endpoint=1.5).p_value < 1e-6
    exponential = np.random.default_rng(15).standard_exponential(3000) / 12
    assert endpoint_test(exponential, threshold=0.0).p_value < 1e-4


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([0.5, 1.5] * 20, {}, r"values\[1\] = 1.5 lies above the endpoint 1, as do 20 of 40"),
        ([0.5, 0.6] * 20, {"replications": -1}, "replications must be 0 or more, got -1"),
        ([0.5, 0.6] * 20, {"threshold": 1.0}, "within 1e-06 of the endpoint"),
    ],
)
def test_bad_input(values, settings, message):
    with pytest.raises(ValueError, match=message):
        endpoint_test(values, **settings)
