"""Validation chooses, for each metric on its own; ties, missing seeds, pairs; made-up rows."""

import math

import pandas as pd
import pytest

from weince_lib.studies import grid
from weince_lib.studies.collect import STUDY_COLUMNS as COLUMNS
from weince_lib.studies.grid import Setting, Study
from weince_lib.studies.selection import (
    choose,
    chosen_by_method,
    compare,
    method_table,
    seed_table,
    study_frame,
)

SEEDS = (7, 21, 63, 84)
A, B, C = (Setting("infonce", temperature=t) for t in (0.1, 0.2, 0.5))


def rows(setting, validation, test, metric="linear_accuracy", seeds=SEEDS, replicates=(1, 2)):
    """Rows of a setting: one value an encoder seed, replicates a point above and below it."""
    found = []
    for split, values in (("validation", validation), ("test", test)):
        for seed, value in zip(seeds, values, strict=True):
            for replicate in replicates:
                found.append(
                    dict.fromkeys(COLUMNS, "")
                    | {"experiment": "vision", "setting": setting.label, "seed": seed}
                    | {"dataset": "digits", "encoder": "resnet-small", "key": f"{seed:016d}"}
                    | {"metric": metric, "split": split, "replicate": replicate}
                    | {"value": value + (-1.0) ** replicate * (len(replicates) > 1)}
                )
    return found


def frame(*parts):
    return pd.DataFrame([row for part in parts for row in part], columns=list(COLUMNS))


LABELS = [s.label for s in (A, B, C)]


def test_validation_chooses_and_test_has_no_part_in_it():
    table = frame(
        rows(A, [50, 52, 54, 56], [90, 91, 92, 93]),
        rows(B, [51, 53, 55, 57], [10, 12, 14, 16]),
        rows(C, [50, 50, 50, 50], [99, 99, 99, 99]),
    )
    found = choose(table, LABELS, "linear_accuracy")
    assert (found.setting, found.settings, found.tied, found.left_out) == (B.label, 3, (), ())
    assert found.by_seed == {7: 10, 21: 12, 63: 14, 84: 16}
    assert found.validation.mean == 54
    # Four encoders: mean 13, s = sqrt(20/3), t(0.975, 3) = 3.182446.
    assert found.test.n == 4
    assert found.test.mean == 13
    assert found.test.high - 13 == pytest.approx(3.182446 * math.sqrt(20 / 3) / 2, abs=1e-5)


def test_each_metric_selects_for_itself():
    table = frame(
        rows(A, [60] * 4, [61] * 4),
        rows(B, [50] * 4, [51] * 4),
        rows(A, [20] * 4, [21] * 4, metric="recall_at_1"),
        rows(B, [30] * 4, [31] * 4, metric="recall_at_1"),
    )
    assert choose(table, LABELS, "linear_accuracy").setting == A.label
    assert choose(table, LABELS, "recall_at_1").setting == B.label
    assert choose(table, LABELS, "recall_at_1").test.mean == 31


def test_a_tie_goes_to_the_first_in_the_studys_order_and_is_reported():
    low, high = [50.1, 50.2, 50.3, 50.4], [50.4, 50.3, 50.2, 50.1]
    table = frame(rows(A, low, [1] * 4), rows(B, high, [2] * 4), rows(C, [9] * 4, [3] * 4))
    for order, expected in (((A, B, C), A), ((C, B, A), B)):
        found = choose(table, [s.label for s in order], "linear_accuracy")
        assert found.setting == expected.label
        assert found.tied == (B.label if expected is A else A.label,)


def test_a_setting_that_lacks_a_seed_is_left_out_and_named():
    table = frame(
        rows(A, [50] * 4, [51] * 4),
        rows(B, [99] * 3, [99] * 3, seeds=SEEDS[:3]),  # best, but not on the same seeds
    )
    found = choose(table, LABELS, "linear_accuracy")
    assert found.setting == A.label
    assert found.left_out == (B.label, C.label)


