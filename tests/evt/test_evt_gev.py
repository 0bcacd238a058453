"""Block maxima: against scipy, in other units, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

from weince_lib.evt import fit_gev


def maxima(shape, size=150, seed=0):
    e = np.random.default_rng(seed).standard_exponential(size)
    return (e**-shape - 1) / shape


@pytest.mark.parametrize("shape", [-0.7, -0.3, 0.4])
def test_beats_scipy_and_lies_beside_it(shape):
    x = maxima(shape)
    fit = fit_gev(x)
    ours = stats.genextreme.logpdf(x, -fit.shape, fit.location, fit.scale).sum()
    assert ours == pytest.approx(fit.log_likelihood, abs=1e-6)
    c, location, scale = stats.genextreme.fit(x, -shape, loc=0, scale=1)
    assert ours >= stats.genextreme.logpdf(x, c, location, scale).sum() - 1e-6
    assert fit.shape == pytest.approx(-c, abs=5e-3)
    assert fit.shape_low < shape < fit.shape_high
    for end in (fit.shape_low, fit.shape_high):  # no parameters with that shape do better
        free = stats.genextreme.fit(x, f0=-end, loc=fit.location, scale=fit.scale)
        height = stats.genextreme.logpdf(x, *free).sum()
        assert height == pytest.approx(ours - stats.chi2.ppf(0.95, 1) / 2, abs=2e-3)


def test_other_units():
    x = maxima(-0.3, 60)
    fit, moved = fit_gev(x), fit_gev(1e6 * x - 3e6)
    assert moved.shape == pytest.approx(fit.shape, abs=1e-4)
    assert moved.location == pytest.approx(1e6 * fit.location - 3e6, rel=1e-4)
    assert moved.scale == pytest.approx(1e6 * fit.scale, rel=1e-4)
    assert moved.endpoint == pytest.approx(1e6 * fit.endpoint - 3e6, rel=1e-3)


def test_no_maximum_is_said():
    fit = fit_gev(maxima(-1.6))
    assert fit.regime == "unbounded"
    for name in ("shape", "location", "scale", "endpoint", "log_likelihood"):
        assert math.isnan(getattr(fit, name))
    assert fit.shape_low == -1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0] * 9, "only 9 maxima, at least 10"),
        ([2.5] * 20, "all 20 maxima equal 2.5"),
        ([1.0, math.nan], r"maxima\[1\] is nan"),
    ],
)
def test_bad_input(values, message):
    with pytest.raises(ValueError, match=message):
        fit_gev(values)
