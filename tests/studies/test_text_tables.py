"""Tables of a study of sentences, from a made-up table in the committed format."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from weince_lib.evaluation import fit_blocks
from weince_lib.studies.collect import STUDY_COLUMNS as COLUMNS
from weince_lib.studies.collect import load_study, table_path
from weince_lib.studies.decide import word
from weince_lib.studies.text_tables import (
    distinct,
    evidence_levels,
    evidence_rows,
    sentence,
    sts_differences,
    sts_methods,
    sts_table,
)

SEEDS = (7, 21, 63, 84, 105)
LEVEL = {"tau=0.02": 71.0, "tau=0.05": 70.0, "paper tau=0.05": 70.5}


STUDY = SimpleNamespace(
    methods={
        "infonce": (SimpleNamespace(label="tau=0.05"),),
        "infonce-tuned": (SimpleNamespace(label="tau=0.05"), SimpleNamespace(label="tau=0.02")),
        "weince": (SimpleNamespace(label="paper tau=0.05"),),
        "weince-low-tau": (SimpleNamespace(label="not run"),),
    },
    compare=(("weince", "infonce"), ("weince", "infonce-tuned"), ("weince-low-tau", "infonce")),
    seeds=SEEDS,
)


def made_up():
    """A study's rows; seeds shift all settings alike, and setting 0.02 wins on dev."""
    draw = np.random.default_rng(0)
    rows = []
    for seed in SEEDS:
        own = draw.normal(0, 2)
        for label, level in LEVEL.items():
            common = dict.fromkeys(COLUMNS, "") | {"experiment": "text", "replicate": 0}
            common |= {"key": f"{label}/{seed}", "setting": label, "seed": seed, "loss": "x"}
            noise = draw.normal(0, 0.2)
            for metric, drop in (("sts_spearman", 0.0), ("sts_spearman_last", 0.7)):
                for split, up in (("validation", 5.0), ("test", 0.0)):
                    value = level + own + noise + up - drop
                    rows.append(common | {"metric": metric, "split": split, "value": value})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def by_hand(label, split="test", metric="sts_spearman"):
    frame = made_up()
    own = frame[(frame.setting == label) & (frame.split == split) & (frame.metric == metric)]
    return own.sort_values("seed")["value"].to_numpy(float)


def test_levels_spread_and_choice():
    table = sts_table(STUDY, made_up()).set_index(["method", "checkpoint"])
    assert len(table) == 6  # three methods that were run, two checkpoints
    assert table.loc[("infonce-tuned", "best"), "setting"] == "tau=0.02"
    values = by_hand("paper tau=0.05")
    row = table.loc[("weince", "best")]
    assert row["mean"] == pytest.approx(values.mean())
    assert row["sd"] == pytest.approx(values.std(ddof=1))
    half = stats.t.ppf(0.975, 4) * values.std(ddof=1) / 5**0.5
    assert row["half_width"] == pytest.approx(half)
    assert (row["lowest"], row["highest"], row["seeds"]) == (values.min(), values.max(), 5)
    assert table.loc[("weince", "last"), "mean"] == pytest.approx(values.mean() - 0.7)


def test_differences_are_paired_and_their_p_value_one_sided():
    table = sts_differences(STUDY, made_up()).set_index(["method", "against", "checkpoint"])
    assert len(table) == 4
    a, b = by_hand("paper tau=0.05"), by_hand("tau=0.05")
    row = table.loc[("weince", "infonce", "best")]
    assert row["difference"] == pytest.approx((a - b).mean())
    assert row["p_value"] == pytest.approx(stats.ttest_rel(a, b, alternative="greater").pvalue)
    assert row["high"] - row["low"] < 2 * (by_hand("tau=0.05").std())  # the seeds' shift cancels
    worse = table.loc[("weince", "infonce-tuned", "best")]
    against = stats.ttest_rel(a, by_hand("tau=0.02"), alternative="greater").pvalue
    assert worse["p_value"] == pytest.approx(against) and against > 0.5


def test_the_table_goes_through_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_RESULTS", str(tmp_path))
    empty = load_study("made-up")
    assert sts_table(STUDY, empty).empty and sts_differences(STUDY, empty).empty
    assert list(sts_table(STUDY, empty)) == list(sts_table(STUDY, made_up()))
    path = table_path("made-up")
    path.parent.mkdir()
    made_up().to_csv(path, index=False)
    pd.testing.assert_frame_equal(
        sts_table(STUDY, load_study("made-up")), sts_table(STUDY, made_up())
    )
    with pytest.raises(KeyError, match="middle"):
        sts_methods(STUDY, empty, "middle")


