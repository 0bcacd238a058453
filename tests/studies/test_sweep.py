"""Runs of a study one by one: found, resumed, failures noted, and collected."""

import shutil
import signal

import pandas as pd
import pytest
from filelock import FileLock
from sample_runs import TINY

from weince_lib.experiments import PROFILES, SEEDS
from weince_lib.records import record_lines, store
from weince_lib.runs.config import vision_config
from weince_lib.runs.vision import labels
from weince_lib.studies import grid, sweep
from weince_lib.studies.collect import (
    STUDY_COLUMNS,
    load_study,
    table_path,
)
from weince_lib.studies.grid import Study
from weince_lib.studies.study_types import execution

METRICS = [
    store.Metric(name, 90.0 + replicate, split, replicate)
    for name in ("linear_accuracy", "recall_at_1")
    for split in ("validation", "test")
    for replicate in (1, 2)
]


@pytest.fixture
def small(monkeypatch):
    """A study of four tiny runs."""
    monkeypatch.setitem(PROFILES, "quick", TINY)
    methods = {"infonce": (grid.INFONCE,), "weince": (grid.WEINCE,)}
    made = Study("small", "?", "quick", methods, (("weince", "infonce"),), seeds=SEEDS[:2])
    monkeypatch.setitem(grid.STUDIES, "small", made)
    return made


def save_run(run):
    """The record of a run with made-up numbers."""
    return store.save(
        "vision",
        run.config.canonical(),
        METRICS,
        labels=labels(run.config, "quick"),
        started=0.0,
    )


@pytest.fixture
def made(small, monkeypatch):
    """The configs of runs that were made, with made-up numbers in place of a training."""
    made = []

    def make(config, **_):
        made.append(config)
        return save_run(next(run for run in small.runs() if run.config == config))

    monkeypatch.setattr(sweep, "run_vision", make)
    return made


def test_a_run_leaves_record_mark_and_features_and_is_not_repeated(small, tmp_path):
    run = small.runs()[0]
    record = sweep.run_one("small", run.key)
    assert record.key == run.key
    features = sorted((tmp_path / "runs" / "features").glob("*.npy"))
    assert len(features) == 2  # of training and test images
    assert sweep.mark("small", run.key).exists()
    made = record.path.stat().st_mtime_ns
    sweep.mark("small", run.key).unlink()  # what Snakemake does before a rerun
    assert sweep.run_one("small", run.key) == record
    assert record.path.stat().st_mtime_ns == made
    assert sweep.mark("small", run.key).exists()
    assert [s.stage for s in sweep.states(small)] == ["done", "to do", "to do", "to do"]


def test_a_failure_is_noted_reported_and_cleared_by_success(small, monkeypatch):
    run = small.runs()[1]

    def fail(config, **_):
        raise RuntimeError("out of memory\nat layer 3")

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "run_vision", fail)
        with pytest.raises(RuntimeError):
            sweep.run_one("small", run.key)
    state = sweep.states(small)[1]
    assert state.stage == "failed"
    assert state.reason == f"{run.setting}, seed 7: RuntimeError: out of memory at layer 3"
    assert not sweep.mark("small", run.key).exists()
    monkeypatch.setattr(sweep, "run_vision", lambda config, **_: save_run(run))
    sweep.run_one("small", run.key)
    assert sweep.states(small)[1].stage == "done"
    assert not sweep.failure("small", run.key).exists()


