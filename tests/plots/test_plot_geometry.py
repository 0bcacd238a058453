"""Figures of notebooks 01 and 03: what is drawn is what was given."""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from weince_lib import plots


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def line(axes, label):
    (found,) = [x for x in axes.get_lines() if x.get_label() == label]
    return found


def test_framework_shows_a_shift_in_every_coordinate():
    figure = plots.framework(0.5, 0.8)
    panels = np.array(figure.axes).reshape(3, 3)
    shifts = (0.3, np.log(0.8 / 0.5), np.log(0.5 / 0.2))
    for row, colour, shift in zip(panels, plots.DOMAIN_COLOURS.values(), shifts, strict=True):
        assert {to_hex(x.get_color()) for x in row[2].get_lines()} >= {colour.lower()}
        low, high = (x.get_data() for x in row[1].get_lines())
        peaks = [t[y.argmax()] for t, y in (low, high)]
        assert peaks[1] - peaks[0] == pytest.approx(shift, abs=0.03)
        assert low[1].max() == pytest.approx(high[1].max(), rel=1e-3)
        assert any(f"{shift:.2f}" in text.get_text() for text in row[1].texts)
    odds = [row[2].get_lines()[0].get_data() for row in panels]
    for s, y in odds:
        assert np.interp(0.5, s, y) == pytest.approx(0.0, abs=0.02)
    s, y = odds[2]
    assert y[-1] == pytest.approx(-2 * np.log((1 - s[-1]) / 0.5))


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


def test_score_recovery_draws_each_kind_with_its_theory():
    sizes = np.array([100, 400])
    errors = {"winners": (np.array([0.3, 0.15]), np.array([0.01, 0.01]))}
    (axes,) = plots.score_recovery(sizes, errors, {"winners": np.array([0.29, 0.145])}).axes
    np.testing.assert_allclose(line(axes, "winners: information").get_ydata(), [0.29, 0.145])
    np.testing.assert_allclose(axes.containers[0].lines[0].get_ydata(), [0.3, 0.15])
