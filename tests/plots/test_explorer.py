"""The figure to move, without a browser: what it refuses and what a front end is given."""

from __future__ import annotations

import html

import pytest

from weince_lib import plots


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"weight": 1.01},
        {"dimension": 7.5},
        {"dimension": True},
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(given) -> None:
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=rf"{name}.*{value}"):
        plots.explorer(**given)


def test_ends_of_the_ranges_are_accepted() -> None:
    for end in ((0.005, 0.1, 0, 3), (1, 10, 1, 1024)):
        assert f'"weight": {float(end[2])}' in plots.explorer(*end).page()


def test_a_notebook_gets_the_page_in_a_frame_the_same_each_time() -> None:
    figure = plots.explorer()
    shown = figure._repr_html_()
    assert shown == plots.explorer()._repr_html_()
    assert figure.page() in html.unescape(shown)
