"""Floors: pixels against a search by hand, records made once, and their rows in tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sample_runs import TINY

from weince_lib.evaluation import stratified_split
from weince_lib.experiments import PROFILES, ConfigError, vision_config
from weince_lib.records import store
from weince_lib.records.record_lines import lines_path, read_lines
from weince_lib.studies import floors, tables
from weince_lib.studies.collect import load_study, table_path
from weince_lib.studies.grid import study
from weince_lib.studies.selection import method_table, study_frame
from weince_lib.studies.sweep import STOPPED, main
from weince_lib.training import TrainingInterrupted
from weince_lib.vision import load

STUDY = study("quick-digits")


@pytest.fixture
def small(monkeypatch):
    """A quick profile of 120 digits, in force."""
    monkeypatch.setitem(PROFILES, "quick", TINY)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of one finished set of floors."""
    folder = tmp_path_factory.mktemp("floors")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RUNS", "RESULTS"):
            patch.setenv(f"WEINCE_{name}", str(folder / name.lower()))
        patch.setitem(PROFILES, "quick", TINY)
        floors.make_all(STUDY, device="cpu")
    return folder


@pytest.fixture
def finished(made, small, monkeypatch):
    """The finished floors, to read."""
    for name in ("RUNS", "RESULTS"):
        monkeypatch.setenv(f"WEINCE_{name}", str(made / name.lower()))


@pytest.mark.parametrize("centred", [False, True])
def test_pixels_are_found_as_by_a_cosine_search_by_hand(centred):
    train, test = load("digits", "train"), load("digits", "test")
    config = vision_config("quick", probe_epochs=1, split_seeds=(1, 2))
    metrics = floors.pixel_metrics(train, test, config, centred=centred)
    found = {(m.name, m.split, m.replicate): m.value for m in metrics}
    bank, queries = (s.images.numpy().reshape(len(s), -1) / 255.0 for s in (train, test))
    if centred:
        bank, queries = bank - bank.mean(axis=0), queries - bank.mean(axis=0)
    for seed in (1, 2):
        rows = stratified_split(train.labels, seed=seed).train.numpy()
        own, labels = bank[rows], train.labels.numpy()[rows]
        right = 0
        for query, label in zip(queries, test.labels.numpy(), strict=True):
            norms = np.linalg.norm(own, axis=1) * np.linalg.norm(query)
            right += labels[np.argmax(own @ query / norms)] == label
        # Two images may be as near as rounding: one query of 445 may differ.
        assert found["recall_at_1", "test", seed] == pytest.approx(100 * right / 445, abs=0.23)
    assert ("linear_accuracy" in {m.name for m in metrics}) != centred


def test_a_floor_depends_on_what_it_says_and_on_nothing_else():
    configs = [
        vision_config("quick", loss="infonce"),
        vision_config("quick", loss="weince", temperature=0.1, projection_dim=32),
        vision_config("quick", seed=21),
        vision_config("quick", epochs=99),
        vision_config("quick", train_limit=500),
    ]
    keys = {kind: [floors.Floor(kind, config).key for config in configs] for kind in floors.KINDS}
    same = {kind: [key == own[0] for key in own] for kind, own in keys.items()}
    assert same["pixels"] == same["pixels-centred"] == [True, True, True, True, False]
    assert same["untrained"] == [True, True, False, True, False]
    assert same["supervised"] == [True, True, False, False, False]
    # Two studies on the same images share theirs.
    fashion = [
        {f.key for f in floors.floors_of(study(f"cpu-{n}"))} for n in ("fashion", "gain-fashion")
    ]
    assert fashion[0] == fashion[1]
    assert len(fashion[0]) == 2 + 2 * 4


def test_floors_are_records_in_the_table_with_their_lines(finished):
    frame = load_study(floors.TABLE)
    assert set(frame["key"]) == {f.key for f in floors.floors_of(STUDY)}
    assert read_lines(lines_path(table_path(floors.TABLE))).keys() == set(frame["key"])
    record = store.find(floors.EXPERIMENT, floors.floors_of(STUDY, ["supervised"])[0].config)
    assert record is not None
    assert len(record.details["history"]) == TINY["epochs"]
    assert record.config["train_limit"] == 120
    table = floors.floor_table(STUDY, ["recall_at_1"]).set_index("kind")
    assert list(table.index) == list(floors.KINDS)
    assert list(table["seeds"]) == [0, 0, 4, 4]
    assert math.isnan(table.loc["pixels", "low"])
    untrained = table.loc["untrained"]
    assert untrained["low"] < untrained["value"] < untrained["high"]


