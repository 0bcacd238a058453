"""Figures of the gain: points where the table has them, hollow where nothing is sure."""

import math

import pandas as pd

from weince_lib import plots
from weince_lib.experiments import gain


def points():
    rows = [
        ("infonce-0.5", "InfoNCE", 80.0, 79.0, 81.0, 200.0),
        ("infonce-0.1", "InfoNCE", 82.0, math.nan, math.nan, 20.0),
        ("weibit-2", "Weibit", 81.0, 80.5, 81.5, 60.0),
    ]
    names = ["method", "family", "accuracy", "accuracy_low", "accuracy_high"]
    return pd.DataFrame(rows, columns=[*names, "effective_negatives"])


def test_accuracy_against_sharpness_draws_every_family_it_has():
    axes = plots.accuracy_against_sharpness(points()).axes[0]
    assert axes.get_legend_handles_labels()[1] == ["InfoNCE", "Weibit"]
    line = axes.containers[0].lines[0]
    assert line.get_xdata().tolist() == [20.0, 200.0]
    assert line.get_ydata().tolist() == [82.0, 80.0]
    assert line.get_color() == plots.LOSS_COLOURS["infonce"]
    assert sorted(t.get_text() for t in axes.texts) == ["τ = 0.1", "τ = 0.5"]


def test_forest_fills_what_is_sure():
    rows = pd.DataFrame(
        {
            "method": ["a", "b", "c"],
            "difference": [1.0, 0.1, 0.5],
            "low": [0.5, -0.4, math.nan],
            "high": [1.5, 0.6, math.nan],
            "p_holm": [0.01, 0.8, math.nan],
        }
    )
    axes = plots.forest(rows).axes[0]
    markers = [x for x in axes.lines if x.get_marker() == "o"]
    assert [m.get_markerfacecolor() == "white" for m in markers] == [False, True, True]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b", "c"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_every_family_has_a_colour():
    assert plots.FAMILY_COLOURS.keys() == gain.FAMILIES.keys()
