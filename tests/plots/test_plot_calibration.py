"""Figures of the calibration study and of the evidence in training."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from weince_lib import plots
from weince_lib.diagnostics import GateShare

LAWS = (("none", False), ("ends", True), ("ends too", True))
SHARES = [
    GateShare(law, endpoint, gate, n, k, 100, share, 0.0, share, 1.0)
    for i, (law, endpoint) in enumerate(LAWS)
    for n in (62, 510)
    for k in ((16, 32) if n == 62 else (16, 32, 64))
    for gate, share in (("lines", 1.0), ("likelihood", 0.1 * i + k / 640 + n / 5100))
]


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    yield
    plt.close("all")


def maps(figure: plt.Figure) -> list[plt.Axes]:
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_maps_hold_the_shares() -> None:
    panels = maps(plots.gate_calibration(SHARES))
    assert [axes.get_title() for axes in panels] == ["62 negatives", "510 negatives"] * 2
    assert [panels[i].get_ylabel() for i in (0, 2)] == ["gate: lines", "gate: likelihood"]
    # Laws with an endpoint come first.
    assert [t.get_text() for t in panels[2].get_yticklabels()] == ["ends", "ends too", "none"]
    assert [t.get_text() for t in panels[3].get_xticklabels()] == ["16", "32", "64"]
    value = {(c.gate, c.negatives, c.law, c.tail): c.share for c in SHARES}
    expected = [
        [value["likelihood", 510, law, k] for k in (16, 32, 64)]
        for law in ("ends", "ends too", "none")
    ]
    np.testing.assert_allclose(panels[3].images[0].get_array(), expected)
    written = [t.get_text() for t in panels[3].texts[:9]]
    assert written == [f"{100 * v:.0f}" for row in expected for v in row]


def test_chosen_columns_and_frame() -> None:
    panels = maps(plots.gate_calibration(SHARES, negatives=[510], tail=64))
    assert [axes.get_title() for axes in panels] == ["510 negatives"] * 2
    (frame,) = panels[0].patches
    assert (frame.get_x(), frame.get_width()) == (1.5, 1)
    assert not maps(plots.gate_calibration(SHARES, tail=48))[0].patches


def test_rare_openings_are_not_called_none() -> None:
    rare = [
        GateShare("law", True, "gate", 62, k, 1000, s, 0, s, 0) for k, s in ((16, 0.002), (32, 0))
    ]
    (axes,) = maps(plots.gate_calibration(rare))
    assert [t.get_text() for t in axes.texts[:2]] == ["<1", "0"]


def test_negatives_that_are_not_there() -> None:
    with pytest.raises(ValueError, match=r"no cells with \[64\] negatives"):
        plots.gate_calibration(SHARES, negatives=[62, 64])
