"""Quasi-MLE against loops, brute-force maximisation, exact finite laws and published values."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from weince_lib.choice import (
    QuasiMLE,
    fit_counts,
    fit_mean,
    fit_winners,
    lattice_sum_law,
    link_probabilities,
    pseudo_true,
)

SCORES = np.array([0.15, 0.45, 0.70, 0.90])  # Figure 5
SHORTFALL = -np.log1p(-SCORES)
TRUTH = link_probabilities(SHORTFALL, 0.8)


def probabilities_loop(coordinates, theta):
    top = max(theta * t for t in coordinates)
    weights = [math.exp(theta * t - top) for t in coordinates]
    return [w / sum(weights) for w in weights]


def log_likelihood_loop(sets, winners, theta):
    """One candidate set after the other; ``sets`` holds lists of unequal length."""
    return sum(
        math.log(probabilities_loop(T, theta)[y]) for T, y in zip(sets, winners, strict=True)
    )


def covariance_loop(sets, winners, theta):
    """A as minus the average second derivative, B as the average squared first, by differences."""
    h, A, B = 1e-4, 0.0, 0.0
    for T, y in zip(sets, winners, strict=True):
        down, here, up = (log_likelihood_loop([T], [y], theta + e) for e in (-h, 0.0, h))
        A -= (up - 2 * here + down) / h**2
        B += ((up - down) / (2 * h)) ** 2
    return A / len(sets), B / len(sets)


def ragged_sample(seed, n=60, most=7):
    """Sets of 2 to ``most`` candidates as lists, as padded arrays, and winners of no such link."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(2, most + 1, n)
    mask = np.arange(most) < sizes[:, None]
    coordinate = np.where(mask, draw.normal(size=(n, most)), np.nan)
    winners = (draw.random(n) ** 0.7 * sizes).astype(int)
    sets = [list(row[:size]) for row, size in zip(coordinate, sizes, strict=True)]
    return sets, coordinate, mask, winners


def compositions(n, cells):
    """All ways to spread n winners over the cells."""
    bars = np.array(list(itertools.combinations(range(n + cells - 1), cells - 1)))
    edges = np.c_[np.full(len(bars), -1), bars, np.full(len(bars), n + cells - 1)]
    return np.diff(edges, axis=1) - 1