def test_evidence_has_a_row_a_record():
    row = dict.fromkeys(COLUMNS, "") | {"experiment": "text-evidence", "encoder": "static"}
    rows = [
        row | {"key": f"{s}-{stage}", "loss": "infonce", "seed": s, "metric": m, "value": v}
        for s in (7.0, 21.0)
        for stage in (0, 0.5, 1)
        for m, v in (("stage", stage), ("gpd_shape_q99", -stage), ("rho_median", 0.1 * s))
    ]
    rows.append(row | {"key": "public", "loss": "", "seed": np.nan, "metric": "stage", "value": 1})
    evidence = evidence_rows(made_up(), pd.DataFrame(rows)).set_index("key")
    assert len(evidence) == 7
    assert evidence.loc["21.0-0.5", ["stage", "gpd_shape_q99", "rho_median"]].tolist() == [
        0.5,
        -0.5,
        2.1,
    ]
    assert evidence.loc["public", "seed"] == -1
    assert evidence_rows(made_up()).empty and evidence_rows().empty


def test_the_level_before_training_stands_once_in_the_table():
    frame = made_up()
    best = frame[frame["metric"] == "sts_spearman"]
    start = best.assign(metric="sts_spearman_start", value=best["split"].map(len) / 1.0)
    table = sts_table(STUDY, pd.concat([frame, start]))
    row = table[table["checkpoint"] == "start"].iloc[0]
    assert (table["checkpoint"] == "start").sum() == 1 and row["method"] == "before training"
    assert (row["dev"], row["mean"]) == (len("validation"), len("test"))
    tuned = table.set_index(["method", "checkpoint"]).loc[("infonce-tuned", "best")]
    assert tuned["settings"] == 2
    assert tuned["dev"] == pytest.approx(by_hand("tau=0.02", "validation").mean())


def test_pairs_are_decided_by_the_rule_and_the_same_runs_are_no_pair():
    study = SimpleNamespace(
        methods=STUDY.methods,
        compare=(*STUDY.compare, ("infonce-tuned", "infonce")),
        seeds=SEEDS,
    )
    columns = ["method", "against", "checkpoint"]
    table = sts_differences(study, made_up()).set_index(columns)
    # Three settings with one variance, and four pairs that share the level, one of them not run.
    model = fit_blocks({x: dict(zip(SEEDS, map(float, by_hand(x)), strict=True)) for x in LEVEL})
    assert model.equal_variance_p > 0.1
    low, high = model.contrast("paper tau=0.05", "tau=0.02").interval(0.05, 4)
    row = table.loc[("weince", "infonce-tuned", "best")]
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))
    assert row["word"] == word(low, high, 0.97)

    without = made_up()
    without = without[without["setting"] != "tau=0.02"]
    table = sts_differences(study, without).set_index(columns)
    row = table.loc[("infonce-tuned", "infonce", "best")]
    assert row["word"] == "same setting" and np.isnan(row["low"])
    assert list(distinct(sts_methods(study, without))) == ["infonce", "weince"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "WEINCE minus InfoNCE: +1.00 [+0.50, +1.50], better (5 seeds)"),
        ({"low": np.nan, "word": "same setting"}, "WEINCE minus InfoNCE: same setting (5 seeds)"),
    ],
)
def test_a_difference_in_words(changed, words):
    row = {"method": "weince", "against": "infonce", "difference": 1.0, "low": 0.5, "high": 1.5}
    assert sentence(row | {"word": "better", "seeds": 5} | changed) == words


def test_evidence_over_seeds_has_its_interval():
    rows = [
        {"loss": "weince", "seed": seed, "stage": stage, "shape": value, "other": np.nan}
        for stage in (0.0, 1.0)
        for seed, value in ((1, 0.1), (2, 0.2), (3, 0.4 + stage))
    ]
    found = evidence_levels(pd.DataFrame(rows), ["shape", "other"])
    assert found["metric"].tolist() == ["shape", "shape"]  # a metric without a value has no row
    values = [0.1, 0.2, 1.4]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    last = found[found["stage"] == 1.0].iloc[0]
    assert (last["mean"], last["low"], last["high"]) == pytest.approx((np.mean(values), low, high))
    assert last["seeds"] == 3
