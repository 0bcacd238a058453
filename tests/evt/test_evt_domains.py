"""Limit laws of maxima: closed forms, scipy, textbook transcriptions, rates and simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from weince_lib.evt import (
    canonical_tail,
    copies_quantile,
    families,
    gev_cdf,
    gev_density,
    gev_quantile,
    match_types,
    max_stability_gap,
    max_stable_constants,
    shape_of_type,
)

SHAPES = [-2.0, -1.0, -0.4, -1e-9, 0.0, 1e-9, 0.3, 1.0, 2.5]
LAWS = families.standard_families()
LEVELS = np.linspace(0.001, 0.999, 199)


def names(law):
    return law.name


@pytest.mark.parametrize("shape", SHAPES)
def test_gev_is_scipys_with_the_other_sign(shape):
    x = np.linspace(-5, 8, 301)
    law = stats.genextreme(-shape)
    assert gev_cdf(x, shape) == pytest.approx(law.cdf(x), abs=1e-12)
    assert gev_density(x, shape) == pytest.approx(law.pdf(x), rel=1e-7, abs=1e-12)
    assert gev_quantile(LEVELS, shape) == pytest.approx(law.ppf(LEVELS), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "shape", "expected"),
    [
        (0.0, 0.7, 1.0),
        (1.0, 1.0, 0.5),
        (6.0, 0.5, 1 / 16),
        (-2.0, 0.5, math.inf),
        (-5.0, 0.5, math.inf),
        (0.5, -1.0, 0.5),
        (1.0, -1.0, 0.0),
        (9.0, -1.0, 0.0),
        (math.log(3), 0.0, 1 / 3),
    ],
)
def test_canonical_tail_at_known_points(x, shape, expected):
    assert canonical_tail(x, shape) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("copies", [0.5, 2, 7, 1000])
def test_max_stability_both_ways_round(shape, copies):
    x = np.linspace(-3, 6, 101)
    alpha, beta = max_stable_constants(copies, shape)
    assert gev_cdf(alpha * x + beta, shape) ** copies == pytest.approx(gev_cdf(x, shape), abs=1e-10)
    inverse_alpha, inverse_beta = max_stable_constants(1 / copies, shape)
    assert gev_cdf(x, shape) ** copies == pytest.approx(
        gev_cdf(inverse_alpha * x + inverse_beta, shape), abs=1e-10
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_matching_types_finds_the_constants_without_knowing_the_family(shape):
    law = stats.genextreme(-shape)
    found = match_types(law.ppf, copies_quantile(law.ppf, 5))
    assert found == pytest.approx(max_stable_constants(5, shape), rel=1e-7, abs=1e-7)
    for top in (0.2, 1.0, 6.0):
        assert shape_of_type(law.ppf, top=top) == pytest.approx(shape, abs=1e-7)
    assert max_stability_gap(law.ppf, 5, LEVELS) < 1e-6


@pytest.mark.parametrize(
    ("law", "least"),
    [(stats.norm(), 0.1), (stats.expon(), 0.1), (stats.logistic(), 0.1), (stats.uniform(), 0.02)],
)
def test_other_laws_are_not_max_stable(law, least):
    assert max_stability_gap(law.ppf, 5, LEVELS) > least
    levels = [shape_of_type(law.ppf, top=top) for top in (0.1, 4.0)]
    assert abs(levels[0] - levels[1]) > 0.1


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_survival_density_and_levels_belong_together(law):
    p = np.array([0.9, 0.3, 1e-3, 1e-7])
    y = law.exceedance_level(p)
    assert law.survival(y) == pytest.approx(p, rel=1e-8)
    h = 1e-5 * np.abs(y)
    slope = (law.survival(y - h) - law.survival(y + h)) / (2 * h)
    assert law.density(y) == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(
    ("law", "constants"),
    [
        (families.exponential(), lambda n: (1.0, math.log(n))),
        (families.pareto(2), lambda n: (math.sqrt(n) / 2, math.sqrt(n))),
        (families.uniform(), lambda n: (1 / n, -1 / n)),
        (families.gumbel(), lambda n: (1.0, math.log(n))),
        (families.frechet(2), lambda n: (math.sqrt(n) / 2, math.sqrt(n))),
        (families.weibull_shortfall(2), lambda n: (0.5 / math.sqrt(n), -1 / math.sqrt(n))),
        # Embrechts, Klueppelberg and Mikosch (1997), example 3.3.29: the classical closed form.
        (
            families.normal(),
            lambda n: (
                1 / math.sqrt(2 * math.log(n)),
                math.sqrt(2 * math.log(n))
                - (math.log(math.log(n)) + math.log(4 * math.pi))
                / (2 * math.sqrt(2 * math.log(n))),
            ),
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_constants_are_the_textbooks_in_the_limit(law, constants):
    n = 1e12
    (a, b), (textbook_a, textbook_b) = law.constants(n), constants(n)
    slack = 0.05 if law.name == "normal" else 1e-5  # the closed form is off by 1 / log n
    assert a == pytest.approx(textbook_a, rel=slack)
    assert abs(b - textbook_b) / a < slack


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_exact_law_of_the_maximum_against_a_loop_and_its_quantile(law):
    n = 7
    a, b = law.constants(n)
    x = np.linspace(-1, 3, 9)
    loop = [math.prod(1 - float(law.survival(b + a * value)) for _ in range(n)) for value in x]
    assert law.maximum_cdf(x, n) == pytest.approx(loop, rel=1e-12)
    p = np.array([0.01, 0.5, 0.999])
    back = law.maximum_cdf((law.maximum_quantile(p, n) - b) / a, n)
    assert back == pytest.approx(p, rel=1e-9)
    slope = (law.maximum_cdf(x + 1e-5, n) - law.maximum_cdf(x - 1e-5, n)) / 2e-5
    inside = law.maximum_cdf(x, n) < 1
    assert law.maximum_density(x, n)[inside] == pytest.approx(slope[inside], rel=1e-4, abs=1e-8)
    assert law.tail_ratio(0.0, n) == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_simulated_maxima_follow_the_exact_law(law):
    """Kolmogorov-Smirnov with 2,000 maxima; false alarms: 12 laws at 1e-4 each."""
    maxima = law.sample_maxima(20, 2000, np.random.default_rng(1))
    assert stats.kstest(maxima, lambda x: law.maximum_cdf(x, 20)).pvalue > 1e-4


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_distance_to_the_limit_falls_at_the_stated_rate(law):
    ten, twelve = law.distance(1e10), law.distance(1e12)
    if law.rate > 0:
        assert math.log(ten / twelve) / math.log(100) == pytest.approx(law.rate, abs=0.005)
        assert shape_of_type(lambda p: law.maximum_quantile(p, 1e12)) == pytest.approx(
            law.shape, abs=2e-4
        )
    else:
        assert 4e-3 < twelve < ten < 6e-3


def test_oscillating_tail_is_a_law_whose_shape_never_settles():
    law = families.oscillating()
    p = np.array([0.999, 0.5, 1e-3, 1e-9])
    y = law.exceedance_level(p)
    assert law.survival(y) == pytest.approx(p, rel=1e-9)
    for low, high in ((1e6, 1e9), (1e12, 1e15)):  # a period of log n is 2 pi, a factor of 535
        shapes = [
            shape_of_type(lambda q, n=n: law.maximum_quantile(q, n))
            for n in np.geomspace(low, high, 40)
        ]
        assert max(shapes) > 1.1
        assert min(shapes) < 0.9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gev_cdf(0.0, math.nan), "shape must be finite, got nan"),
        (lambda: gev_quantile([0.5, 1.0], 0.1), r"levels must lie in \(0, 1\), got 1.0"),
        (lambda: max_stable_constants(0, 0.1), "copies must be positive and finite, got 0"),
        (lambda: match_types(stats.norm.ppf, stats.norm.ppf, (0.5, 0.5)), "0 < p < q < 1"),
        (lambda: match_types(stats.norm.ppf, stats.poisson(0.01).ppf), "equal quantiles"),
        (lambda: shape_of_type(stats.norm.ppf, 1.0), "ratio must be above 1, got 1.0"),
        (lambda: families.normal().constants(1), "n must be at least 2 and finite, got 1"),
        (lambda: families.pareto(0.0), "alpha must be positive and finite, got 0.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
