"""Methods of the studies of what drives a gain: their names, their runs, their values by seed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from weince_lib.experiments import SEEDS
from weince_lib.studies import gain, grid_gain
from weince_lib.studies.grid import STUDIES, study
from weince_lib.studies.sweep import COLUMNS

METRIC = "linear_accuracy"
STUDY = study("cpu-gain-fashion")


def frame_of(accuracy, entropy, seeds=SEEDS, spread=0.2):
    """A study's table: mean accuracy and entropy of each method, with noise shared by a seed."""
    draw = np.random.default_rng(0)
    rows = []
    for method in accuracy:
        label = STUDY.methods[method][0].label
        for number, seed in enumerate(seeds):
            row = dict.fromkeys(COLUMNS, "") | {"setting": label, "seed": seed, "replicate": 0}
            value = accuracy[method] + number + spread * draw.normal()
            for split, shift in (("validation", 0.3), ("test", 0.0)):
                rows.append(row | {"metric": METRIC, "split": split, "value": value + shift})
            for name, number_of in (("negative_entropy", entropy[method]), ("mean_lambda", 0.1)):
                rows.append(row | {"metric": name, "split": "train", "value": number_of})
    return pd.DataFrame(rows, columns=list(COLUMNS))


#: Made-up means of a few methods.
ENTROPY = {f"infonce-{tau:g}": 2.0 + k for k, tau in enumerate((0.1, 0.2, 0.3, 0.5, 1.0))}
ACCURACY = {name: 86.0 - entropy for name, entropy in ENTROPY.items()}
ENTROPY |= {"weibit-2": 3.5, "weince-0.5": 4.5, "infonce+both": 1.5}
ACCURACY |= {"weibit-2": 82.5, "weince-0.5": 83.5, "infonce+both": 84.0}


def table_of(**more):
    return gain.seed_table(STUDY, frame_of(ACCURACY, ENTROPY, **more), METRIC)


def test_the_studies_have_their_runs_and_share_those_of_cpu_fashion():
    runs = STUDY.runs()
    assert len(runs) == len({r.key for r in runs}) == 116
    shared = {r.key for r in study("cpu-fashion").runs()} & {r.key for r in runs}
    assert len(runs) - len(shared) == 68 and len({r.setting for r in runs}) == 29
    pairs = study("cpu-gain-pairs")
    assert len(pairs.runs()) == 40
    assert {r.config.dataset for r in pairs.runs()} == {"digit-pairs"}
    for name in ("gain-cifar100", "gain-stl10"):
        chosen = STUDIES[name]
        assert (chosen.profile, chosen.gpus, len(chosen.runs())) == ("paper", 1, 128)
        assert {r.config.encoder for r in chosen.runs()} == {"resnet18"}
        # Whichever temperature InfoNCE chooses, the blend is there at it.
        at = [{s.temperature for s in chosen.methods[f"{m}-tuned"]} for m in ("infonce", "weince")]
        assert at[0] == at[1]
    # The sharper softmax only carries the line further; validation does not choose it.
    for name in ("cpu-gain-fashion", "cpu-gain-pairs", "gain-cifar100"):
        methods = STUDIES[name].methods
        assert methods["infonce-0.05"][0] not in methods["infonce-tuned"]


def test_no_two_settings_of_a_study_are_one_run():
    """Labels name settings; two labels for one objective would train it twice."""
    configs = [r.config.model_copy(update={"seed": 0}) for r in STUDY.runs() if r.seed == SEEDS[0]]
    assert len({str(c.build_loss()) for c in configs}) == len(configs) == 29


def test_every_method_has_a_name_that_readers_know():
    methods = {m for name in STUDIES for m in STUDIES[name].methods}
    shown = {method: gain.called(method) for method in methods}
    assert all(name != method for method, name in shown.items())
    assert shown["weince-0.2"] == "WEINCE, τ = 0.2" and shown["infonce"] == "InfoNCE"
    assert shown["weince-steepness"] == "WEINCE, κ_ρ on validation"
    assert shown["weibit-4"] == "pure endpoint link, β = 4"
    fashion = [shown[m] for m in STUDY.methods]
    assert len(set(fashion)) == len(fashion)


def test_a_row_a_method_and_seed():
    table = table_of(spread=0.0).set_index(["method", "seed"])
    assert len(table) == 4 * len(ACCURACY)
    row = table.loc["weince-0.5", 21]
    assert row["accuracy"] == pytest.approx(ACCURACY["weince-0.5"] + 1)  # the second seed
    assert (row["negative_entropy"], row["mean_lambda"]) == (4.5, 0.1)
    assert table.loc["infonce-0.2", 7]["setting"] == grid_gain.INFONCE_AT["infonce-0.2"].label


def test_a_method_with_a_choice_has_rows_of_what_was_chosen():
    frame = frame_of(ACCURACY, ENTROPY)
    label = grid_gain.INFONCE_AT["infonce-0.1"].label
    table = gain.seed_table(STUDY, frame, METRIC, {"infonce-tuned": label}).set_index("method")
    assert "weince-tuned" not in table.index
    columns = ["setting", "seed", "accuracy"]
    tuned, same = (table.loc[m, columns].to_numpy() for m in ("infonce-tuned", "infonce-0.1"))
    assert (tuned == same).all()


def test_partial_and_empty_tables_and_runs_without_sharpness():
    assert set(table_of(seeds=(7,))["seed"]) == {7}
    empty = pd.DataFrame(columns=list(COLUMNS))
    assert gain.seed_table(STUDY, empty, METRIC).empty
    frame = frame_of(ACCURACY, ENTROPY)
    bare = gain.seed_table(STUDY, frame[frame["split"] != "train"], METRIC)
    assert len(bare) and bare["negative_entropy"].isna().all()


def test_a_label_names_every_part_of_an_objective():
    labels = {m: s[0].label for m, s in STUDY.methods.items() if len(s) == 1}
    assert labels["released"] == (
        "blend beta=unit gate=paper + 0.5 softmax top-50 + 0.5 weibit top-50 tau=0.5"
    )
    assert labels["weince-shuffled"].endswith("lambda=shuffled tau=0.5")
    assert labels["line-likelihood"] == "blend beta=line gate=likelihood tau=0.5"
    assert labels["weibit-2"] == "weibit beta=2 tau=0.5"
