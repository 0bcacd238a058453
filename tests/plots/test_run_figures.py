"""Figures of training runs and of studies, and how figures are saved and embedded."""

import math

import numpy as np
import pandas as pd
import pytest

from weince_lib import plots
from weince_lib.losses import PRESETS
from weince_lib.plots import evidence_along_training, simcse_sts
from weince_lib.plots.style import DATA_COLOUR, REFERENCE_COLOUR
from weince_lib.runs.config import loss_label

REPORTED = {"infonce": (71.74, 4.23), "weince": (76.36, 3.17)}
NAMES = {"infonce": "InfoNCE\nτ = 0.05", "infonce-tuned": "InfoNCE\nτ on dev", "weince": "WEINCE"}


def history(*names):
    return [{name: 10 * i + k for k, name in enumerate(names)} for i in range(5)]


def test_every_loss_has_one_colour_and_one_name():
    assert plots.LOSS_COLOURS.keys() == plots.LOSS_NAMES.keys()
    assert len(set(plots.LOSS_COLOURS.values())) == len(plots.LOSS_COLOURS)
    assert len(set(plots.LOSS_NAMES.values())) == len(plots.LOSS_NAMES)
    labels = {loss_label("infonce", None)} | {loss_label("weince", p) for p in PRESETS.values()}
    assert labels | {"weince-custom", "weibit", "released", "ablation"} == plots.LOSS_COLOURS.keys()
    assert not {DATA_COLOUR, REFERENCE_COLOUR} & set(plots.LOSS_COLOURS.values())


def test_saved_files_depend_on_the_figure_alone(tmp_path, monkeypatch):
    """Neither date nor program stands in them: a figure that is made again does not change."""
    monkeypatch.setenv("WEINCE_FIGURES", str(tmp_path))
    written = []
    for clock, loss in (("0", "weince"), ("1000000000", "weince"), ("0", "infonce")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", clock)  # the date that matplotlib would write
        plots.save_figure(plots.training_history(history("loss", "lam", "beta"), loss), "figure")
        written.append([(tmp_path / f"figure{kind}").read_bytes() for kind in (".png", ".pdf")])
    assert written[0] == written[1]
    assert all(one != other for one, other in zip(written[0], written[2], strict=True))


def made_up(shift=0.0):
    draw = np.random.default_rng(3)
    own = draw.normal(70, 0.3, 5)
    gains = {"infonce": 0, "infonce-tuned": 1.2, "weince": -0.4}
    return {
        m: {seed: float(own[i] + g + shift) for i, seed in enumerate((7, 21, 63, 84, 105))}
        for m, g in gains.items()
    }


def test_simcse_sts_shows_levels_differences_and_the_papers_numbers():
    best = made_up()
    last = {m: made_up(-0.5)[m] for m in ("infonce", "weince")}
    figure = simcse_sts(best, last, REPORTED, 76.85, 4.63, names=NAMES)
    levels, paper, gains, _ = figure.axes
    seeds = [line for line in levels.lines if len(line.get_xdata()) == 3]
    assert len(seeds) == 5
    assert sorted(seeds[0].get_ydata()) == pytest.approx(sorted(best[m][7] for m in best))
    # Best differs by a constant within seeds, so every dot lies on the mean; so does the last.
    dots = [np.mean(line.get_ydata()) for line in gains.lines if len(line.get_ydata()) == 5]
    assert dots == pytest.approx([1.2, -0.4, -0.4])
    assert any(np.allclose(line.get_ydata(), 76.85) for line in paper.lines)
    assert any(np.allclose(line.get_ydata(), 4.63) for line in gains.lines)


def test_simcse_sts_needs_the_baseline_and_takes_a_single_seed():
    with pytest.raises(KeyError, match="infonce"):
        simcse_sts({"weince": {7: 70.0}}, {}, REPORTED, 76.85, 4.63, names={"weince": "WEINCE"})
    simcse_sts({"infonce": {7: 70.0}, "weince": {7: 71.0}}, {}, REPORTED, 76.85, 4.63, names=NAMES)


def test_figures_without_a_study_say_so():
    figure = simcse_sts({}, {}, REPORTED, 76.85, 4.63, names=NAMES)
    assert [t.get_text() for t in figure.axes[0].texts] == ["not run yet"]
    figure = evidence_along_training(pd.DataFrame(columns=["loss", "seed", "stage"]), {})
    assert [t.get_text() for t in figure.axes[1].texts] == ["not run yet"]


def test_evidence_along_training_draws_seeds_and_their_mean():
    rows = pd.DataFrame(
        [
            {"loss": loss, "seed": seed, "stage": stage, "gpd_shape_q99": -stage - seed / 100,
             "rho_median": 0.5 - stage / 4, "lambda_hat": stage / 2}
            for loss in ("infonce", "weince") for seed in (7, 21) for stage in (0.0, 0.5, 1.0)
        ]
    )  # fmt: skip
    figure = evidence_along_training(rows, {"gpd_shape_q99": -0.05, "lambda_hat": 0.1})
    shape, rho, lam = figure.axes
    means = [line.get_ydata() for line in shape.lines if line.get_marker() == "o"]
    assert [list(m) for m in means] == [pytest.approx([-0.14, -0.64, -1.14])] * 2
    assert any(np.allclose(line.get_ydata(), -0.05) for line in shape.lines)
    assert any(np.allclose(line.get_ydata(), 0.1) for line in lam.lines)
    assert len(rho.lines) == 6  # two losses with two seeds and a mean, no public encoder


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
    marks = [x for x in panels[0].lines if x.get_marker() not in ("None", None, "")]
    assert [x.get_xdata()[0] for x in marks] == [1.0, 0.1, -2.0]
    # Hollow: the interval holds 0. Data sets differ by colour and, for the colour-blind, by mark.
    assert [x.get_markerfacecolor() == "white" for x in marks] == [False, True, False]
    assert marks[0].get_color() != marks[1].get_color()
    assert marks[0].get_marker() != marks[1].get_marker()
    # Without an interval there is a hollow point alone.
    (alone,) = [x for x in panels[1].lines if x.get_marker() not in ("None", None, "")]
    assert alone.get_markerfacecolor() == "white"


def test_nothing_to_draw_and_too_many_data_sets_are_named():
    with pytest.raises(ValueError, match="no contrast"):
        plots.contrast_forest(rows().iloc[-1:], {"near": "nearest"}, 0.97)
    many = pd.concat([rows().assign(data=name) for name in "ABCDE"])
    with pytest.raises(ValueError, match=r"4 data sets.*got 5"):
        plots.contrast_forest(many, {"probe": "probe"}, 0.97)
