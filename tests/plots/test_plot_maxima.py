"""Figures about maxima: what they draw is what they were given."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from weince_lib import plots
from weince_lib.evt import canonical_tail, families, gev_density

LAWS = [families.student_t(3), families.normal(), families.sphere_cosine(6)]
X = np.array([1.0, 10.0, 100.0])


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def points(*y: float) -> plots.Points:
    return plots.Points(X[: len(y)], np.array(y), 0.1 * np.ones(len(y)))


def test_trichotomy_draws_exact_densities_ratios_and_limits() -> None:
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
        assert to_hex(lines[1].get_color()) == plots.DOMAIN_COLOURS[law.geometry].lower()
        # The dots are a density: what lies in range integrates to its share.
        dots = lines[3]
        width = dots.get_xdata()[1] - dots.get_xdata()[0]
        low, high = density.get_xlim()
        share = np.mean((maxima[law.name] >= low) & (maxima[law.name] <= high))
        assert dots.get_ydata().sum() * width == pytest.approx(share)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["n = 5", "n = 1,000", "limit", "drawn, n = 20"]


def test_rates_stand_in_the_panel_of_their_geometry() -> None:
    distances = {law.name: np.array([0.1, 0.01, 0.001]) * (i + 1) for i, law in enumerate(LAWS)}
    figure = plots.convergence_rates(LAWS, X, distances)
    for axes, law in zip(figure.axes, LAWS, strict=True):
        assert axes.get_title() == law.geometry
        (line,) = axes.lines
        np.testing.assert_allclose(line.get_ydata(), distances[law.name])
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_block_sums_show_spread_and_law() -> None:
    sums = {100: np.random.default_rng(0).normal(0.3, 0.1, 200), 1000: np.full(200, 0.33)}
    spreads = {"Gumbel": (np.array([0.3, 0.1, 0.03]), points(0.29, 0.11, 0.03))}
    figure = plots.block_sums(sums, 1 / 3, spreads, {"Gumbel": points(0.01, 0.0, -0.01)})
    left, middle, right = figure.axes
    legend = [text.get_text() for text in left.get_legend().get_texts()]
    assert set(legend) == {"n = 100", "n = 1,000", "S/m"}
    np.testing.assert_allclose(middle.lines[0].get_ydata(), [0.3, 0.1, 0.03])
    np.testing.assert_allclose(right.lines[0].get_ydata(), [0.01, 0.0, -0.01])


def test_counter_examples_draw_limit_and_rivals() -> None:
    x = np.linspace(-2, 2, 5)
    panels = {
        "(I) fails": ({"limit": x / 4 + 0.5, "Gumbel": x / 8 + 0.5}, points(0.2, 0.4, 0.9)),
        "(H) fails": ({"limit": x / 4 + 0.5}, points(0.1, 0.2, 0.3)),
    }
    figure = plots.counter_examples(x, panels, {"Gumbel": points(0.0, 0.0, 0.0)})
    assert [axes.get_title() for axes in figure.axes[:2]] == list(panels)
    curves = {line.get_label(): line for line in figure.axes[0].lines}
    np.testing.assert_allclose(curves["Gumbel"].get_ydata(), x / 8 + 0.5)
    low, high = figure.axes[2].get_xlim()
    assert low > high  # from the bulk to the tail


def test_sphere_figure_has_limits_exact_curves_and_embeddings() -> None:
    shapes = {6: (-0.4, np.array([-0.43, -0.41, -0.4]), points(-0.44, -0.4, -0.41))}
    k = np.array([4, 8, 16])
    figure = plots.sphere_and_embeddings(
        shapes, {"encoder seed 7": np.array([5.0, 4.0, 3.0])}, (k, np.array([30.0, 29.0, 28.0])), 64
    )
    left, right = figure.axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), [-0.43, -0.41, -0.4])
    np.testing.assert_allclose(left.lines[1].get_ydata(), [-0.4, -0.4])
    by_label = {line.get_label(): line for line in right.lines}
    np.testing.assert_allclose(by_label["even, d = 64"].get_ydata(), [30.0, 29.0, 28.0])
    np.testing.assert_allclose(by_label["encoder seed 7"].get_ydata(), [5.0, 4.0, 3.0])
    np.testing.assert_allclose(right.lines[1].get_ydata(), [63.0, 63.0])
