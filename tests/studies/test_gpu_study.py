"""The study's command on a few images and a small encoder: records, resuming, errors."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weince_lib import paths
from weince_lib.experiments import training_images, vision_config
from weince_lib.records import store
from weince_lib.runs.config import is_own
from weince_lib.runs.timing import StepTimes
from weince_lib.studies import gpu_study
from weince_lib.training import TrainingInterrupted
from weince_lib.vision import training

SMALL = ["--epochs", "2", "--encoder", "resnet-small", "--batch-size", "32", "--probe-epochs", "2"]
SMALL += ["--precision", "float32", "--steps", "1", "--device", "cpu"]


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """70 and 10 images of 8 x 8 in two classes, packed as the CIFAR-10 copy is."""
    random = np.random.default_rng(0)
    for split, count in (("train", 70), ("test", 10)):
        for label in ("cat", "dog"):
            folder = tmp_path / "set" / split / label
            folder.mkdir(parents=True)
            for k in range(count // 2):
                pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{k:04d}.png")
    path = tmp_path / "set.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for split in ("train", "test"):
            packed.add(tmp_path / "set" / split, split)
    home = tmp_path / "home"
    (home / "notebooks").mkdir(parents=True)
    monkeypatch.setenv("WEINCE_HOME", str(home))
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "runs"))
    return path


def study(archive: Path, *more: str) -> tuple[list[store.Record], list[str]]:
    lines: list[str] = []
    options = gpu_study.parser().parse_args([str(archive), *SMALL, *more])
    return gpu_study.run_study(options, lines.append), lines


def test_one_command_times_trains_and_evaluates_both_losses(archive):
    (timing, infonce, weince), lines = study(archive)
    assert (infonce.labels["loss"], weince.labels["loss"]) == ("infonce", "weince")
    assert infonce.config["dataset"] == "imagefolder:data/cifar10-jpeg"
    assert len(infonce.details["history"]) == 2
    for record in (infonce, weince):
        assert 0 <= record.metric("knn_accuracy", "test") <= 100
    names = {metric.name for metric in timing.metrics}
    assert {"step_ms_infonce", "loss_stage_ms_weince", "step_overhead_percent_weince"} <= names
    assert all(record.labels["profile"] == "custom" for record in (timing, infonce, weince))
    assert any("knn_accuracy" in line for line in lines)
    # The same command again finds the runs; another seed is another run.
    (_, again, _), _ = study(archive)
    assert again == infonce
    (_, other), _ = study(archive, "--seed", "21", "--losses", "infonce")
    assert other.key != infonce.key
    assert len(list(store.record_files(paths.runs()))) == 5


def test_a_study_that_is_stopped_continues(archive, monkeypatch, capsys):
    def stop(*args, **more):
        gpu_study._ask_to_stop()
        return train_step(*args, **more)

    train_step = training.train_step
    with monkeypatch.context() as patch:
        patch.setattr(training, "train_step", stop)
        assert gpu_study.main([str(archive), *SMALL, "--losses", "infonce"]) == 75
    assert "run again to continue" in capsys.readouterr().err
    taken = []

    def counted(*args, **more):
        taken.append(None)
        return train_step(*args, **more)

    monkeypatch.setattr(training, "train_step", counted)
    study(archive, "--losses", "infonce")
    assert len(taken) == 2 * 2 - 1  # one step was done


@pytest.mark.parametrize("part", ["unpack", "timing_record", "load_images"])
def test_a_stop_outside_training_is_one_line(part, archive, monkeypatch, capsys):
    def stop(*args, **more):
        gpu_study._ask_to_stop()
        return []

    monkeypatch.setattr(gpu_study, part, stop)
    assert gpu_study.main([str(archive), *SMALL, "--losses", "infonce"]) == 75
    assert capsys.readouterr().err == "stopped; run again to continue\n"


def test_the_defaults_are_the_profiles_own_runs(archive):
    options = gpu_study.parser().parse_args([str(archive)])
    configs = gpu_study.study_configs(options, f"imagefolder:{gpu_study.FOLDER}")
    assert list(configs) == ["infonce", "weince"]
    for name, config in configs.items():
        assert config == vision_config("gpu", loss=name, seed=7)
        assert is_own(config, "gpu")
        assert (config.encoder, config.epochs, config.batch_size) == ("resnet18", 100, 256)


def test_overhead_is_relative_to_infonce():
    times = {"infonce": StepTimes(0.010, 0.001), "weince": StepTimes(0.0101, 0.0012)}
    found = {metric.name: metric.value for metric in gpu_study.step_metrics(times)}
    assert found["step_ms_infonce"] == pytest.approx(10.0)
    assert found["loss_stage_ms_weince"] == pytest.approx(1.2)
    assert found["step_overhead_percent_weince"] == pytest.approx(1.0)


def test_another_archive_is_not_taken_for_the_one_that_was_unpacked(archive, tmp_path, capsys):
    assert gpu_study.unpack(archive) == f"imagefolder:{gpu_study.FOLDER}"
    assert gpu_study.unpack(archive) == f"imagefolder:{gpu_study.FOLDER}"
    other = tmp_path / "other.tar"
    with tarfile.open(other, "w") as packed:
        for split in ("train", "test"):
            packed.add(tmp_path / "set" / split, split)
    assert gpu_study.main([str(other), *SMALL]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(other) in said and "another archive" in said
    archive.unlink()  # once unpacked, the archive may go
    assert gpu_study.unpack(archive) == f"imagefolder:{gpu_study.FOLDER}"


def test_a_data_folder_elsewhere_gets_the_images_and_gives_them(archive, tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "large disk"))
    name = gpu_study.unpack(archive)
    assert (tmp_path / "large disk" / "cifar10-jpeg" / "train").is_dir()
    assert len(training_images(vision_config("gpu", dataset=name, train_limit=4))) == 4


@pytest.mark.parametrize("kind", ["missing", "no archive", "cut", "flipped", "empty"])
def test_bad_archives_are_one_line(kind, archive, tmp_path, capsys):
    path = tmp_path / "other.tar.gz"
    if kind == "no archive":
        path.write_text("no archive")
    elif kind == "cut":
        path.write_bytes(archive.read_bytes()[:2000])
    elif kind == "flipped":  # whole in length, but its checksum does not fit
        content = bytearray(archive.read_bytes())
        content[-6] ^= 255
        path.write_bytes(content)
    elif kind == "empty":
        tarfile.open(path, "w:gz").close()
    assert gpu_study.main([str(path), *SMALL]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert str(path) in said
    assert said.count("\n") == 1
    assert not (paths.root() / gpu_study.FOLDER).exists()


def test_a_time_limit_stops_like_a_signal(archive, monkeypatch):
    # On a busy machine the limit may come before the training that turns it into its own stop.
    with pytest.raises((TrainingInterrupted, KeyboardInterrupt)):
        study(archive, "--minutes", "0.02", "--epochs", "100000", "--losses", "infonce")
