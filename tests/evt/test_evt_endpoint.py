"""The endpoint: known, estimated, tested; the exact pivot; transcriptions and invariances."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.evt import endpoint_test, fit_endpoint, fit_gpd, fit_known_endpoint
from weince_lib.evt.endpoint import endpoint_at_share, share_quantile, share_survival


def power_tail(shape, size, rng):
    """1 - W with P(W <= w) = w^beta on (0, 1), beta = -1 / shape: endpoint 1, threshold 0."""
    return 1.0 - rng.random(size) ** -shape


# The endpoint known --------------------------------------------------------------------------


def test_against_an_explicit_loop():
    values = power_tail(-0.6, 200, np.random.default_rng(0))
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
    assert (fit.threshold, fit.endpoint, fit.floored) == (0.4, 1.0, 0)
    # n xi_hat / xi at both ends of the interval is a 5 % and a 95 % point of Gamma(n, 1).
    tails = [
        stats.gamma.cdf(count * fit.shape / end, count) for end in (fit.shape_low, fit.shape_high)
    ]
    assert tails == pytest.approx([0.05, 0.95], abs=1e-9)
    assert fit.shape_low < fit.shape < fit.shape_high < 0


def test_duplicates_and_rounding_above_the_cap_are_floored_and_counted():
    values = np.concatenate([np.linspace(0.0, 0.9, 40), [1.0, 1.0, 1.0 + 2.4e-7, 1.0 - 1e-8]])
    fit = fit_known_endpoint(values, threshold=0.5)
    assert fit.floored == 4
    clean = values.copy()
    clean[-4:] = 1.0 - 1e-6
    assert fit.shape == pytest.approx(fit_known_endpoint(clean, threshold=0.5).shape, rel=1e-9)


# The endpoint estimated ----------------------------------------------------------------------


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
    assert 4.0 + excesses.max() <= fit.profile_low < fit.endpoint < fit.profile_high
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
        assert math.isnan(fit.endpoint) == (regime == "unbounded")
        assert math.isfinite(fit.median_unbiased)


def test_tails_without_an_endpoint():
    rng = np.random.default_rng(6)
    gumbel = fit_endpoint(rng.standard_exponential(2000), threshold=0.0)
    assert gumbel.high == gumbel.exact_high == math.inf
    heavy = fit_endpoint(1 / rng.random(2000) - 1, threshold=0.0)
    assert heavy.endpoint == heavy.low == heavy.high == heavy.exact_low == math.inf


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


def test_below_minus_one_the_exact_p_value_is_the_one_to_use():
    found = endpoint_test(power_tail(-1.5, 400, np.random.default_rng(13)), threshold=0.0)
    assert math.isnan(found.statistic)
    assert math.isnan(found.p_chi_square)
    assert found.p_value == found.p_exact > 0.001


@pytest.mark.parametrize("shape", [-0.8, -0.3])
def test_wrong_endpoints_are_found(shape):
    values = power_tail(shape, 3000, np.random.default_rng(14))
    assert endpoint_test(values, threshold=0.0, endpoint=1.5).p_value < 1e-6
    exponential = np.random.default_rng(15).standard_exponential(3000) / 12
    assert endpoint_test(exponential, threshold=0.0).p_value < 1e-4


GOOD = [0.01 * i for i in range(100)]


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([*GOOD, 1.5, 2.0], {}, r"values\[100\] = 1.5 lies above the endpoint 1, as do 2 of 102"),
        (GOOD, {"threshold": 1.0}, "threshold 1 lies within 1e-06 of the endpoint"),
        (GOOD, {"endpoint": math.nan}, "endpoint must be finite, got nan"),
        (GOOD, {"floor": 0.0}, "floor must be positive and finite, got 0.0"),
        (GOOD, {"confidence": 95}, "confidence must lie in .* got 95"),
    ],
)
def test_bad_input(values, settings, message):
    with pytest.raises(ValueError, match=message):
        fit_known_endpoint(values, **settings)
    if "confidence" not in settings:
        with pytest.raises(ValueError, match=message):
            endpoint_test(values, **settings)
