"""Power and image-sampling error, against simulation, statsmodels and enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from weince_lib.evaluation import (
    detectable_effect,
    paired_image_error,
    seeds_to_tell,
)
from weince_lib.evaluation.precision import power_of


@pytest.mark.parametrize(("n", "effect"), [(4, 2.0), (8, 1.0), (20, 0.5)])
def test_power_is_that_of_a_paired_t_test(n, effect):
    # statsmodels counts the wrong tail too, which is below 1e-4 here.
    expected = TTestPower().power(effect, nobs=n, alpha=0.05)
    assert power_of(effect, 1 / math.sqrt(n), n - 1) == pytest.approx(expected, abs=1e-4)


def test_detectable_effect_of_four_seeds_is_that_of_the_tables():
    assert detectable_effect(1 / 2, 3) == pytest.approx(2.13, abs=0.005)
    assert power_of(detectable_effect(0.3, 5, power=0.9), 0.3, 5) == pytest.approx(0.9)


def test_seeds_to_tell_are_the_fewest_with_the_power():
    # WEINCE minus InfoNCE on Fashion-MNIST, +0.25 [-1.06, 1.56] over four seeds: the half-width of
    # six would be 0.97, but six see an effect of 0.97 with a probability of 64 % only.
    deviation = 1.31 * 2 / stats.t.ppf(0.975, 3)
    assert power_of(0.97, deviation / math.sqrt(6), 5) == pytest.approx(0.64, abs=0.005)
    assert seeds_to_tell(0.97, deviation) == 8
    for settings, tests in ((2, 1), (6, 5)):
        n = seeds_to_tell(0.5, 0.55, settings=settings, tests=tests)
        powers = [
            power_of(0.5, 0.55 / math.sqrt(k), (settings - 1) * (k - 1), tests=tests)
            for k in (n - 1, n)
        ]
        assert powers[0] < 0.8 <= powers[1]


@pytest.mark.parametrize(("effect", "deviation"), [(0.0, 1.0), (1.0, 0.0), (0.01, 1.0)])
def test_no_number_of_seeds_without_effect_or_spread_or_beyond_reach(effect, deviation):
    assert seeds_to_tell(effect, deviation) is None


def test_nothing_is_known_without_error_or_degrees_of_freedom():
    assert math.isnan(power_of(1.0, 0.0, 3))
    assert math.isnan(detectable_effect(1.0, 0))
    with pytest.raises(ValueError, match=r"power must lie in .*1\.2"):
        detectable_effect(1.0, 3, power=1.2)
    with pytest.raises(ValueError, match="at least 2, got 1"):
        seeds_to_tell(1.0, 1.0, settings=1)


def test_paired_image_error_bounds_every_pair_with_these_accuracies():
    draw = np.random.default_rng(1)
    for _ in range(200):
        n = 400
        a = draw.random(n) < draw.random()
        b = np.where(draw.random(n) < draw.random(), a, draw.random(n) < draw.random())
        low, high = paired_image_error(100 * a.mean(), 100 * b.mean(), n)
        own = 100 * (a.astype(float) - b).std() / math.sqrt(n)
        assert low - 1e-9 <= own <= high + 1e-9
    # Reached by two that disagree as often, and as rarely, as they can.
    a, b = np.arange(10) < 6, np.arange(10) >= 5
    assert paired_image_error(60, 50, 10)[1] == pytest.approx(
        100 * (a.astype(float) - b).std() / math.sqrt(10)
    )
    b = np.arange(10) < 5
    assert paired_image_error(60, 50, 10)[0] == pytest.approx(
        100 * (a.astype(float) - b).std() / math.sqrt(10)
    )


@pytest.mark.parametrize(("accuracy", "images"), [(101.0, 10), (-1.0, 10), (50.0, 0)])
def test_impossible_accuracies_and_test_sets_are_named(accuracy, images):
    with pytest.raises(ValueError, match="got"):
        paired_image_error(accuracy, 50.0, images)


def test_power_is_the_share_of_simulated_studies_that_see_the_effect():
    # Six settings, eight seeds, five contrasts: the error comes from the residuals of all.
    seeds, settings, tests, studies = 8, 6, 5, 4000
    df = (seeds - 1) * (settings - 1)
    error = math.sqrt(2 / seeds)
    effect = detectable_effect(error, df, tests=tests)
    y = np.random.default_rng(0).normal(size=(studies, seeds, settings))
    y[:, :, 0] += effect
    residual = y - y.mean(1, keepdims=True) - y.mean(2, keepdims=True)
    residual += y.mean((1, 2), keepdims=True)
    estimated = np.sqrt((residual**2).sum((1, 2)) / df * 2 / seeds)
    t = (y[:, :, 0] - y[:, :, 1]).mean(1) / estimated
    seen = (t > stats.t.ppf(1 - 0.05 / tests / 2, df)).mean()
    assert seen == pytest.approx(0.8, abs=0.02)  # three standard errors of a share of 4000
    assert effect == pytest.approx(1.8, abs=0.05)  # what weince_lib.studies.decide says
