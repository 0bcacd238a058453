"""Goodness of fit: the statistics against scipy, size, power, and honest silence."""

import math

import numpy as np
import pytest
from scipy import stats

from weince_lib.evt import fit_gpd, fit_hill, goodness_of_fit
from weince_lib.evt.goodness import statistics


def test_statistics_against_scipy():
    x = np.random.default_rng(0).standard_exponential(70)
    anderson, cramer = statistics(stats.expon.logsf(x))
    assert cramer == pytest.approx(stats.cramervonmises(x, "expon").statistic, rel=1e-9)
    known = {"loc": 0.0, "scale": 1.0}
    expected = stats.goodness_of_fit(
        stats.expon, x, known_params=known, statistic="ad", n_mc_samples=2, rng=1
    )
    assert anderson == pytest.approx(expected.statistic, rel=1e-9)


def test_fitted_statistics_are_those_of_the_fit():
    x = stats.genpareto.rvs(-0.3, size=200, random_state=2)
    found = goodness_of_fit(x, threshold=0.0, replications=9)
    fit = fit_gpd(x, threshold=0.0)
    law = stats.genpareto(fit.shape, scale=fit.scale)
    assert found.shape == pytest.approx(fit.shape, rel=1e-9)
    assert found.cramer_von_mises == pytest.approx(
        stats.cramervonmises(x, law.cdf).statistic, rel=1e-6
    )
    for p in (found.anderson_darling_p, found.cramer_von_mises_p):
        assert 10 * p == pytest.approx(round(10 * p))  # (b + 1) / (B + 1)
        assert 0.1 <= p <= 1.0


def test_known_endpoint_against_scipy():
    """Two simulations of one p-value: 4 errors of their difference."""
    scores = 1 - np.random.default_rng(3).random(150) ** 0.7
    found = goodness_of_fit(scores, threshold=0.0, endpoint=1.0, replications=1999, floor=1e-12)
    logs = -np.log(1 - scores)
    expected = stats.goodness_of_fit(
        stats.expon, logs, known_params={"loc": 0}, statistic="ad", n_mc_samples=999, rng=4
    )
    assert found.anderson_darling == pytest.approx(expected.statistic, rel=1e-6)
    p = expected.pvalue
    assert found.anderson_darling_p == pytest.approx(
        p, abs=4 * math.sqrt(p * (1 - p) * (1 / 1999 + 1 / 999))
    )
    assert (found.endpoint, found.shape) == (1.0, pytest.approx(-logs.mean()))


def test_published_critical_value():
    """Stephens (1974): with the exponential law's scale fitted, A^2 (1 + 0.6 / n) exceeds 1.321
    in 5 % of samples; 4,000 draws, 4 errors."""
    rng = np.random.default_rng(5)
    drawn = []
    for _ in range(4000):
        x = rng.standard_exponential(50)
        drawn.append(statistics(-x / x.mean())[0] * (1 + 0.6 / 50))
    share = (np.array(drawn) > 1.321).mean()
    assert share == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 4000))


@pytest.mark.parametrize("shape", [-0.6, 0.2])
def test_size(shape):
    """30 samples at 20 %: 4.5 errors are 9.9 samples."""
    rejected = np.zeros(2)
    for seed in range(30):
        x = stats.genpareto.rvs(shape, size=40, random_state=seed)
        found = goodness_of_fit(x, threshold=0.0, replications=19, seed=seed)
        rejected += [found.anderson_darling_p <= 0.2, found.cramer_von_mises_p <= 0.2]
    assert (np.abs(rejected - 6) <= 9.9).all()
    assert (rejected > 0).all()


def test_power():
    x = np.random.default_rng(6).gamma(4.0, size=400)
    found = goodness_of_fit(x, threshold=0.0, replications=99)
    assert found.anderson_darling_p == found.cramer_von_mises_p == 0.01
    gumbel = np.random.default_rng(7).standard_exponential(2000) / 12
    found = goodness_of_fit(gumbel, threshold=0.0, endpoint=1.0, replications=199)
    assert found.anderson_darling_p < 0.05


def test_no_estimate_no_test():
    scores = 1 - np.random.default_rng(8).random(400) ** 1.6
    found = goodness_of_fit(scores, threshold=0.0, replications=9)
    assert math.isnan(found.anderson_darling)
    assert math.isnan(found.anderson_darling_p)
    assert "give the endpoint" in found.note
    known = goodness_of_fit(scores, threshold=0.0, endpoint=1.0, replications=99, floor=1e-12)
    assert known.anderson_darling_p > 0.01


def test_bad_replications():
    with pytest.raises(ValueError, match="replications must be at least 1, got 0"):
        goodness_of_fit(np.arange(100.0), replications=0)


# The Hill estimator --------------------------------------------------------------------------


def test_hill_against_a_loop():
    values = 1 / np.random.default_rng(9).random(400) ** 0.6
    fit = fit_hill(values, threshold=1.5, confidence=0.9)
    logs = [math.log(x / 1.5) for x in values if x > 1.5]
    n = len(logs)
    assert (fit.exceedances, fit.total) == (n, 400)
    assert fit.shape == pytest.approx(sum(logs) / n, rel=1e-12)
    tails = [stats.gamma.cdf(n * fit.shape / end, n) for end in (fit.shape_high, fit.shape_low)]
    assert tails == pytest.approx([0.05, 0.95], abs=1e-9)
    assert (fit.alpha, fit.alpha_low, fit.alpha_high) == pytest.approx(
        (1 / fit.shape, 1 / fit.shape_high, 1 / fit.shape_low)
    )
    assert fit_hill(1e6 * values, threshold=1.5e6).shape == pytest.approx(fit.shape)


def test_hill_needs_a_positive_threshold():
    with pytest.raises(ValueError, match="threshold 0 is not positive"):
        fit_hill(np.arange(30.0), threshold=0.0)
