"""The figure of contrasts: every interval in its panel and group, filled where it leaves 0 out."""

import math

import pandas as pd
import pytest

from weince_lib import plots


def rows():
    table = [
        ("first", "A", "probe", 1.0, 0.5, 1.5),
        ("first", "B", "probe", 0.1, -0.4, 0.6),
        ("second", "A", "probe", -2.0, -3.0, -1.0),
        ("second", "A", "near", 0.3, math.nan, math.nan),
        ("third", "A", "near", math.nan, math.nan, math.nan),
    ]
    return pd.DataFrame(table, columns=["contrast", "data", "metric", "difference", "low", "high"])


def test_a_panel_a_measure_and_a_group_a_contrast():
    measures = {"probe": "the probe", "near": "nearest", "other": "not there"}
    figure = plots.contrast_forest(rows(), measures, 0.97)
    panels = figure.axes
    assert [axes.get_title() for axes in panels] == ["the probe", "nearest"]
    assert [t.get_text() for t in panels[0].get_yticklabels()] == ["first", "second"]
    assert panels[0].get_ylim()[0] > panels[0].get_ylim()[1]  # the first on top
    marks = [x for x in panels[0].lines if x.get_marker() not in ("None", None, "")]
    assert [x.get_markerfacecolor() == "white" for x in marks] == [False, True, False]
    # Two data sets of a contrast lie apart, on both sides of its name.
    assert marks[0].get_ydata()[0] < 0 < marks[1].get_ydata()[0] < 0.5
    assert marks[0].get_color() != marks[1].get_color()
    assert marks[0].get_marker() != marks[1].get_marker()
    # Without an interval there is a hollow point alone.
    (alone,) = [x for x in panels[1].lines if x.get_marker() not in ("None", None, "")]
    assert alone.get_markerfacecolor() == "white"
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend == ["A", "B", "within ±0.97"]


def test_nothing_to_draw_and_too_many_data_sets_are_named():
    with pytest.raises(ValueError, match="no contrast has a difference"):
        plots.contrast_forest(rows().iloc[-1:], {"near": "nearest"}, 0.97)
    many = pd.concat([rows().assign(data=name) for name in "ABCDE"])
    with pytest.raises(ValueError, match="at most 4 data sets fit into a figure, got 5"):
        plots.contrast_forest(many, {"probe": "probe"}, 0.97)
