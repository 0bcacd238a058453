"""What stands behind notebook 13: runs that are done, and sharpness beside accuracy."""

import math

import numpy as np
import pandas as pd
import pytest

from weince_lib import plots
from weince_lib.publish import beyond
from weince_lib.studies.decide import PRIMARY_MEASURES
from weince_lib.studies.grid_beyond import (
    CONDITIONS,
    GATE,
    GATE_FASHION,
    GATES,
    STATIC,
    decision,
    elsewhere,
)

NAME = "cpu-gain-fashion"
#: Entropy of the push, then probe and R@1, of two seeds each; WEINCE lacks R@1.
VALUES = {
    "tau=0.5": (math.log(400), (50.0, 52.0), (40.0, 42.0)),
    "tau=0.1": (math.log(60), (53.0, 55.0), (45.0, 45.0)),
    "tau=0.05": (math.log(30), (52.0, 53.0), (46.0, 48.0)),
    "paper": (math.log(90), (51.0, 51.0), ()),
}


def a_frame():
    rows = []
    for setting, (entropy, probe, nearest) in VALUES.items():
        loss, tau = ("weince", 0.5) if setting == "paper" else ("infonce", float(setting[4:]))
        for metric, split, values in (
            ("negative_entropy", "train", (entropy, entropy)),
            ("standardised_linear_accuracy", "test", probe),
            ("recall_at_1", "test", nearest),
            ("recall_at_1", "validation", nearest),
        ):
            for seed, value in zip((7, 21), values, strict=False):
                rows.append((setting, "vision", loss, tau, seed, metric, split, value))
    columns = ["setting", "experiment", "loss", "temperature", "seed", "metric", "split", "value"]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture
def two_seeds(monkeypatch):
    monkeypatch.setattr(beyond, "study_frame", lambda chosen: a_frame())


def test_points_are_means_above_infonce_at_one_half(two_seeds):
    points = beyond.sharpness_points([NAME]).set_index("setting")
    assert set(points.index) == {"tau=0.5", "tau=0.1", "tau=0.05"}  # WEINCE lacks a measure
    assert points["negatives"].to_dict() == pytest.approx(
        {"tau=0.5": 400, "tau=0.1": 60, "tau=0.05": 30}
    )
    assert points.loc["tau=0.1", "converged probe"] == pytest.approx(3.0)
    assert points.loc["tau=0.05", "R@1"] == pytest.approx(6.0)
    assert set(points["seeds"]) == {2} and set(points["data"]) == {"Fashion-MNIST"}


def test_correlation_is_one_where_sharper_is_always_better(two_seeds):
    order = beyond.rank_correlations(beyond.sharpness_points([NAME]))
    assert order.loc["Fashion-MNIST", "R@1"] == pytest.approx(1.0)
    # 51, 54, 52.5 from many negatives to few: one of three pairs is the other way round.
    assert order.loc["Fashion-MNIST", "converged probe"] == pytest.approx(0.5)
    assert order.loc["Fashion-MNIST", "settings"] == 3


@pytest.fixture
def six_settings():
    """Points of two data sets: more alignment is better on both, uniformity on one alone."""
    rows = []
    for data, best in (("CIFAR", 60.0), ("Fashion", 80.0)):
        for i in range(6):
            row = dict.fromkeys(beyond.QUANTITIES, float((3, 0, 5, 1, 4, 2)[i]))
            row["alignment"] = float(i)
            row["uniformity"] = float(i if data == "CIFAR" else -i)
            accuracy = {"converged probe": best - i, "R@1": best - i - 30}
            rows.append({"data": data, "setting": f"{data} {i}"} | row | accuracy)
    return pd.DataFrame(rows)


def test_a_quantity_that_orders_all_is_told_from_one_that_orders_one_data_set(six_settings):
    found = beyond.explanations(six_settings)
    alignment = found.loc[beyond.QUANTITIES["alignment"]]
    assert alignment.to_list() == pytest.approx([-1.0] * 6)
    assert found.index[0] == beyond.QUANTITIES["alignment"]
    uniformity = found.loc[beyond.QUANTITIES["uniformity"], "R@1"]
    assert uniformity.to_list()[:2] == pytest.approx([-1.0, 1.0])
    assert abs(uniformity["across data sets"]) < 0.5
    figure = plots.explanations(found)
    assert [axes.get_title() for axes in figure.axes] == ["converged probe", "R@1"]


