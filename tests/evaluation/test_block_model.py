"""The model with seeds as blocks, against statsmodels, scipy and its own assumptions."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from weince_lib.evaluation import fit_blocks

NAMES = ("a", "b", "c", "d")


def drawn(seeds=6, missing=(), seed=0):
    """Values of four settings with seed effects; ``missing`` lists (setting, seed) to leave out."""
    draw = np.random.default_rng(seed)
    shift = 3.0 * draw.normal(size=seeds)
    return {
        name: {
            s: 80.0 + k + shift[s] + 0.4 * draw.normal()
            for s in range(seeds)
            if (name, s) not in missing
        }
        for k, name in enumerate(NAMES)
    }


@pytest.mark.parametrize("missing", [(), (("a", 0), ("b", 3), ("d", 3), ("c", 5))])
def test_contrasts_are_those_of_least_squares_with_dummies(missing):
    values = drawn(missing=missing)
    rows = [(n, s, y) for n, own in values.items() for s, y in own.items()]
    frame = pd.DataFrame(rows, columns=["setting", "seed", "y"])
    fitted = smf.ols("y ~ C(setting) + C(seed)", frame).fit()
    model = fit_blocks(values)
    assert model.df == fitted.df_resid
    assert model.deviation == pytest.approx(math.sqrt(fitted.scale))
    for name in ("b", "c", "d"):
        term = f"C(setting)[T.{name}]"
        found = model.contrast(name, "a")
        assert found.mean == pytest.approx(fitted.params[term])
        assert found.error == pytest.approx(fitted.bse[term])
        assert found.p_value() == pytest.approx(fitted.pvalues[term])
        assert found.interval() == pytest.approx(tuple(fitted.conf_int().loc[term]))
    assert model.contrast("b", "c").mean == pytest.approx(-model.contrast("c", "b").mean)


def test_two_settings_give_the_paired_t_test():
    values = {name: drawn()[name] for name in ("a", "b")}
    model = fit_blocks(values)
    a, b = (list(own.values()) for own in values.values())
    expected = stats.ttest_rel(a, b)
    for found in (model.contrast("a", "b"), model.paired("a", "b")):
        assert found.p_value() == pytest.approx(expected.pvalue)
        assert found.interval() == pytest.approx(tuple(expected.confidence_interval()))
        assert (found.df, found.seeds) == (5, 6)


def test_bartletts_test_finds_unequal_spread_and_mostly_leaves_equal_spread_alone():
    draw = np.random.default_rng(5)
    found = {}
    for last in (1.0, 4.0):
        deviations = np.array([1, 1, 1, 1, 1, last])
        below = 0
        for _ in range(100):
            y = draw.normal(size=(8, 1)) + draw.normal(size=(8, 6)) * deviations
            values = {str(k): dict(enumerate(column)) for k, column in enumerate(y.T)}
            below += fit_blocks(values).equal_variance_p < 0.05
        found[last] = below / 100
    assert found[1.0] <= 0.12
    assert found[4.0] > 0.8


def test_one_seed_and_equal_values_have_no_error():
    one = fit_blocks({name: {7: float(k)} for k, name in enumerate(NAMES)})
    assert (one.df, one.contrast("c", "a").mean) == (0, pytest.approx(2.0))
    assert math.isnan(one.deviation)
    assert math.isnan(one.paired("c", "a").error)
    same = fit_blocks({name: {s: 79.1 + 0.1 * s for s in range(4)} for name in NAMES})
    assert same.deviation == 0.0
    assert same.paired("a", "b").error == 0.0
    assert math.isnan(same.contrast("a", "b").p_value())
    two = {name: {s: own[s] for s in (0, 1)} for name, own in drawn().items()}
    assert math.isnan(fit_blocks(two).equal_variance_p)
    flat = drawn() | {"flat": dict.fromkeys(range(6), 80.0)}
    assert 0.0 <= fit_blocks(flat).equal_variance_p <= 1.0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no values"),
        ({"a": {}}, "'a' has no values"),
        ({"a": {7: math.nan}}, "'a', seed 7"),
    ],
)
def test_values_that_cannot_be_fitted_are_named(values, words):
    with pytest.raises(ValueError, match=words):
        fit_blocks(values)


def test_contrasts_need_known_settings_with_a_shared_seed():
    model = fit_blocks({"a": {1: 1.0, 2: 2.0}, "b": {3: 1.0, 4: 3.0}, "c": {1: 1.0, 3: 2.0}})
    with pytest.raises(ValueError, match="'a' and 'b' have no seed"):
        model.contrast("a", "b")
    with pytest.raises(ValueError, match="no setting 'x'"):
        model.paired("x", "a")
