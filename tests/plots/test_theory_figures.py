"""Figures of notebooks 01 to 04: what is drawn is what was given, or the law it is said to be."""

import numpy as np
import pytest
from scipy.stats import norm

from weince_lib import plots
from weince_lib.evt import canonical_tail, families, gev_density
from weince_lib.plots import Simulated

LAWS = [families.student_t(3), families.normal(), families.sphere_cosine(6)]
X = np.array([1.0, 10.0, 100.0])
N = np.array([100, 1000, 10000])


def line(axes, label):
    (found,) = [x for x in axes.get_lines() if x.get_label() == label]
    return found


def test_framework_shows_a_shift_in_every_coordinate():
    figure = plots.framework()
    panels = np.array(figure.axes).reshape(3, 3)
    shifts = (0.3, np.log(0.8 / 0.5), np.log(0.5 / 0.2))
    for row, shift in zip(panels, shifts, strict=True):
        low, high = (x.get_data() for x in row[1].get_lines())
        peaks = [t[y.argmax()] for t, y in (low, high)]
        assert peaks[1] - peaks[0] == pytest.approx(shift, abs=0.03)
        assert low[1].max() == pytest.approx(high[1].max(), rel=1e-3)
        assert any(f"{shift:.2f}" in text.get_text() for text in row[1].texts)


def test_spread_near_cap_joins_each_candidate_with_its_coordinate():
    shortfalls = np.array([0.5, 0.1, 0.01])
    (axes,) = plots.spread_near_cap(shortfalls).axes
    joins = [x.get_data() for x in axes.get_lines() if len(x.get_xdata()) == 2]
    assert [x[0] for x, _ in joins] == pytest.approx([0.5, 0.9, 0.99])
    below = np.array([x[1] for x, _ in joins])
    steps = np.diff(below)
    assert steps[1] / steps[0] == pytest.approx(np.log(10) / np.log(5))
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0.0", "2.3", "4.6"]


def test_convergence_draws_exact_laws_apart():
    sizes = [10, 100]
    values = {"Gumbel": np.array([1e-16, 2e-16]), "normal": np.array([0.1, 0.01])}
    figure = plots.convergence(sizes, {"Gumbel": values, "Weibull": values}, "distance")
    for axes in figure.axes:
        np.testing.assert_allclose(line(axes, "Gumbel: exact").get_ydata(), 1e-13)
        np.testing.assert_allclose(line(axes, "normal").get_ydata(), [0.1, 0.01])
    assert figure.axes[0].get_ylabel() == "distance"


def test_wrong_link_marks_the_best_temperature_and_the_nearest_candidate():
    q = np.array([0.5, 0.02, 0.1])
    ratio = np.array([0.1, -1.0, 0.3])
    figure = plots.wrong_link(
        np.array([0.1, 1.0]), {3: np.array([0.2, 0.4])}, {3: (0.2, 0.15)}, {3: q}, {3: ratio}
    )
    left, right = figure.axes
    np.testing.assert_allclose(line(left, "3 candidates").get_ydata(), [0.2, 0.4])
    assert left.get_lines()[1].get_data() == ([0.2], [0.15])
    x, y = right.get_lines()[1].get_data()
    assert (float(x[0]), float(y[0])) == (0.02, -1.0)


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
    assert [axes.get_title().split(",")[0] for axes in above] == ["Fréchet", "Gumbel", "Weibull"]
    assert "ξ = −0.4" in above[2].get_title()
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
    first, second, third = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["n = 100", "n = 9,000"]
    grid = first.lines[0].get_xdata()
    np.testing.assert_allclose(first.lines[0].get_ydata(), norm.pdf(grid))
    np.testing.assert_allclose(first.lines[1].get_ydata(), norm.pdf(grid, scale=0.8))
    np.testing.assert_allclose(third.lines[0].get_ydata(), third.lines[1].get_ydata())


def test_interval_coverage_keeps_every_bar_in_view():
    low = Simulated(N, np.array([0.7, 0.8, 0.85]), np.full(3, 0.01))
    high = Simulated(N, np.array([0.94, 0.95, 0.99]), np.full(3, 0.004))
    curves = {"sandwich": high, "naive": low}
    left, right = plots.interval_coverage(curves, curves, [("sandwich", 0.95)]).axes
    bottom, top = left.get_ylim()
    assert bottom < 0.7 - 1.96 * 0.01
    assert top > 0.99 + 1.96 * 0.004
    assert [c.get_label() for c in right.containers] == ["sandwich", "naive"]
