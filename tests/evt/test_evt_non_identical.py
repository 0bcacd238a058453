"""Maxima of differently distributed variables: enumeration, closed forms, bounds, simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from weince_lib.evt import RankedCandidates, ScoredUtilities, canonical_tail, families
from weince_lib.evt.non_identical import (
    block_limit_cdf,
    block_sum_spread,
    homogeneity_gap,
    infinitesimality,
    maximum_cdf,
    permutation_blocks,
    poisson_gap_bound,
)


def probabilities(n, seed=0):
    return np.random.default_rng(seed).beta(0.5, 3.0, n)


def utilities(name, n, seed=0):
    """One of each geometry, with scores spread over (-1, 0.9)."""
    scores = np.random.default_rng(seed).uniform(-1, 0.9, n)
    zero = np.zeros(n)
    return {
        "Gumbel": ScoredUtilities(families.logistic(), scores / 0.5, zero + 1),
        "Fréchet": ScoredUtilities(families.student_t(3), zero, np.exp(scores)),
        "Weibull": ScoredUtilities(families.beta(2, 3), zero, 1 - scores),
    }[name]


GEOMETRIES = ["Gumbel", "Fréchet", "Weibull"]


def test_maximum_law_is_the_product():
    p = probabilities(9)
    assert maximum_cdf(p) == pytest.approx(math.prod(1 - value for value in p), rel=1e-13)
    assert maximum_cdf(np.array([0.2, 1.0])) == 0.0
    assert infinitesimality(p) == max(p)


def test_poisson_gap_lies_between_zero_and_its_bound():
    for seed in range(50):
        p = probabilities(30, seed) * 10.0 ** (-(seed % 4))
        gap = math.exp(-p.sum()) - float(maximum_cdf(p))
        assert 0.0 <= gap <= poisson_gap_bound(p)
        assert poisson_gap_bound(p) <= 0.5 * p.max() * p.sum() * (1 + 1e-12)


@pytest.mark.parametrize("blocks", [2, 3])
def test_spread_of_block_sums_by_enumeration(blocks):
    """All ways to choose the first block from 6 candidates, each equally likely."""
    p = probabilities(6, seed=3)
    sums = [sum(chosen) for chosen in itertools.combinations(p, 6 // blocks)]
    assert np.mean(sums) == pytest.approx(p.sum() / blocks, rel=1e-12)
    assert block_sum_spread(p, blocks) == pytest.approx(np.std(sums), rel=1e-12)
    bound = (blocks - 1) / blocks**2 * 6 / 5 * np.sum(p**2)
    assert float(block_sum_spread(p, blocks)) ** 2 <= bound


def test_permuted_blocks_have_that_spread_and_the_mean_law():
    p = probabilities(12, seed=5) / 4
    sums, cdfs = permutation_blocks(p, 3, 4000, np.random.default_rng(2))
    assert sums.shape == cdfs.shape == (4000, 3)
    assert sums.sum(axis=1) == pytest.approx(np.full(4000, p.sum()), rel=1e-12)
    exact = float(block_sum_spread(p, 3))
    # First block only: blocks of one permutation are dependent. 4.5 standard errors each.
    first = sums[:, 0]
    assert abs(first.mean() - p.sum() / 3) < 4.5 * exact / math.sqrt(4000)
    kurtosis = stats.kurtosis(first, fisher=False)
    error = exact * math.sqrt((kurtosis - 1) / 4 / 4000)
    assert abs(first.std() - exact) < 4.5 * error
    chosen = [math.prod(1 - v for v in c) for c in itertools.combinations(p, 4)]
    assert abs(cdfs[:, 0].mean() - np.mean(chosen)) < 4.5 * np.std(chosen) / math.sqrt(4000)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_constants_of_scored_utilities(name):
    model = utilities(name, 40)
    a, b = model.constants()
    u = b + a * np.array([0.0, 0.7])
    by_hand = [
        np.mean(
            [
                float(model.noise.survival((level - loc) / scale))
                for loc, scale in zip(model.location, model.scale, strict=True)
            ]
        )
        for level in u
    ]
    assert model.exceedance(u).mean(axis=-1) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand[0] == pytest.approx(1 / 40, rel=1e-9)
    h = 1e-6 * a
    slope = np.diff(model.exceedance(np.array([b - h, b + h])).mean(axis=-1))[0] / (2 * h)
    assert a == pytest.approx(-1 / (40 * slope), rel=1e-5)


def test_identical_candidates_give_back_the_family():
    law = families.beta(2, 3)
    a, b = law.constants(50)
    same = ScoredUtilities(law, np.zeros(50), np.full(50, 2.0))
    assert same.constants() == pytest.approx((2 * a, 2 * b), rel=1e-9)
    u = 2 * b + 2 * a * np.linspace(-1, 2, 7)
    expected = law.maximum_cdf(np.linspace(-1, 2, 7), 50)
    assert maximum_cdf(same.exceedance(u)) == pytest.approx(expected, rel=1e-9)
    assert np.all(block_sum_spread(same.exceedance(u), 5) < 1e-15)
    assert np.all(homogeneity_gap(same.exceedance(u), 5) < 1e-14)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_simulated_maxima_follow_the_product(name):
    """Kolmogorov-Smirnov with 3,000 maxima; false alarms: 3 tests at 1e-4 each."""
    model = utilities(name, 25)
    maxima = model.sample_maxima(3000, np.random.default_rng(4))
    test = stats.kstest(maxima, lambda u: maximum_cdf(model.exceedance(u)))
    assert test.pvalue > 1e-4


@pytest.mark.parametrize("name", GEOMETRIES)
def test_random_scores_give_the_extreme_value_limit(name):
    gaps, largest = [], []
    for n in (100, 3000, 100_000):
        model = utilities(name, n)
        a, b = model.constants()
        x = np.linspace(-1, 3, 41)
        p = model.exceedance(b + a * x)
        limit = np.exp(-canonical_tail(x, model.noise.shape))
        gaps.append(np.max(np.abs(maximum_cdf(p) - limit)))
        largest.append(float(infinitesimality(p[10])))  # x = 0
    assert gaps[0] > gaps[1] > gaps[2]
    assert largest[0] > largest[1] > largest[2]
    assert gaps[2] < 0.005
    assert model.first(10).size == 10


def test_ranked_candidates_have_an_exactly_logistic_maximum():
    for n in (2, 50, 3000):
        model = RankedCandidates(n)
        a, b = model.constants()
        x = np.linspace(-math.log(n), 5, 60)
        law = maximum_cdf(model.exceedance(b + a * x))
        assert law == pytest.approx(stats.logistic.cdf(x), rel=1e-9)
        assert block_limit_cdf(x) == pytest.approx(stats.logistic.cdf(x), rel=1e-12)
    assert np.all(RankedCandidates(3).exceedance(-0.1) == 1.0)


def test_ranked_candidates_have_i_and_a_block_limit_but_not_homogeneity():
    n, blocks = 20_000, 3
    model = RankedCandidates(blocks * n)
    x = np.array([-1.0, 0.0, 1.5])
    p = model.exceedance(math.log(n) + x)
    assert np.all(infinitesimality(p) < 2e-4)
    rng = np.random.default_rng(0)
    for row, value in zip(p, x, strict=True):
        _, cdfs = permutation_blocks(row, blocks, 50, rng)
        assert cdfs.std() < 0.005
        assert cdfs.mean() == pytest.approx(block_limit_cdf(value, blocks), abs=1e-3)
    # log(1 + e^-x) in the first block against log(1 + m e^-x) / m in a random one.
    expected = np.log1p(np.exp(-x)) - np.log1p(blocks * np.exp(-x)) / blocks
    assert homogeneity_gap(p, blocks) == pytest.approx(np.abs(expected), abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: maximum_cdf([0.5]), "at least 2 candidates"),
        (lambda: maximum_cdf([0.5, 1.5]), r"must lie in \[0, 1\], got 1.5"),
        (lambda: infinitesimality([0.5, math.nan]), "got nan"),
        (lambda: block_sum_spread([0.1] * 6, 1), "blocks must be at least 2, got 1"),
        (lambda: homogeneity_gap([0.1] * 7, 2), "7 candidates do not split into 2 blocks"),
        (
            lambda: permutation_blocks([[0.1, 0.2]], 2, 1, np.random.default_rng(0)),
            r"p must have shape \(N,\)",
        ),
        (lambda: RankedCandidates(1), "candidates must be at least 2, got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("location", "scale", "noise", "message"),
    [
        ([0.0, 0.0], [1.0], families.normal(), r"got \(2,\) and \(1,\)"),
        ([0.0, math.inf], [1.0, 1.0], families.normal(), r"location\[1\] is inf"),
        ([0.0, 0.0], [1.0, 0.0], families.normal(), r"scale\[1\] is 0"),
        ([0.0, 0.1], [1.0, 1.0], families.uniform(), "shares its endpoint"),
    ],
)
def test_bad_utilities(location, scale, noise, message):
    with pytest.raises(ValueError, match=message):
        ScoredUtilities(noise, np.array(location), np.array(scale))