def test_figure_5_constants():
    """Published for the release's scores: method notes, section 4."""
    softmax, weibit = pseudo_true(SCORES, TRUTH), pseudo_true(SHORTFALL, TRUTH)
    target = 0.8 * (SHORTFALL[-1] - SHORTFALL[0])
    assert target == pytest.approx(1.712053, abs=5e-7)
    assert softmax.slope == pytest.approx(2.566055, abs=5e-7)
    floor = (softmax.slope * (SCORES[-1] - SCORES[0]) - target) ** 2
    assert floor == pytest.approx(0.045151, abs=5e-7)
    weibit_constant = (SHORTFALL[-1] - SHORTFALL[0]) ** 2 * weibit.variance()
    assert weibit_constant == pytest.approx(7.13603, abs=5e-6)
    assert weibit.slope == pytest.approx(0.8, abs=1e-12)
    assert weibit.variance("naive") == pytest.approx(weibit.variance(), rel=1e-12)
    assert weibit.divergence == pytest.approx(0.0, abs=1e-14)
    q = link_probabilities(SCORES, softmax.slope)
    assert softmax.divergence == pytest.approx(stats.entropy(TRUTH, q), rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ragged_sets_against_loops(seed):
    sets, coordinate, mask, winners = ragged_sample(seed)
    fit = fit_winners(coordinate, winners, mask=mask)
    found = optimize.minimize_scalar(
        lambda t: -log_likelihood_loop(sets, winners, t), bracket=(-1, 1), tol=1e-12
    )
    assert fit.slope == pytest.approx(found.x, abs=1e-6)
    A, B = covariance_loop(sets, winners, float(fit.slope))
    assert fit.curvature == pytest.approx(A, rel=1e-5)
    assert fit.score_variance == pytest.approx(B, rel=1e-5)
    assert fit.standard_error() == pytest.approx(math.sqrt(B / 60) / A, rel=1e-5)
    assert fit.standard_error("naive") == pytest.approx(1 / math.sqrt(60 * A), rel=1e-5)
    low, high = fit.interval(confidence=0.9)
    z = stats.norm.ppf(0.95)
    assert (low + high) / 2 == pytest.approx(fit.slope)
    assert (high - low) / 2 == pytest.approx(z * fit.standard_error())


def test_counts_and_winners_are_the_same_data():
    _, coordinate, mask, winners = ragged_sample(5)
    counts = np.zeros(mask.shape, dtype=int)
    counts[np.arange(len(winners)), winners] = 1
    by_counts = fit_counts(coordinate, counts, mask=mask)
    by_winners = fit_winners(coordinate, winners, mask=mask)
    for name in ("slope", "curvature", "score_variance", "size"):
        assert getattr(by_counts, name) == pytest.approx(getattr(by_winners, name), rel=1e-10)


def test_many_repetitions_at_once_are_as_one_by_one():
    """Shape (2, 3) of repetitions, some without an estimate, on sets of unequal sizes."""
    draw = np.random.default_rng(6)
    _, coordinate, mask, _ = ragged_sample(6, n=4)
    p = link_probabilities(coordinate, 0.5, mask=mask) / 4
    assert not p[~mask].any()
    counts = draw.multinomial(40, p.ravel(), size=(2, 3)).reshape(2, 3, *mask.shape)
    counts[1, 1] = 0
    counts[1, 1, 2, np.nanargmax(coordinate[2])] = 5
    fit = fit_counts(coordinate, counts, mask=mask)
    assert fit.slope.shape == (2, 3)
    assert fit.size[1, 1] == 5
    assert fit.exists.sum() == 5
    assert not fit.exists[1, 1]
    halves = QuasiMLE.concatenate([fit_counts(coordinate, half, mask=mask) for half in counts])
    assert halves.slope.tolist() == fit.slope.reshape(6).tolist()
    for index in np.ndindex(2, 3):
        one = fit_counts(coordinate, counts[index], mask=mask)
        for name in ("slope", "curvature", "score_variance", "size"):
            assert getattr(fit, name)[index] == pytest.approx(
                getattr(one, name), rel=1e-9, nan_ok=True
            )


@pytest.mark.parametrize(
    ("T", "counts", "slope"),
    [
        ([0.0, 1.0, 1.5], [0, 0, 9], math.inf),  # all at the best
        ([0.0, 1.0, 1.0], [0, 3, 4], math.inf),  # of which there are two
        ([0.0, 1.0, 1.5], [9, 0, 0], -math.inf),  # all at the worst
        ([0.0, 1.0, 1.5], [1, 0, 10**6], None),
        ([0.0, 1.0, 1.5], [10**6, 0, 1], None),
    ],
)
def test_existence(T, counts, slope):
    fit = fit_counts(T, counts)
    if slope is not None:
        assert fit.slope == slope
        assert not fit.exists
        assert np.isnan([*fit.interval(), fit.curvature, fit.standard_error("naive")]).all()
    else:
        p = link_probabilities(T, float(fit.slope))
        assert fit.exists
        assert p @ T == pytest.approx(np.dot(counts, T) / sum(counts), rel=1e-12)


def test_the_mean_is_enough_for_the_slope_and_its_naive_error():
    counts = np.random.default_rng(2).multinomial(50, TRUTH, size=(3, 4))
    by_counts, by_mean = fit_counts(SCORES, counts), fit_mean(SCORES, counts @ SCORES / 50, 50)
    assert by_mean.slope == pytest.approx(by_counts.slope, rel=1e-10)
    assert by_mean.standard_error("naive") == pytest.approx(by_counts.standard_error("naive"))
    assert np.isnan(by_mean.standard_error()).all()
    assert fit_mean([1, 5], [1.0, 2.0, 5.0], 4).slope.tolist() == pytest.approx(
        [-math.inf, math.log(1 / 3) / 4, math.inf]
    )


def test_a_repetition_that_saw_only_equal_candidates_is_undefined():
    coordinate = np.array([[0.3, 0.3], [0.1, 0.5]])
    fit = fit_counts(coordinate, [[[2, 1], [0, 0]], [[2, 1], [1, 3]]])
    assert np.isnan(fit.slope[0])
    # The first set says nothing: a coin of odds 3 to 1 over a gap of 0.4.
    assert fit.slope[1] == pytest.approx(math.log(3) / 0.4)


def test_bias_and_variance_against_every_sample_of_random_sets():
    """Two sets of unequal sizes, all samples: n bias and n variance tend to their limits."""
    coordinate = np.array([[0.0, 1.0, 2.5], [0.0, 1.2, 0.0]])
    mask = np.array([[True, True, True], [True, True, False]])
    p = np.array([[0.35, 0.15, 0.5], [0.2, 0.8, 0.0]])
    limit = pseudo_true(coordinate, p, mask=mask)
    assert abs(limit.score_variance / limit.curvature - 1) > 0.2  # the link is wrong
    bias, variance = [], []
    for n in (20, 40):
        counts = compositions(n, 5)
        chance = stats.multinomial.pmf(counts, n, p[mask] / 2)
        cells = np.zeros((len(counts), 2, 3), dtype=int)
        cells[:, mask] = counts
        fit = fit_counts(coordinate, cells, mask=mask)
        chance = np.where(fit.exists, chance, 0.0)
        chance /= chance.sum()
        slope = np.where(fit.exists, fit.slope, 0.0)
        bias.append(n * (chance @ slope - limit.slope))
        variance.append(n * (chance @ slope**2 - (chance @ slope) ** 2))
    # The error of each is about 1/n; the combination cancels it.
    assert 2 * bias[1] - bias[0] == pytest.approx(limit.bias, rel=0.06)
    assert 2 * variance[1] - variance[0] == pytest.approx(limit.variance(), rel=0.06)


def test_lattice_law_gives_the_softmax_bias_of_figure_5():
    limit = pseudo_true(SCORES, TRUTH)
    bias = []
    for n in (500, 2000):
        values, p = lattice_sum_law([3, 9, 14, 18], TRUTH, n)
        slope = fit_mean([3, 9, 14, 18], values / n, n).slope / 0.05
        bias.append(n * (p @ slope - limit.slope))
    assert (4 * bias[1] - bias[0]) / 3 == pytest.approx(limit.bias, rel=0.01)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_lattice_law_against_repeated_convolution(n):
    p = np.array([0.2, 0.5, 0.3])
    dense = np.array([0.2, 0.0, 0.5, 0.0, 0.0, 0.3])
    law = np.ones(1)
    for _ in range(n):
        law = np.convolve(law, dense)
    values, found = lattice_sum_law([0, 2, 5], p, n)
    assert values.tolist() == np.flatnonzero(law).tolist()
    assert found == pytest.approx(law[values], abs=1e-15)


def test_coverage_of_both_intervals():
    """4,000 repetitions, 4.5 standard errors: a false alarm in about 40,000 runs."""
    repetitions, n = 4000, 2000
    limit = pseudo_true(SCORES, TRUTH)
    counts = np.random.default_rng(1).multinomial(n, TRUTH, size=repetitions)
    fit = fit_counts(SCORES, counts)
    true_slope = 0.8 * (SHORTFALL[-1] - SHORTFALL[0]) / 0.75
    for covariance in ("sandwich", "naive"):
        low, high = fit.interval(covariance)
        for target in (limit.slope, true_slope):
            expected = float(limit.coverage(n, covariance=covariance, target=target))
            covered = np.mean((low <= target) & (target <= high))
            error = math.sqrt(max(expected * (1 - expected), 1e-3) / repetitions)
            # The normal approximation itself is good to about 1/n for a two-sided interval at the
            # slope, and to about 1/sqrt(n) beside it.
            slack = 0.003 if target == limit.slope else 0.02
            assert abs(covered - expected) < 4.5 * error + slack
    assert limit.coverage() == pytest.approx(0.95)
    ratio = math.sqrt(limit.curvature / limit.score_variance)
    naive = 2 * stats.norm.cdf(stats.norm.ppf(0.975) * ratio) - 1
    assert limit.coverage(covariance="naive") == pytest.approx(naive)
    assert naive < 0.93


GOOD = np.array([[0.1, 0.5], [0.2, 0.9]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_counts([0.5], [3]), "set 0 has fewer than two"),
        (lambda: fit_counts([0.5, np.inf], [3, 1]), "candidate 1 in set 0 is inf"),
        (lambda: fit_counts([0.5, 0.5], [3, 1]), "same throughout every set"),
        (lambda: fit_counts([0.5, 0.7], [3, 1, 1]), r"counts must have shape \(..., 2\)"),
        (lambda: fit_counts([0.5, 0.7], [3, -1]), "whole numbers"),
        (lambda: fit_counts([0.5, 0.7], [[1, 1], [0, 0]]), "without a winner"),
        (
            lambda: fit_counts([0.5, 0.7, 0.1], [1, 1, 1], mask=[True, True, False]),
            "masked entries",
        ),
        (lambda: fit_winners(GOOD, [0]), r"winners \(..., n\)"),
        (lambda: fit_winners(GOOD, [0, 2]), r"column indices in \[0, 2\)"),
        (
            lambda: fit_winners(
                np.c_[GOOD, GOOD[:, :1]], [0, 2], mask=[[True] * 3, [True, True, False]]
            ),
            "winner of set 1 is a masked",
        ),
        (lambda: fit_mean([1, 5], [0.5], 9), "range, 1 to 5"),
        (lambda: fit_mean([1, 5], [2.5], 0), "size must be at least 1"),
        (lambda: pseudo_true([0.5, 0.7], [0.5, 0.4]), "sum to 1"),
        (lambda: pseudo_true([0.5, 0.7], [0.0, 1.0]), "pseudo-true slope is inf"),
        (lambda: link_probabilities([0.5, 0.7], np.nan), "slope must be finite"),
        (lambda: fit_counts([0.5, 0.7], [1, 1]).interval("robust"), "unknown covariance"),
        (lambda: fit_counts([0.5, 0.7], [1, 1]).interval(confidence=1), "confidence must lie"),
        (lambda: lattice_sum_law([0, 0], [0.5, 0.5], 3), "distinct"),
        (lambda: lattice_sum_law([0, 1], [0.5, 0.4], 3), "sum to 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
