"""Published generalised Pareto fits, reproduced from their data."""

import numpy as np
import pytest

from weince_lib.evt import fit_gpd


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
