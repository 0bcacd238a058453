"""Figures of Appendix C.1: the data are drawn where they are, each link in its loss's colour."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.stats import norm

from weince_lib import plots
from weince_lib.plots import Simulated

SOFTMAX, ENDPOINT = plots.LOSS_COLOURS["infonce"], plots.LOSS_COLOURS["weibit"]
N = np.array([100, 1000, 10000])


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def series(start: float, curve: bool = True) -> Simulated:
    value = start / N**0.5
    return Simulated(N, value, value / 50, (N, 1.01 * value) if curve else None)


def test_pseudo_true_link_shows_both_laws_and_the_fitted_temperature() -> None:
    tau = np.geomspace(0.2, 1.0, 30)
    laws = {"truth": np.array([0.3, 0.7]), "softmax": np.array([0.4, 0.6])}
    figure = plots.pseudo_true_link(np.array([0.1, 0.9]), laws, tau, 0.1 + tau, tau**2, 0.39)
    bars, left, right = figure.axes
    assert [bar.get_height() for bar in bars.patches] == [0.3, 0.7, 0.4, 0.6]
    assert [to_hex(bars.patches[i].get_facecolor()).upper() for i in (0, 2)] == [ENDPOINT, SOFTMAX]
    for axes, values in ((left, 0.1 + tau), (right, tau**2)):
        np.testing.assert_allclose(axes.lines[0].get_ydata(), values)
        assert axes.lines[1].get_xdata()[0] == 0.39
        assert "τ" in axes.get_xlabel()


def test_noise_floor_draws_means_bars_theory_and_floor() -> None:
    curves = {"softmax": series(3.0), "endpoint link": series(1.0, curve=False)}
    (axes,) = plots.noise_floor(curves, 0.05, "error", crossing=400.0).axes
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == ("log", "log", "error")
    for (name, data), container, colour in zip(
        curves.items(), axes.containers, (SOFTMAX, ENDPOINT), strict=True
    ):
        assert container.get_label() == name
        dots, _, (bars,) = container.lines
        np.testing.assert_allclose(dots.get_ydata(), data.value)
        assert to_hex(dots.get_color()).upper() == colour
        ends = np.array(bars.get_segments())[:, :, 1]
        np.testing.assert_allclose(np.diff(ends)[:, 0], 2 * 1.96 * data.error)
    drawn = [line.get_ydata() for line in axes.lines]
    assert any(np.array_equal(y, 1.01 * curves["softmax"].value) for y in drawn)
    assert any(np.array_equal(y, [0.05, 0.05]) for y in drawn)
    assert {text.get_text() for text in axes.texts} == {"floor 0.0500", "400 winners"}
    # Three sizes are named; a log axis alone would name powers of ten.
    assert [t.get_text() for t in axes.get_xticklabels()] == ["100", "1,000", "10,000"]


def test_sampling_law_compares_with_both_normals() -> None:
    values = norm.ppf((np.arange(2000) + 0.5) / 2000)
    figure = plots.sampling_law({100: values, 9000: values}, 0.8, (N, 1 / N**0.5))
    first, second, third = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["n = 100", "n = 9,000"]
    grid = first.lines[0].get_xdata()
    np.testing.assert_allclose(first.lines[0].get_ydata(), norm.pdf(grid))
    np.testing.assert_allclose(first.lines[1].get_ydata(), norm.pdf(grid, scale=0.8))
    np.testing.assert_allclose(third.lines[0].get_ydata(), third.lines[1].get_ydata())


def test_interval_coverage_keeps_every_bar_in_view() -> None:
    low = Simulated(N, np.array([0.7, 0.8, 0.85]), np.full(3, 0.01))
    high = Simulated(N, np.array([0.94, 0.95, 0.99]), np.full(3, 0.004))
    curves = {"sandwich": high, "naive": low}
    left, right = plots.interval_coverage(curves, curves, [("sandwich", 0.95)]).axes
    bottom, top = left.get_ylim()
    assert bottom < 0.7 - 1.96 * 0.01
    assert top > 0.99 + 1.96 * 0.004
    assert [c.get_label() for c in right.containers] == ["sandwich", "naive"]
    colours = {to_hex(c.lines[0].get_color()) for c in left.containers}
    assert len(colours) == 2