def test_an_interrupt_is_no_failure(small, monkeypatch, capsys):
    def interrupt(config, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run_vision", interrupt)
    run = small.runs()[0]
    with pytest.raises(KeyboardInterrupt):
        sweep.run_one("small", run.key)
    assert sweep.main(["run", "small", run.key]) == sweep.STOPPED == 75
    assert capsys.readouterr().err == "stopped; run again to continue\n"
    home = store.run_folder("vision", run.key)
    home.mkdir(parents=True)
    (home / "checkpoint.safetensors").touch()
    assert sweep.states(small)[0].stage == "begun"


def test_collect_writes_every_run_with_its_setting_and_time(small, tmp_path):
    records = [save_run(run) for run in small.runs()]
    target, missing = sweep.collect_study(small)
    assert target == tmp_path / "results" / "studies" / "small.csv"
    assert missing == []
    table = load_study("small")
    assert tuple(table.columns) == STUDY_COLUMNS
    assert len(table) == 4 * (len(METRICS) + 1)
    assert set(table["setting"]) == {"tau=0.5", grid.WEINCE.label}
    assert set(table["key"]) == {record.key for record in records}
    assert (table["metric"] == "wall_seconds").sum() == 4
    before = target.read_bytes()
    assert sweep.collect_study(small)[0].read_bytes() == before


def test_collect_names_what_is_missing_unless_partial(small, tmp_path):
    first, *_ = small.runs()
    with pytest.raises(FileNotFoundError, match="4 of 4 runs"):
        sweep.collect_study(small, partial=True)
    save_run(first)
    with pytest.raises(FileNotFoundError, match=r"3 of 4 runs .* seed 7.*weince plan small"):
        sweep.collect_study(small)
    assert not table_path("small").exists()
    _, missing = sweep.collect_study(small, partial=True)
    assert missing == small.runs()[1:]
    assert set(load_study("small")["key"]) == {first.key}


def test_collect_keeps_runs_whose_records_are_elsewhere(small):
    records = [save_run(run) for run in small.runs()]
    sweep.collect_study(small)
    before = load_study("small")
    lines = record_lines.read_lines(record_lines.lines_path(table_path("small")))
    assert lines == {record.key: record_lines.record_line(record) for record in records}
    shutil.rmtree(records[0].folder)
    sweep.collect_study(small)
    assert record_lines.read_lines(record_lines.lines_path(table_path("small"))) == lines
    columns = list(STUDY_COLUMNS)
    pd.testing.assert_frame_equal(load_study("small")[columns], before[columns])


def test_a_damaged_record_is_an_error(small):
    records = [save_run(run) for run in small.runs()]
    records[2].path.write_text("{")
    with pytest.raises(store.RecordError, match=records[2].key):
        sweep.collect_study(small)


def test_module_is_one_line_on_bad_input(small, capsys):
    assert sweep.main(["run", "small", "0" * 16]) == 1
    assert sweep.main(["collect", "smal"]) == 1
    assert sweep.main(["choose", "small"]) == 1
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith("Error: study small has no run")
    assert "'smal'" in second
    assert third.startswith("Error: study small chooses nothing; these do: cpu-cifar, ")


@pytest.mark.parametrize(("width", "last"), [(16, True), (32, True), (8, None), (0, None)])
def test_channels_last_where_the_layers_are_wide_enough(width, last):
    config = vision_config("cpu", loss="infonce")
    assert execution(config.model_copy(update={"width": width})).channels_last is last


def test_a_worker_makes_what_is_missing_and_leaves_a_run_that_another_has(small, made):
    first, taken, broken, last = small.runs()
    save_run(first)
    sweep.folder("small").mkdir(parents=True)
    with FileLock(sweep.folder("small") / f"{taken.key}.worker"):
        assert sweep.work(["small"]) == 0
    assert made == [broken.config, last.config]
    table = load_study("small")
    assert set(table["key"]) == {first.key, broken.key, last.key}
    assert sweep.work(["small"]) == 0
    assert set(load_study("small")["key"]) == {run.key for run in small.runs()}


def test_a_study_in_the_background_of_a_script_is_stopped_by_sigterm(
    small, monkeypatch, capsys, ctrl_c
):
    """A script starts it with SIGINT ignored: Ctrl-C leaves it alone, and no run has failed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def stopping(config, **_):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sweep, "run_vision", stopping)
    run = small.runs()[0]
    assert sweep.main(["run", "small", run.key]) == sweep.STOPPED
    assert sweep.main(["work", "small"]) == sweep.STOPPED
    assert capsys.readouterr().err == 2 * "stopped; run again to continue\n"
    assert not sweep.failure("small", run.key).exists()


def test_a_worker_goes_on_after_a_run_that_fails(small, monkeypatch, capsys):
    def make(config, **_):
        if config == small.runs()[1].config:
            raise RuntimeError("no memory")
        return save_run(next(run for run in small.runs() if run.config == config))

    monkeypatch.setattr(sweep, "run_vision", make)
    assert sweep.main(["work", "small"]) == 1
    assert "no memory" in capsys.readouterr().err
    assert [s.stage for s in sweep.states(small)] == ["done", "failed", "done", "done"]


def test_a_worker_begins_no_run_after_its_hours(small):
    assert sweep.work(["small"], hours=0.0) == 0
    assert {s.stage for s in sweep.states(small)} == {"to do"}


def test_a_worker_leaves_out_what_stands_in_the_table_of_another_machine(small, made):
    first, *rest = small.runs()
    save_run(first)
    sweep.collect_study(small, partial=True)
    shutil.rmtree(store.run_folder("vision", first.key))
    assert sweep.work(["small"]) == 0
    assert made == [run.config for run in rest]
    assert set(load_study("small")["key"]) == {run.key for run in small.runs()}
