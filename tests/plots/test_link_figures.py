"""Figures about the loss, the link and the gate: they show the numbers that they are given."""

import numpy as np
import pytest
import torch

from weince_lib import plots
from weince_lib.diagnostics import GateShare
from weince_lib.losses import tail_evidence
from weince_lib.losses.candidates import two_view_scores

ANCHOR = 3
LAWS = (("none", False), ("ends", True), ("ends too", True))
SHARES = [
    GateShare(law, endpoint, gate, n, k, 100, share, 0.0, share, 1.0)
    for i, (law, endpoint) in enumerate(LAWS)
    for n in (62, 510)
    for k in ((16, 32) if n == 62 else (16, 32, 64))
    for gate, share in (("lines", 1.0), ("likelihood", 0.1 * i + k / 640 + n / 5100))
]


def batch():
    """Cosines of 64 random pairs, the positives, and the paper's evidence; float64."""
    generator = torch.Generator().manual_seed(2)
    z0, noise = torch.randn(2, 64, 6, generator=generator, dtype=torch.float64)
    scores, positives = two_view_scores(z0, z0 + noise)
    return scores, positives, tail_evidence(scores, positives)


def tail_of(anchor):
    """The anchor's 32 smallest negative shortfalls, ascending."""
    scores, positives, _ = batch()
    kept = [j for j in range(128) if j not in (anchor, int(positives[anchor]))]
    return (1 - scores[anchor, kept]).sort().values[:32]


def test_coordinates_are_the_blend_and_its_slope():
    left, right = plots.coordinates().axes
    s = left.lines[0].get_xdata()
    for lam, logit, slope in zip((0, 0.25, 0.5, 0.75, 1), left.lines, right.lines, strict=False):
        expected = (1 - lam) * s / 0.5 - lam * 2 * np.log(1 - s)
        np.testing.assert_allclose(logit.get_ydata(), expected, rtol=1e-10)
        np.testing.assert_allclose(slope.get_xdata(), 1 - s, rtol=1e-12)
        # The slope is the logit's derivative; differences are exact enough away from the cap.
        middle = s[1:-1] < 0.9
        numeric = ((expected[2:] - expected[:-2]) / (s[2:] - s[:-2]))[middle]
        np.testing.assert_allclose(slope.get_ydata()[1:-1][middle], numeric, rtol=1e-3)


def test_line_fits_are_the_lines_behind_the_evidence():
    """Least squares by its closed form on the drawn points gives the slope and beta."""
    evidence = batch()[2]
    for axes in plots.line_fits(tail_of(ANCHOR), evidence, ANCHOR).axes:
        _, kept, line = axes.lines
        x, y = kept.get_data()
        slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
        drawn = np.diff(line.get_ydata()) / np.diff(line.get_xdata())
        np.testing.assert_allclose(drawn, slope, rtol=1e-6)
        if axes.get_ylabel() == "log F̂":
            assert slope == pytest.approx(float(evidence.beta[ANCHOR]), rel=1e-9)
    np.testing.assert_allclose(kept.get_ydata(), np.log(-np.log(np.arange(2, 33) / 33)))


def points(blends):
    return [
        {"pool": 16, "kept": 4 * 2**i, "blend": b, "gain": 0.1 * i, "shortfall": 0.5, "anchors": 1}
        for i, b in enumerate(blends)
    ]


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


def test_likelihood_ratios_are_drawn_as_their_survival_function():
    figure = plots.likelihood_ratio_null(np.array([0.0, 0.0, 1.0, 3.0]))
    step = figure.axes[0].lines[0]
    np.testing.assert_allclose(step.get_ydata(), [1, 0.75, 0.5, 0.25])


def maps(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_title()]


def test_maps_hold_the_shares():
    panels = maps(plots.gate_calibration(SHARES))
    # Laws with an endpoint come first.
    assert [t.get_text() for t in panels[2].get_yticklabels()] == ["ends", "ends too", "none"]
    value = {(c.gate, c.negatives, c.law, c.tail): c.share for c in SHARES}
    expected = [
        [value["likelihood", 510, law, k] for k in (16, 32, 64)]
        for law in ("ends", "ends too", "none")
    ]
    np.testing.assert_allclose(panels[3].images[0].get_array(), expected)