def test_without_the_quantities_nothing_is_explained(six_settings):
    assert beyond.explanations(six_settings.assign(alignment=math.nan)).empty
    assert beyond.explanations(six_settings.iloc[:0]).empty
    assert beyond.explanations(beyond.sharpness_points([])).empty
    with pytest.raises(ValueError, match="no study has runs"):
        plots.explanations(pd.DataFrame())


def test_the_figure_draws_every_point(two_seeds):
    points = beyond.sharpness_points([NAME])
    figure = plots.sharpness_ranking(points, ["converged probe", "R@1"], {"InfoNCE": ["infonce"]})
    for axes, measure in zip(figure.axes, ("converged probe", "R@1"), strict=True):
        drawn = {tuple(p) for line in axes.lines for p in zip(*line.get_data(), strict=True)}
        assert set(zip(points["negatives"], points[measure], strict=True)) <= drawn
    with pytest.raises(ValueError, match="no study has runs"):
        plots.sharpness_ranking(points.iloc[:0], ["R@1"], {})


def test_runs_that_are_done_are_counted_and_a_gate_waits_for_the_last(monkeypatch):
    run, *others = GATE.runs()
    rows = pd.DataFrame(
        {
            "setting": [run.setting, run.setting, "of another study"],
            "seed": [float(run.seed), float(run.seed), 1.0],
            "experiment": ["vision", "vision", "vision"],
        }
    )
    monkeypatch.setattr(
        beyond, "study_frame", lambda chosen: rows if chosen is GATE else rows.iloc[:0]
    )
    counts = beyond.progress()
    assert counts.loc[GATE.name].to_list() == [len(others) + 1, 1]
    assert counts.loc[GATE_FASHION.name, "done"] == 0
    assert beyond.finished_gates() == []
    assert beyond.verdicts().empty


def rows_of(chosen, above, measures, split=("validation", "test")):
    """A whole study: 50 percent and a little noise everywhere, ``above`` by method."""
    draw = np.random.default_rng(3)
    points = {
        setting.label: above.get(name, 0.0)
        for name, settings in chosen.methods.items()
        if len(settings) == 1
        for setting in settings
    }
    rows = [
        (label, chosen.experiment, seed, metric, part, 50.0 + value + draw.normal(0, 0.05))
        for label, value in points.items()
        for seed in chosen.seeds
        for metric in measures
        for part in split
    ]
    columns = ["setting", "experiment", "seed", "metric", "split", "value"]
    return pd.DataFrame(rows, columns=columns).assign(replicate=0)


def test_a_decision_is_printed_with_its_data_once_there_are_finalists(monkeypatch):
    one = {"infonce": 0.1, "decoupled": 0.1, "passing": ["bet-tail"]}
    chosen = decision(GATE, dict.fromkeys(GATES, one))
    frame = rows_of(chosen, {"bet-tail": 2.0}, PRIMARY_MEASURES)
    monkeypatch.setattr(beyond, "DECISIONS", (chosen,))
    monkeypatch.setattr(beyond, "study_frame", lambda _: frame)
    found = beyond.verdicts().query("family == 'infonce-tuned'")
    assert list(found["word"]) == ["better"] * 2
    assert set(found["data"]) == {"CIFAR-10 (JPEG)"}


def test_elsewhere_is_judged_over_all_conditions(monkeypatch):
    one = {"infonce": 0.1, "decoupled": 0.1, "passing": ["bet-tail"]}
    studies = [elsewhere(condition, dict.fromkeys(GATES, one)) for condition in CONDITIONS]
    monkeypatch.setattr(beyond, "ELSEWHERE", studies)
    monkeypatch.setattr(
        beyond, "study_frame", lambda s: rows_of(s, {"bet-tail": -2.0}, PRIMARY_MEASURES)
    )
    found = beyond.verdicts_elsewhere()
    assert set(found["word"]) == {"worse"} and len(found) == 4


def test_pairs_and_sentences_are_shown_when_whole(monkeypatch):
    measures = ("sts_spearman",)
    monkeypatch.setattr(beyond, "study_frame", lambda s: rows_of(s, {"bet-kl": 1.0}, measures))
    monkeypatch.setattr(beyond, "SHOWN", ((STATIC, measures),))
    found = beyond.shown()
    assert set(found["data"]) == {"sentences (STS-B)"}
    words = found.set_index("a")["word"]
    assert words["bet-kl"] == "better" and words["bet-tail"] != "better"
    monkeypatch.setattr(beyond, "finished", lambda *names: [])
    assert beyond.shown().empty
