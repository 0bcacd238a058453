"""The figures of notebooks 09 and 10 show the numbers they are given."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from weince_lib import plots
from weince_lib.evaluation import Interval


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def points(blends):
    return [
        {"pool": 16, "kept": 4 * 2**i, "blend": b, "gain": 0.1 * i, "shortfall": 0.5, "anchors": 1}
        for i, b in enumerate(blends)
    ]


def test_link_selection_has_an_encoder_a_column_and_the_papers_band():
    figure = plots.link_selection(
        {"7": Interval(0.2, 0.1, 0.3, 1), "21": Interval(0.4, 0.3, 0.5, 1)},
        {"7": [0.1, 0.2], "21": [0.3, 0.5]},
        (0.33, 0.5),
        (0.22, 0.36),
    )
    left, right = figure.axes
    assert [t.get_text() for t in left.get_xticklabels()] == ["7", "21"]
    means = [line.get_ydata()[0] for line in right.lines if len(line.get_ydata()) == 1]
    np.testing.assert_allclose(means, [0.15, 0.4])
    band = left.patches[0].get_extents().transformed(left.transData.inverted())
    assert (band.y0, band.y1) == pytest.approx((0.33, 0.5))


def test_link_gains_are_listed_from_the_top():
    gains = {"a": Interval(0.1, 0.0, 0.2, 4), "b": Interval(-0.1, -0.2, 0.0, 4)}
    figure = plots.link_gains(gains, {"a": "first", "b": "second"}, ["a"])
    (axes,) = figure.axes
    assert [t.get_text() for t in axes.get_yticklabels()] == ["second", "first"]
    assert axes.containers[0].lines[0].get_xdata()[0] == -0.1


def test_hardness_averages_encoders_and_leaves_out_what_is_not_known():
    encoder = {
        name: {"hardness": points([None, 0.4, 0.2]), "pool": points([0.1, 0.5, 0.9])}
        for name in ("winner_kept", "simulated", "by_rank")
    }
    other = {
        name: {"hardness": points([0.9, 0.6, 0.4]), "pool": points([0.1, 0.5, 0.9])}
        for name in encoder
    }
    figure = plots.hardness([encoder, other])
    line = figure.axes[0].lines[0]
    assert line.get_xdata().tolist() == [8, 16]
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.3])
    labels = [t.get_text() for t in figure.legends[0].get_texts()]
    assert len(labels) == 3


def test_ratios_and_epochs():
    figure = plots.likelihood_ratio_null(np.array([0.0, 0.0, 1.0, 3.0]), observed=12.0)
    assert "12" in figure.axes[0].get_title()
    step = figure.axes[0].lines[0]
    np.testing.assert_allclose(step.get_ydata(), [1, 0.75, 0.5, 0.25])
    rows = [
        {"epoch": e, "blend": b, "gain": {"mean": g}}
        for e, b, g in ((0, None, 0.0), (1, 0.3, 0.1), (5, 0.2, 0.2))
    ]
    figure = plots.gain_over_epochs([rows, rows], [7, 21])
    left, right = figure.axes
    assert [t.get_text() for t in left.get_xticklabels()] == ["0", "1", "5"]
    assert list(right.lines[0].get_ydata()) == [0.0, 0.1, 0.2]


def test_allocation_draws_what_is_there():
    edges = np.linspace(-1, 1, 5)
    risk, flat = np.array([0, 0, 0, 1.0]), np.full(4, 0.25)
    figure = plots.allocation(edges, {8: {"risk": risk, "infonce": flat}}, least=-1)
    (axes,) = figure.axes
    assert axes.lines[0].get_ydata().tolist() == flat.tolist()
    assert [bar.get_height() for bar in axes.patches] == risk.tolist()
    curves = {"7": ([0.1, 0.5], [0.2, 0.6])}
    figure = plots.allocation_curves(curves, curves, trained=0.5, fitted=0.14)
    assert list(figure.axes[0].lines[0].get_ydata()) == [0.2, 0.6]