def test_finished_floors_are_not_computed_again(finished, monkeypatch, tmp_path):
    def refuse(*args):
        raise AssertionError("a finished floor was computed again")

    monkeypatch.setattr(floors, "_measure", refuse)
    floors.make_all(STUDY)
    before = table_path(floors.TABLE).read_bytes()
    # Records without a table: the table is made from them ...
    results, monkey_results = table_path(floors.TABLE).parent, tmp_path / "elsewhere"
    monkeypatch.setenv("WEINCE_RESULTS", str(monkey_results))
    floors.make_all(STUDY)
    assert table_path(floors.TABLE).read_bytes() == before
    # ... and a table without records, as in a clone, stays as it is.
    monkeypatch.setenv("WEINCE_RESULTS", str(results.parent))
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "none"))
    floors.make_all(STUDY)
    assert table_path(floors.TABLE).read_bytes() == before


def test_a_stopped_command_keeps_what_is_done_and_goes_on(small, monkeypatch, capsys):
    usual, calls = floors._measure, []

    def stops(floor, *args):
        calls.append(floor.kind)
        if len(calls) == 3:
            raise TrainingInterrupted("stopped here")
        return usual(floor, *args)

    monkeypatch.setattr(floors, "_measure", stops)
    words = ["floors", "quick-digits", "--kind", "pixels", "untrained"]
    assert main(words) == STOPPED
    assert "stopped here" in capsys.readouterr().err
    assert len(set(load_study(floors.TABLE)["key"])) == 2
    assert main(words) == 0
    assert calls == ["pixels", *["untrained"] * 5]
    assert "raw pixels" in capsys.readouterr().out


def test_floors_stand_in_the_tables_of_methods(finished):
    row = {"experiment": "vision", "key": "0" * 16, "dataset": "digits", "seed": 7}
    row |= {"encoder": "resnet-small", "setting": "tau=0.5", "metric": "linear_accuracy"}
    row |= {"replicate": 1, "value": 90.0}
    frame = pd.DataFrame([row | {"split": split} for split in ("validation", "test")])
    found = method_table(STUDY, frame, ["linear_accuracy"])
    assert list(found["method"]) == [
        "infonce",
        "raw pixels",
        "untrained encoder",
        "supervised encoder",
    ]
    expected = floors.floor_table(STUDY, ["linear_accuracy"])
    assert list(found["value"])[1:] == list(expected["value"])
    assert found["validation"].between(0, 100).all()

    path = table_path(STUDY.name)
    frame.to_csv(path, index=False)
    try:
        assert len(study_frame(STUDY)) == 2
        table = tables.paper_table("3")
        read = tables.shown(table)
        cell = read.loc[("handwritten digits", "resnet-small", "R@1")]
        assert float(cell["ours: raw pixels, centred"]) > 10
        assert "±" in cell["ours: supervised encoder"]
        absent = read.loc[("CIFAR-10", "resnet18", "R@1")]
        assert absent["ours: raw pixels"] == "not run"
        assert "paper: raw pixels" not in read.columns
        assert ("handwritten digits", "resnet-small", "raw pixels") in tables.wide(
            table, "ours"
        ).index
        assert len(tables.wide(table, "paper")) == 3 * 11  # ten of the paper's and this one
    finally:
        path.unlink()


def test_what_has_no_floors_is_named(small, capsys):
    with pytest.raises(ConfigError, match=r"'dreams'.*pixels"):
        floors.floors_of(STUDY, ["dreams"])
    with pytest.raises(ConfigError, match="cpu-static is of sentences"):
        floors.floors_of(study("cpu-static"))
    assert main(["floors", "nosuch"]) == 1
    assert "unknown study 'nosuch'" in capsys.readouterr().err
    assert floors.floor_table(STUDY, ["recall_at_1"]).empty
    assert floors.floor_table(study("cpu-static"), ["recall_at_1"]).empty