def test_nothing_to_choose_from_and_a_study_cut_short():
    assert choose(frame(), LABELS, "linear_accuracy") is None
    table = frame(*(rows(s, [50 + i], [60 + i], seeds=(7,)) for i, s in enumerate((A, B))))
    assert choose(table, LABELS, "recall_at_1") is None
    found = choose(table, LABELS, "linear_accuracy")
    assert (found.setting, found.test.n) == (B.label, 1)
    assert math.isnan(found.test.low)


def test_a_missing_replicate_or_split_is_an_error_and_no_shifted_mean():
    table = frame(rows(A, [50] * 4, [51] * 4))
    with pytest.raises(ValueError, match="replicates"):
        choose(table.drop(index=0), LABELS, "linear_accuracy")
    with pytest.raises(ValueError, match=r"tau=0.1.*different seeds"):
        gone = (table["split"] == "test") & (table["seed"] == 7)
        choose(table[~gone], LABELS, "linear_accuracy")


STUDY = Study(
    "made-up",
    "?",
    "quick",
    {"plain": (C,), "tuned": (A, B), "absent": (Setting("weince"),)},
    (("tuned", "plain"), ("absent", "plain")),
)


def test_difference_uses_the_seeds_both_have():
    table = frame(
        rows(C, [1] * 3, [50, 60, 70], seeds=(7, 21, 63)),
        rows(A, [1] * 3, [61, 73, 99], seeds=(21, 63, 84)),
    )
    chosen = chosen_by_method(STUDY, table, "linear_accuracy")
    pair = compare(chosen["tuned"], chosen["plain"])
    assert pair.seeds == (21, 63)
    assert pair.interval.mean == 2
    apart = frame(rows(C, [1], [50], seeds=(7,)), rows(A, [1], [50], seeds=(21,)))
    chosen = chosen_by_method(STUDY, apart, "linear_accuracy")
    assert compare(chosen["tuned"], chosen["plain"]) is None


def test_method_table_says_what_was_chosen_from_how_many():
    table = frame(rows(C, [1] * 4, [50] * 4), rows(A, [3] * 4, [51] * 4), rows(B, [3] * 4, [9] * 4))
    found = method_table(STUDY, table, ["linear_accuracy", "recall_at_1"])
    assert list(found["method"]) == ["plain", "tuned"]
    tuned = found.iloc[1]
    assert (tuned["setting"], tuned["settings"], tuned["tied"]) == (A.label, 2, 1)
    assert (tuned["value"], tuned["validation"], tuned["left_out"]) == (51, 3, 0)


def test_a_study_finds_its_runs_in_the_profiles_table(tmp_path):
    study = grid.study("quick-digits")
    run = study.runs()[1]
    results = frame(rows(A, [1] * 4, [2] * 4)).drop(columns="setting")
    results["key"] = [run.key if seed == 7 else "f" * 16 for seed in results["seed"]]
    (tmp_path / "results").mkdir()
    results.to_csv(tmp_path / "results" / "quick.csv", index=False)
    found = study_frame(study)
    assert set(found["setting"]) == {run.setting}
    assert set(found["key"]) == {run.key}
    assert len(found) == 4


def test_a_row_a_method_and_seed_of_what_was_chosen():
    sharpness = [
        row | {"metric": name, "split": "train", "value": number}
        for row in rows(C, [1] * 4, [1] * 4, replicates=(1,))[:4]
        for name, number in (("negative_entropy", 4.5), ("mean_lambda", 0.1))
    ]
    table = frame(rows(C, [1] * 4, [50, 51, 52, 53]), rows(A, [3] * 4, [60] * 4), sharpness)
    found = seed_table(STUDY, table, "linear_accuracy")
    assert set(found["method"]) == {"plain"}  # "tuned" has several settings
    assert found["accuracy"].tolist() == [50, 51, 52, 53]
    assert (found[["negative_entropy", "mean_lambda"]] == [4.5, 0.1]).all(axis=None)
    found = seed_table(STUDY, table, "linear_accuracy", {"tuned": A.label}).set_index("method")
    assert set(found.loc["tuned", "setting"]) == {A.label}
    assert found.loc["tuned", "negative_entropy"].isna().all()
    assert seed_table(STUDY, frame(), "linear_accuracy").empty
