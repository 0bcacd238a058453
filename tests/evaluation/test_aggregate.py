import math

import numpy as np
import pytest
from scipy import stats

from weince_lib.evaluation import (
    mean_within,
    paired_difference,
    select_on_validation,
    t_interval,
    worst_deviation,
)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
def test_t_interval_against_scipy(confidence):
    values = np.random.default_rng(0).normal(50, 3, size=4)
    interval = t_interval(values.tolist(), confidence)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    assert interval.low == pytest.approx(expected.low)
    assert interval.high == pytest.approx(expected.high)


def test_mean_within():
    means = mean_within({7: [1.0, 2.0, 6.0], 21: [4.0, 4.0, 4.0]})
    assert means == {7: 3.0, 21: 4.0}


def test_paired_difference_against_scipy():
    rng = np.random.default_rng(2)
    base = rng.normal(50, 5, size=6)
    better = base + rng.normal(0.6, 0.5, size=6)
    seeds = [84, 7, 63, 21, 1, 2]
    result = paired_difference(
        dict(zip(seeds, better, strict=True)), dict(zip(reversed(seeds), base[::-1], strict=True))
    )
    expected = stats.ttest_rel(better, base, alternative="greater")
    two_sided = stats.ttest_rel(better, base).confidence_interval(0.95)
    assert result.seeds == (1, 2, 7, 21, 63, 84)
    assert result.p_value == pytest.approx(expected.pvalue)
    assert result.interval.mean == pytest.approx(np.mean(better - base))
    assert result.interval.low == pytest.approx(two_sided.low)
    assert result.interval.high == pytest.approx(two_sided.high)


def test_paired_difference_uses_shared_seeds_only():
    a = {7: 3.0, 21: 5.0, 63: 100.0}
    b = {7: 2.0, 21: 3.0, 84: -100.0}
    result = paired_difference(a, b)
    assert result.interval.mean == 1.5
    assert result.interval.n == 2
    assert result.seeds == (7, 21)
    # Differences 1 and 2: t = 1.5 / 0.5 = 3 on one degree of freedom (Cauchy).
    assert result.p_value == pytest.approx(0.5 - math.atan(3.0) / math.pi)


def test_paired_difference_without_spread_has_no_p_value():
    assert math.isnan(paired_difference({1: 2.0}, {1: 1.0}).p_value)
    # 0.3 - 0.1 and 0.4 - 0.2 differ by rounding alone.
    result = paired_difference({1: 0.3, 2: 0.4}, {1: 0.1, 2: 0.2})
    assert result.interval.mean == pytest.approx(0.2)
    assert math.isnan(result.p_value)


def test_selection_takes_the_best_validation_mean():
    validation = {
        "default": {7: 50.0, 21: 52.0},
        "sharp": {7: 49.0, 21: 54.0},
        "wide": {7: 53.0, 21: 40.0},
    }
    assert select_on_validation(validation) == "sharp"
    assert select_on_validation({(10, 1): {7: 1.0}, (5, 1): {7: 1.0}}) == (10, 1)  # a tie


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: t_interval([]), "values"),
        (lambda: t_interval([1.0, float("nan")]), r"values\[1\] is nan"),
        (lambda: t_interval([1.0, 2.0], 1.0), "confidence"),
        (lambda: mean_within({}), "no encoder seeds"),
        (lambda: mean_within({7: [1.0, 2.0], 21: [1.0]}), "seed 21 has 1 replicates"),
        (lambda: mean_within({7: [float("inf")]}), r"encoder seed 7\[0\] is inf"),
        (lambda: paired_difference({1: 1.0}, {2: 1.0}), "no shared encoder seed"),
        (lambda: select_on_validation({}), "no configurations"),
        (lambda: select_on_validation({"x": {1: 1.0}, "y": {2: 1.0}}), "'y' has encoder seeds"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_worst_deviation_is_the_one_whose_interval_reaches_farthest():
    """Not the largest deviation, if its error is small."""
    found = worst_deviation(np.array([[0.3, -0.2]]), np.array([[0.01, 0.2]]))
    z = stats.norm.isf(0.0125)
    assert (found.mean, found.n) == (-0.2, 2)
    assert found.low == pytest.approx(-0.2 - 0.2 * z)
    assert found.high == pytest.approx(-0.2 + 0.2 * z)
