"""The command for one GPU: unpacks, plans and makes the runs of a seed."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from weince_lib.experiments import gpu_study, vision_config
from weince_lib.runs.config import is_own
from weince_lib.studies import sweep
from weince_lib.studies.grid import study
from weince_lib.vision.datasets import cifar10_jpeg


@pytest.fixture
def made(monkeypatch, tmp_path):
    """What was made, with the archive's check, the plan and training replaced."""
    made = []
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cifar10_jpeg, "unpack", lambda archive, data: made.append(archive.name))
    monkeypatch.setattr(gpu_study, "plan", lambda chosen: ["planned"])

    def run(name, key):
        made.append(study(name).run(key).config)
        return SimpleNamespace(metric=lambda metric, split: 50.0, path="record.json")

    monkeypatch.setattr(sweep, "run_one", run)
    return made


def test_the_runs_of_a_seed_are_those_of_the_profile(made, capsys):
    assert gpu_study.main(["set.tar.gz", "--seed", "21"]) == 0
    archive, *configs = made
    assert archive == "set.tar.gz"
    assert configs == [vision_config("gpu", loss=loss, seed=21) for loss in ("infonce", "weince")]
    assert all(is_own(config, "gpu") for config in configs)
    assert {(c.encoder, c.epochs, c.batch_size, c.precision) for c in configs} == {
        ("resnet18", 100, 256, "bfloat16")
    }
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "planned" and "knn_accuracy 50.00 %" in lines[1]


def test_errors_and_stops_are_one_line(made, monkeypatch, tmp_path, capsys):
    assert gpu_study.main(["set.tar.gz", "--seed", "1"]) == 1
    assert capsys.readouterr().err == "Error: study gpu-cifar has no seed 1; it has 7, 21, 63, 84\n"
    monkeypatch.setattr(sweep, "run_one", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert gpu_study.main(["set.tar.gz"]) == sweep.STOPPED
    assert capsys.readouterr().err == "stopped; run again to continue\n"
    monkeypatch.undo()
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "data"))
    other = tmp_path / "other.tar.gz"
    other.write_text("no archive")
    for archive in (other, tmp_path / "none.tar.gz"):
        assert gpu_study.main([str(archive)]) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and str(archive) in said
