"""Figures about sentences, from made-up numbers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from weince_lib.plots import dev_curves, evidence_along_training, simcse_sts
from weince_lib.plots.style import LOSS_COLOURS

REPORTED = {"infonce": (71.74, 4.23), "weince": (76.36, 3.17)}
NAMES = {"infonce": "InfoNCE\nτ = 0.05", "infonce-tuned": "InfoNCE\nτ on dev", "weince": "WEINCE"}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


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
    assert [t.get_text() for t in levels.get_xticklabels()] == list(NAMES.values())
    assert [t.get_text() for t in gains.get_xticklabels()] == list(NAMES.values())[1:]
    # Best differs by a constant within seeds, so every dot lies on the mean; so does the last.
    dots = [line.get_ydata() for line in gains.lines if len(line.get_ydata()) == 5]
    assert [d.mean() if hasattr(d, "mean") else np.mean(d) for d in dots] == pytest.approx(
        [1.2, -0.4, -0.4]
    )
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


def test_dev_curves_mark_the_best_checkpoint():
    rows = [{"step": s, "dev": d} for s, d in ((10, 50.0), (20, 60.0), (30, 55.0))]
    figure = dev_curves({("infonce", 7): rows, ("weince", 7): rows[:2]})
    (axes,) = figure.axes
    marks = [tuple(line.get_xydata()[0]) for line in axes.lines if len(line.get_xdata()) == 1]
    assert marks == [(20.0, 60.0), (20.0, 60.0)]
    assert axes.lines[0].get_color() == LOSS_COLOURS["infonce"]


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
