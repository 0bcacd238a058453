"""Parameter stability and mean residual life against brute force and closed forms."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.evt import (
    fit_gpd,
    fit_known_endpoint,
    held_out_misses,
    mean_residual_life,
    parameter_stability,
)


def excesses(shape, size, seed):
    e = np.random.default_rng(seed).standard_exponential(size)
    return np.expm1(shape * e) / shape if shape else e


def highest(y, scale_of, shapes):
    """Highest log-likelihood over a grid of shapes, refined, the scale tied to the shape."""

    def lost(shape):
        scale = scale_of(shape)
        if scale <= 0:
            return 1e9
        return min(-stats.genpareto.logpdf(y, shape, scale=scale).sum(), 1e9)

    best = min(shapes, key=lost)
    step = shapes[1] - shapes[0]
    found = optimize.minimize_scalar(
        lost, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-9}
    )
    return -min(found.fun, lost(best))


# Parameter stability -------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "origin"), [(-0.7, 0.0), (-0.3, -5.0), (0.25, 2.0)])
def test_modified_scale_against_brute_force(shape, origin):
    values = origin + excesses(shape, 400, seed=4)
    (point,) = parameter_stability(values, quantiles=[0.6])
    fit = point.fit
    assert fit == fit_gpd(values, quantile=0.6)
    u = fit.threshold
    assert point.modified_scale == pytest.approx(fit.scale - fit.shape * u, rel=1e-12)
    assert point.modified_scale_low < point.modified_scale < point.modified_scale_high
    y = values[values > u] - u
    drop = stats.chi2.ppf(0.95, 1) / 2
    shapes = np.arange(-0.9993, 1.5, 0.004)
    for end in (point.modified_scale_low, point.modified_scale_high):
        top = highest(y, lambda xi, end=end: end + xi * u, shapes)
        assert top == pytest.approx(fit.log_likelihood - drop, abs=1e-3)


@pytest.mark.parametrize("shape", [-0.55, -0.8, -1.0, -1.7, -4.0])
def test_no_shape_breaks_it(shape):
    scores = 1 - np.random.default_rng(6).random(20_000) ** -shape
    for point in parameter_stability(scores, endpoint=1.0):
        if point.fit.threshold < 1 - 1e-6:
            assert point.known == fit_known_endpoint(scores, quantile=point.quantile)
        else:  # so short a tail is at the cap to the floor
            assert (shape, point.known) == (-4.0, None)
        assert point.fit.shape_low <= point.fit.shape_high
        triple = (point.modified_scale, point.modified_scale_low, point.modified_scale_high)
        if point.fit.regime == "unbounded":
            assert shape <= -0.8
            assert all(math.isnan(x) for x in triple)
        else:
            assert shape > -1.5
            # -xi x_F, with the endpoint all but known.
            assert triple[0] == pytest.approx(-point.fit.shape, rel=0.02)
            assert triple[1] < triple[0] < triple[2]


# Mean residual life --------------------------------------------------------------------------


def test_mean_residual_life_against_a_loop():
    values = np.random.default_rng(7).normal(size=300)
    for point, level in zip(
        mean_residual_life(values, quantiles=[0.3, 0.9]), (0.3, 0.9), strict=True
    ):
        u = sorted(values)[int(level * 299)]
        over = [x - u for x in values if x > u]
        assert (point.threshold, point.exceedances) == (u, len(over))
        low, high = stats.t.interval(0.95, len(over) - 1, loc=np.mean(over), scale=stats.sem(over))
        assert (point.mean, point.low, point.high) == pytest.approx((np.mean(over), low, high))


def test_mean_residual_life_is_a_line_on_a_pareto_tail():
    """e(u) = (1 + xi u) / (1 - xi): falling for an endpoint, level for the exponential law."""
    for shape in (-0.5, 0.0, 0.3):
        values = excesses(shape, 50_000, seed=8)
        for point in mean_residual_life(values, quantiles=[0.5, 0.9, 0.98], confidence=0.9999):
            assert point.low < (1 + shape * point.threshold) / (1 - shape) < point.high


def test_held_out_misses_against_a_loop():
    fitted_to, held_out = (1 - excesses(0.4, 3_000, seed=s) for s in (9, 10))
    fit = fit_gpd(fitted_to, quantile=0.9)
    over = [x - fit.threshold for x in fitted_to if x > fit.threshold]
    new = sorted(x - fit.threshold for x in held_out if x > fit.threshold)
    mean, pareto, exponential = sum(over) / len(over), [], []
    for i in range(199):
        p = 0.005 + 0.99 * i / 198
        place = p * (len(new) - 1)
        low = int(place)
        seen = new[low] + (place - low) * (new[min(low + 1, len(new) - 1)] - new[low])
        pareto.append(abs(fit.scale / fit.shape * ((1 - p) ** -fit.shape - 1) - seen))
        exponential.append(abs(-mean * math.log(1 - p) - seen))
    found = held_out_misses(fitted_to, held_out, quantile=0.9)
    assert found == pytest.approx((max(pareto), max(exponential)), rel=1e-9)


def test_held_out_misses_tell_an_endpoint_from_an_exponential_tail():
    for shape, least, most in ((-0.5, 3.0, math.inf), (0.0, 0.5, 2.0)):
        halves = [excesses(shape, 100_000, seed=s) for s in (11, 12)]
        pareto, exponential = held_out_misses(*halves, quantile=0.9)
        assert least < exponential / pareto < most


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantiles": []}, "quantiles must ascend"),
        ({"quantiles": [0.9, 0.5]}, r"quantiles must ascend .* got \[0.9, 0.5\]"),
        ({"quantiles": [0.995]}, "leaves 1 values above the threshold, at least 2"),
    ],
)
def test_bad_thresholds(settings, message):
    with pytest.raises(ValueError, match=message):
        mean_residual_life(np.arange(200.0), **settings)
