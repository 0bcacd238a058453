"""The figure to move, without a browser: what it refuses and what a front end is given."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from weince_lib import plots


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"temperature": 0.0}, "temperature must be a number in [0.005, 1], got 0.0"),
        ({"temperature": float("nan")}, "temperature must be a number in [0.005, 1], got nan"),
        ({"weight": 1.01}, "weight must be a number in [0, 1], got 1.01"),
        ({"dimension": 7.5}, "dimension must be a whole number in [3, 1024], got 7.5"),
        ({"dimension": True}, "dimension must be a whole number in [3, 1024], got True"),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(given, line) -> None:
    with pytest.raises(ValueError) as refused:
        plots.explorer(**given)
    assert str(refused.value) == line


def test_ends_of_the_ranges_are_accepted() -> None:
    for end in ((0.005, 0.1, 0, 3), (1, 10, 1, 1024)):
        assert f'"weight": {float(end[2])}' in plots.explorer(*end).page()


class Frame(HTMLParser):
    """Attributes of the frame, and the text inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, str | None] = {}
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        assert tag == "iframe"
        self.given = dict(attrs)

    def handle_data(self, data) -> None:
        self.text += data


def test_a_notebook_gets_the_page_in_a_frame_the_same_each_time_and_small() -> None:
    figure = plots.explorer()
    shown = figure._repr_html_()
    assert shown == plots.explorer()._repr_html_()
    assert len(shown.encode()) < 40_000
    frame = Frame()
    frame.feed(shown)
    assert frame.given["srcdoc"] == figure.page()
    assert "src" not in frame.given
    assert "Run this cell" in frame.text
