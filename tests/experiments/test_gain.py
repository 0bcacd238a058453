"""Effects of a study's settings: made-up tables, partial ones, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from weince_lib.experiments import SEEDS, gain, grid_gain
from weince_lib.experiments.grid import STUDIES, study
from weince_lib.experiments.sweep import COLUMNS

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


#: InfoNCE's accuracy falls linearly in the entropy, from 84 at 2 to 80 at 6.
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


def test_every_method_has_a_family_and_every_contrast_its_methods():
    grids = (STUDY, study("gain-cifar100"))
    singles = {m for grid in grids for m, s in grid.methods.items() if len(s) == 1}
    assert singles == {m for members in gain.FAMILIES.values() for m in members}
    assert {m for pair in gain.CONTRASTS.values() for m in pair} <= STUDY.methods.keys()
    assert gain.family("nothing") == "other"


def test_every_method_has_a_name_that_readers_know():
    methods = {m for name in STUDIES for m in STUDIES[name].methods}
    shown = {method: gain.called(method) for method in methods}
    assert all(name != method for method, name in shown.items())
    assert shown["weince-0.2"] == "WEINCE, τ = 0.2" and shown["infonce"] == "InfoNCE"
    assert shown["weibit-4"] == "pure endpoint link, β = 4"
    fashion = [shown[m] for m in STUDY.methods]
    assert len(set(fashion)) == len(fashion)


def test_effects_are_paired_and_adjusted():
    table = table_of()
    found = gain.effects(table, gain.by_seed(table, "infonce-0.5"), skip="infonce-0.5")
    found = found.set_index("method")
    assert "infonce-0.5" not in found.index and (found["seeds"] == 4).all()
    # The seeds differ by whole points, which pairing takes out.
    row = found.loc["infonce+both"]
    assert row["difference"] == pytest.approx(3.0, abs=0.5)
    assert row["low"] < 3.0 < row["high"] < 4.0
    assert row["effective_negatives"] == pytest.approx(math.exp(1.5))
    assert (found["p_holm"] >= found["p"]).all()


def test_holm_is_statsmodels():
    p = [0.03, 0.001, 0.5, 0.012, math.nan, 0.04]
    known = [x for x in p if not math.isnan(x)]
    expected = multipletests(known, method="holm")[1].tolist()
    found = gain.holm(p)
    assert math.isnan(found[4])
    assert [x for x in found if not math.isnan(x)] == pytest.approx(expected)
    assert gain.holm([]) == []


def test_matched_sharpness_reads_off_the_softmax_line():
    """The line is exact without noise: 82.5 at 3.5 and 81.5 at 4.5."""
    table = table_of(spread=0.0)
    found = gain.at_matched_sharpness(table).set_index("method")
    assert found.loc["weibit-2", "difference"] == pytest.approx(0.0, abs=1e-9)
    assert found.loc["weince-0.5", "difference"] == pytest.approx(2.0)
    sharper = found.loc["infonce+both"]  # than every temperature
    assert sharper["seeds"] == 0 and math.isnan(sharper["difference"])
    assert sharper["effective_negatives"] == pytest.approx(math.exp(ENTROPY["infonce+both"]))
    noisy = gain.at_matched_sharpness(table_of()).set_index("method")
    assert noisy.loc["weince-0.5", "low"] < 2.0 < noisy.loc["weince-0.5", "high"]


def test_contrasts_and_words():
    found = gain.contrasts(table_of()).set_index("factor")
    assert found.loc["blend, at τ = 0.5", "difference"] == pytest.approx(2.5, abs=0.5)
    words = {name: gain.verdict(row) for name, row in found.iterrows()}
    assert words["blend, at τ = 0.5"] == "helps"
    assert gain.verdict({"difference": -1.0, "p_holm": 0.01}) == "hurts"
    assert gain.verdict({"difference": -1.0, "p_holm": 0.2}) == "cannot tell"


def test_smallest_effects_are_those_seen_with_80_percent_probability():
    found = gain.contrasts(table_of())
    rows = gain.smallest_effects(found)
    assert len(rows) == len(found) > 1
    for row in rows.to_dict("records"):
        error = (row["high"] - row["low"]) / 2 / stats.t.ppf(0.975, 3)
        for column, level in (("alone", 0.05), ("all", 0.05 / len(found))):
            passed = stats.nct.sf(stats.t.isf(level / 2, 3), 3, row[column] / error)
            assert passed == pytest.approx(0.8)


@pytest.mark.parametrize("seeds", [(7,), (21, 63)])
def test_partial_tables_do_not_fail(seeds):
    table = table_of(seeds=seeds)
    found = gain.effects(table, gain.by_seed(table, "infonce-0.5"))
    assert (found["seeds"] == len(seeds)).all()
    words = {gain.verdict(r) for r in gain.contrasts(table).to_dict("records")}
    assert words == {"one seed"} if len(seeds) == 1 else words <= {"cannot tell", "helps"}
    assert len(gain.means(table)) == 8
    assert (gain.at_matched_sharpness(table)["seeds"] > 0).sum() == 2


def test_an_empty_table_and_runs_without_sharpness():
    empty = pd.DataFrame(columns=list(COLUMNS))
    table = gain.seed_table(STUDY, empty, METRIC)
    assert table.empty and gain.contrasts(table).empty and gain.means(table).empty
    assert gain.effects(table, {}).empty and gain.at_matched_sharpness(table).empty
    assert gain.tuned_baseline(STUDY, empty, METRIC) == ("", {})
    frame = frame_of(ACCURACY, ENTROPY)
    bare = gain.seed_table(STUDY, frame[frame["split"] != "train"], METRIC)
    assert bare["negative_entropy"].isna().all()
    assert (gain.at_matched_sharpness(bare)["seeds"] == 0).all()
    assert len(gain.contrasts(bare)) > 0


def test_the_tuned_baseline_is_chosen_on_validation():
    setting, by_seed = gain.tuned_baseline(STUDY, frame_of(ACCURACY, ENTROPY), METRIC)
    assert setting == grid_gain.INFONCE_AT["infonce-0.1"].label
    assert by_seed.keys() == set(SEEDS)


def test_a_label_names_every_part_of_an_objective():
    labels = {m: s[0].label for m, s in STUDY.methods.items() if len(s) == 1}
    assert labels["released"] == (
        "blend beta=unit gate=paper + 0.5 softmax top-50 + 0.5 weibit top-50 tau=0.5"
    )
    assert labels["weince-shuffled"].endswith("lambda=shuffled tau=0.5")
    assert labels["line-likelihood"] == "blend beta=line gate=likelihood tau=0.5"
    assert labels["weibit-2"] == "weibit beta=2 tau=0.5"
