"""Checks on values and the choice of the threshold, shared by every tail fit."""

import numpy as np
import pytest

from weince_lib.evt import (
    check_values,
    fit_gpd,
    fit_known_endpoint,
    select_exceedances,
    select_threshold,
)


@pytest.mark.parametrize("fit", [fit_gpd, fit_known_endpoint])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((4, 5)), r"shape \(n,\), got \(4, 5\)"),
        (0.5, r"shape \(n,\), got \(\)"),
        ([], "values is empty"),
        (["a", "b"], "real numbers, got dtype <U1"),
        ([1j, 2.0], "real numbers, got dtype complex128"),
        ([True, False], "real numbers, got dtype bool"),
        ([0.1, 0.2, np.nan, np.inf], r"values\[2\] is nan; drop the 2 of 4"),
        ([0.1, -np.inf, 0.3], r"values\[1\] is -inf; drop the 1 of 3"),
    ],
)
def test_bad_values_get_one_clear_error(fit, values, message):
    with pytest.raises(ValueError, match=message):
        fit(values)


def test_values_are_read_as_float64_and_left_alone():
    for dtype in (np.int32, np.uint8, np.float16, np.float32, np.float64):
        values = np.arange(5, dtype=dtype)
        checked = check_values(values)
        assert checked.dtype == np.float64
        assert checked.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
        checked[0] = 9.0
        assert values[0] == 0


def test_the_default_threshold_is_one_of_the_values():
    values = np.random.default_rng(0).normal(size=997)
    for quantile in (0.5, 0.9, 0.975):
        u = select_threshold(values, None, quantile)
        assert u in values
        above = select_exceedances(values, u)
        assert above.min() > u
        assert above.size == pytest.approx((1 - quantile) * 997, abs=1.0)


def test_a_given_threshold_wins_over_the_quantile():
    assert select_threshold(np.arange(10.0), 3.5, 0.9) == 3.5


@pytest.mark.parametrize(
    ("threshold", "quantile", "message"),
    [
        (np.inf, 0.9, "threshold must be finite, got inf"),
        (None, 1.0, "quantile must lie in .* got 1.0"),
        (None, 0.0, "quantile must lie in .* got 0.0"),
        (None, np.nan, "quantile must lie in .* got nan"),
    ],
)
def test_bad_threshold(threshold, quantile, message):
    with pytest.raises(ValueError, match=message):
        select_threshold(np.arange(100.0), threshold, quantile)


def test_too_few_exceedances_say_what_to_do():
    with pytest.raises(ValueError, match=r"only 9 of 100 .* at least 10 .* lower the quantile"):
        select_exceedances(np.arange(100.0), 90.0)
    assert select_exceedances(np.arange(100.0), 89.0).size == 10
