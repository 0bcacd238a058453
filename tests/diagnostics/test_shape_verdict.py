"""The rule on given intervals, its yardstick, and its error rates on tails of known kind."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.diagnostics import shape_at, verdict
from weince_lib.diagnostics.calibration import (
    exponential_law,
    gumbel_law,
    normal_law,
    sphere_law,
    weibull_law,
)
from weince_lib.diagnostics.shape_verdict import MARGIN, _cap, _fit, _vote, normal_shape
from weince_lib.evt import fit_gpd

REPETITIONS = 30
#: With an error rate of 5 % more than 5 errors in 30 have probability 0.003.
MOST_ERRORS = 5


def test_normal_shape_is_that_of_the_closest_generalised_pareto_law():
    """Kullback and Leibler's divergence by quadrature, over a tail as long as 4,000 points see."""
    level, longest = 0.99, stats.norm.isf(0.01 / 8000)
    u = stats.norm.ppf(level)
    x = np.linspace(u, longest, 20_001)
    weight = stats.norm.pdf(x)

    def divergence(parameters):
        shape, scale = parameters[0], math.exp(parameters[1])
        inner = 1 + shape * (x - u) / scale
        if inner[-1] <= 0:
            return 1e6
        loss = math.log(scale) + (1 + 1 / shape) * np.log(inner)
        return np.trapezoid(loss * weight, x) / np.trapezoid(weight, x)

    found = optimize.minimize(divergence, [-0.05, math.log(0.35)], method="Nelder-Mead")
    # The mid-quantiles weigh the last piece of the tail a little differently.
    assert normal_shape(level) == pytest.approx(found.x[0], abs=0.004)


@pytest.mark.parametrize("shape", [-0.95, -0.6, -0.2, 0.0, 0.4])
def test_fit_from_nearby_is_the_fit_from_the_whole_curve(shape):
    e = np.random.default_rng(0).standard_exponential(400)
    excesses = np.expm1(shape * e) / shape if shape else e
    whole, near = _fit(excesses), _fit(excesses, shape + 0.05)
    np.testing.assert_allclose(near, whole, atol=1e-6)
    fit = fit_gpd(excesses, threshold=0.0)
    if fit.regime != "unbounded":
        assert whole[0] == pytest.approx(fit.shape, abs=1e-7)
        if fit.shape < 0:
            assert 1 / whole[1] == pytest.approx(fit.endpoint, rel=1e-6)


def test_votes_and_where_the_endpoint_lies():
    r, room = -0.09, 0.4
    assert _vote(-0.5, r - MARGIN - 0.01, r) == "endpoint-like"
    assert _vote(r - MARGIN + 0.01, 0.1, r) == "Gumbel-like"
    assert _vote(0.1, 0.3, r) == "Gumbel-like"
    assert _vote(r - MARGIN + 0.01, r - 0.01, r) == "undecided"  # in the strip
    assert _vote(-0.5, 0.2, r) == "undecided"
    assert _cap(0.97, 1.04, room) == "at the cap"
    assert _cap(0.7, 0.85, room) == "below the cap"
    assert _cap(1.2, math.inf, room) == "beyond the cap or none"
    assert _cap(0.97, math.inf, room) == "unclear"


FIRST, SECOND = np.triu_indices(200, 1)


def draw(law, seed):
    """Independent cosines, as if between all rows; or those of directions in so many dimensions."""
    if not isinstance(law, int):
        return found_in(law.quantile(np.random.default_rng([seed, 5]).random(FIRST.size)))
    z = np.random.default_rng([seed, 6]).standard_normal((200, law))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    return found_in((1 - z @ z.T)[FIRST, SECOND])


def with_effects(seed, weight=0.6):
    """Normal cosines in which each row has a level of its own."""
    rng = np.random.default_rng([seed, 7])
    level = rng.standard_normal(200)
    own = math.sqrt(1 - 2 * weight**2) * rng.standard_normal(FIRST.size)
    return found_in(1 - 0.1 * (weight * (level[FIRST] + level[SECOND]) + own))


def found_in(delta, share=0.05):
    """The verdict on the highest pairs."""
    members, order = np.stack([FIRST, SECOND], axis=1), np.argsort(delta)
    count = round(share * delta.size)
    kept, u = order[:count], 1 - delta[order[count]]
    at = shape_at(delta[kept], members[kept], level=1 - share, threshold=float(u))
    return verdict([at])[0]


def law_id(law):
    """A name that every process gives a law; ``str`` would show where its function lies."""
    return getattr(law, "name", str(law))


@pytest.mark.parametrize(
    "law", [normal_law(0, 0.1), exponential_law(0.05), gumbel_law(0.05), "levels", 200], ids=law_id
)
def test_tails_without_a_visible_end_are_seldom_called_endpoint_like(law):
    found = [with_effects(s) if law == "levels" else draw(law, s) for s in range(REPETITIONS)]
    assert found.count("endpoint-like") <= MOST_ERRORS


@pytest.mark.parametrize(
    ("law", "seen"),
    [(weibull_law(0.5), 1), (weibull_law(2), 1), (weibull_law(4), 0), (4, 1), (8, 0), (16, 0)],
    ids=law_id,
)
def test_tails_with_an_end_are_seldom_called_gumbel_like(law, seen):
    found = [draw(law, seed) for seed in range(REPETITIONS)]
    assert found.count("Gumbel-like") <= MOST_ERRORS
    assert found.count("endpoint-like") >= seen * 0.8 * REPETITIONS


def test_interval_over_rows_is_wider_than_over_pairs_where_rows_matter():
    rng = np.random.default_rng(8)
    level = rng.exponential(size=150)
    i, j = np.triu_indices(150, 1)
    s = 0.03 * (level[i] + level[j]) + 0.006 * rng.standard_normal(i.size)
    order = np.argsort(-s)[:600]
    u = float(s[np.argsort(-s)[600]])
    members = np.stack([i, j], axis=1)
    at = shape_at(1 - s[order], members[order], level=0.95, threshold=u)
    fit = fit_gpd(s, threshold=u)
    assert at.shape == pytest.approx(fit.shape, abs=1e-6)
    assert at.high - at.low > 1.5 * (fit.shape_high - fit.shape_low)


def test_shortfalls_must_be_positive():
    with pytest.raises(ValueError, match="shortfalls must be positive, got 0"):
        shape_at(np.zeros(60), np.zeros((60, 2), dtype=int), level=0.9, threshold=0.5)


def test_a_higher_threshold_can_take_a_verdict_back():
    law = sphere_law(4)
    u = np.random.default_rng(2).random(2000) * 0.01
    members = np.random.default_rng(3).integers(500, size=(2000, 2))
    members[:, 1] += 500
    threshold = 1 - float(law.quantile(np.array([0.01]))[0])
    main = shape_at(law.quantile(u), members, level=0.99, threshold=threshold)
    same = dataclasses.replace(main, level=0.999)
    opposite = dataclasses.replace(main, level=0.999, vote="Gumbel-like")
    few = dataclasses.replace(main, level=0.98, exceedances=100, vote="undecided")
    assert verdict([few, main, same]) == ("endpoint-like", main)
    assert verdict([few, main, opposite]) == ("undecided", main)
    assert verdict([few, opposite])[1] is few
