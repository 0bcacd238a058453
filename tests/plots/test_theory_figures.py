"""Figures of notebooks 01 to 04: what is drawn is what was given, or the law it is said to be."""

import numpy as np
import pytest
from scipy.stats import norm

from weince_lib import plots
from weince_lib.evt import canonical_tail, families, gev_density
from weince_lib.plots import Simulated

LAWS = [families.student_t(3), families.normal(), families.sphere_cosine(6)]
N = np.array([100, 1000, 10000])


def test_framework_shows_a_shift_in_every_coordinate():
    figure = plots.framework()
    panels = np.array(figure.axes).reshape(3, 3)
    shifts = (0.3, np.log(0.8 / 0.5), np.log(0.5 / 0.2))
    for row, shift in zip(panels, shifts, strict=True):
        low, high = (x.get_data() for x in row[1].get_lines())
        peaks = [t[y.argmax()] for t, y in (low, high)]
        assert peaks[1] - peaks[0] == pytest.approx(shift, abs=0.03)
        assert low[1].max() == pytest.approx(high[1].max(), rel=1e-3)


def test_spread_near_cap_joins_each_candidate_with_its_coordinate():
    shortfalls = np.array([0.5, 0.1, 0.01])
    (axes,) = plots.spread_near_cap(shortfalls).axes
    joins = [x.get_data() for x in axes.get_lines() if len(x.get_xdata()) == 2]
    assert [x[0] for x, _ in joins] == pytest.approx([0.5, 0.9, 0.99])
    below = np.array([x[1] for x, _ in joins])
    steps = np.diff(below)
    assert steps[1] / steps[0] == pytest.approx(np.log(10) / np.log(5))


def test_winner_shares_have_the_softmax_as_a_line():
    scores = np.array([0.0, 0.5, 1.0])
    shares = {0.5: np.array([0.1, 0.2, 0.7])}
    (axes,) = plots.winner_shares(scores, shares, 100).axes
    x, y = axes.get_lines()[0].get_data()
    assert np.log(y[1] / y[0]) / (x[1] - x[0]) == pytest.approx(1 / 0.5)
    assert y[0] == pytest.approx(1 / np.exp(scores / 0.5).sum())
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), shares[0.5])


def test_trichotomy_draws_exact_densities_ratios_and_limits():
    maxima = {law.name: law.sample_maxima(20, 500, np.random.default_rng(0)) for law in LAWS}
    figure = plots.trichotomy(LAWS, (5, 1000), maxima, simulated_size=20)
    above, below = figure.axes[:3], figure.axes[3:]
    for law, density, ratio in zip(LAWS, above, below, strict=True):
        lines = density.lines
        x = lines[0].get_xdata()
        np.testing.assert_allclose(lines[0].get_ydata(), law.maximum_density(x, 5))
        np.testing.assert_allclose(lines[1].get_ydata(), law.maximum_density(x, 1000))
        np.testing.assert_allclose(lines[2].get_ydata(), gev_density(x, law.shape))
        x = ratio.lines[1].get_xdata()
        drawn = np.nan_to_num(ratio.lines[1].get_ydata())
        np.testing.assert_allclose(drawn, law.tail_ratio(x, 1000))
        limit = np.nan_to_num(ratio.lines[2].get_ydata())
        np.testing.assert_allclose(limit, canonical_tail(x, law.shape))
        # The dots are a density: what lies in range integrates to its share.
        dots = lines[3]
        width = dots.get_xdata()[1] - dots.get_xdata()[0]
        low, high = density.get_xlim()
        share = np.mean((maxima[law.name] >= low) & (maxima[law.name] <= high))
        assert dots.get_ydata().sum() * width == pytest.approx(share)


def series(start, curve=True):
    value = start / N**0.5
    return Simulated(N, value, value / 50, (N, 1.01 * value) if curve else None)


def test_noise_floor_draws_means_bars_theory_and_floor():
    curves = {"softmax": series(3.0), "endpoint link": series(1.0, curve=False)}
    (axes,) = plots.noise_floor(curves, 0.05, "error", crossing=400.0).axes
    for (name, data), container in zip(curves.items(), axes.containers, strict=True):
        assert container.get_label() == name
        dots, _, (bars,) = container.lines
        np.testing.assert_allclose(dots.get_ydata(), data.value)
        ends = np.array(bars.get_segments())[:, :, 1]
        np.testing.assert_allclose(np.diff(ends)[:, 0], 2 * 1.96 * data.error)


def test_sampling_law_compares_with_both_normals():
    values = norm.ppf((np.arange(2000) + 0.5) / 2000)
    figure = plots.sampling_law({100: values, 9000: values}, 0.8, (N, 1 / N**0.5))
    first, _, third = figure.axes
    grid = first.lines[0].get_xdata()
    np.testing.assert_allclose(first.lines[0].get_ydata(), norm.pdf(grid))
    np.testing.assert_allclose(first.lines[1].get_ydata(), norm.pdf(grid, scale=0.8))
    np.testing.assert_allclose(third.lines[0].get_ydata(), third.lines[1].get_ydata())
