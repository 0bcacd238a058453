"""Published generalised Pareto fits, reproduced from their data."""

import numpy as np
import pytest

from weince_lib.evt import fit_gev, fit_gpd, fit_tail_quantile


def test_coles_daily_rainfall():
    """Coles (2001), An Introduction to Statistical Modeling of Extreme Values, section 4.4.1."""
    coles = pytest.importorskip("openturns.usecases.coles")
    rain = np.asarray(coles.Coles().rain).ravel()
    fit = fit_gpd(rain, threshold=30.0)
    assert (fit.total, fit.exceedances) == (17531, 152)
    assert fit.scale == pytest.approx(7.440, abs=5e-4)
    assert fit.shape == pytest.approx(0.1845, abs=5e-5)
    assert -fit.log_likelihood == pytest.approx(485.094, abs=5e-4)
    assert fit.scale_standard_error == pytest.approx(0.959, abs=1e-3)
    assert fit.shape_standard_error == pytest.approx(0.101, abs=1e-3)
    assert (fit.shape_low, fit.shape_high) == pytest.approx((0.014, 0.415), abs=5e-4)
    assert fit.regime == "regular"
    assert fit.endpoint == np.inf


def test_coles_return_level():
    """Coles (2001), section 4.4.1: the 100-year level is 106.3 (365 observations a year)."""
    coles = pytest.importorskip("openturns.usecases.coles")
    rain = np.asarray(coles.Coles().rain).ravel()
    level = fit_tail_quantile(rain, 1 / 36500, threshold=30.0)
    assert level.quantile == pytest.approx(106.3, abs=0.05)
    # The book reads its interval, [81.6, 185.7], off a curve.
    assert (level.low, level.high) == pytest.approx((81.6, 185.7), abs=1.0)


def test_coles_port_pirie():
    """Coles (2001), section 3.4.1; in scipy's sign the shape would be +0.0501."""
    coles = pytest.importorskip("openturns.usecases.coles")
    fit = fit_gev(np.asarray(coles.Coles().portpirie)[:, 1])
    assert fit.maxima == 65
    assert fit.location == pytest.approx(3.8748, abs=1e-4)
    assert fit.scale == pytest.approx(0.1980, abs=1e-4)
    assert fit.shape == pytest.approx(-0.0501, abs=1e-4)
    assert fit.log_likelihood == pytest.approx(4.339, abs=5e-4)
    # Near the book's -0.050 +- 1.96 * 0.098, and longer to the right, as its profile is.
    assert (fit.shape_low, fit.shape_high) == pytest.approx((-0.218, 0.170), abs=5e-4)
    assert (fit.regime, fit.confidence) == ("regular", 0.95)
