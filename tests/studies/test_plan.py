"""What a study will cost: counts, hours by hand, disk by hand; nothing is trained for good."""

import pytest
import torch
from click.testing import CliRunner
from sample_runs import TINY

from weince_lib.cli import main
from weince_lib.experiments import PROFILES, ConfigError, vision_config
from weince_lib.records import store
from weince_lib.runs import timing
from weince_lib.runs.frozen import features_bytes
from weince_lib.studies import grid, step_time, sweep
from weince_lib.studies.grid import Study
from weince_lib.studies.plan import plan, run_bytes
from weince_lib.studies.step_time import (
    RECORD_BYTES,
    SHAPES,
    Measured,
    expected_hours,
    measure,
    shape_of,
)
from weince_lib.vision import build_simclr


@pytest.fixture
def small(monkeypatch):
    """Six tiny runs, one of them done, one failed."""
    monkeypatch.setitem(PROFILES, "quick", TINY)
    methods = {"infonce": (grid.INFONCE, grid.Setting("infonce", 0.2)), "weince": (grid.WEINCE,)}
    made = Study("small", "Why?", "quick", methods, (("weince", "infonce"),), seeds=(7, 21))
    monkeypatch.setitem(grid.STUDIES, "small", made)
    done, failed = made.runs()[:2]
    metrics = [store.Metric("linear_accuracy", 90.0, "test", 1)]
    store.save("vision", done.config.canonical(), metrics, labels={}, started=0.0)
    sweep.folder("small").mkdir(parents=True)
    sweep.failure("small", failed.key).write_text("tau=0.2, seed 7: RuntimeError: why\n")
    return made


def test_hours_of_a_given_step_by_hand(small):
    made = plan(small, step_seconds=0.5)
    # 120 images in batches of 32 make 3 steps; 2 epochs.
    assert made.steps == 6
    assert made.run_hours == pytest.approx(3 / 3600)
    assert made.counts == {"done": 1, "failed": 1, "to do": 4}
    assert made.remaining == 5
    text = "\n".join(made.lines())
    assert "6 (3 settings x 2 encoder seeds): 1 done, 0 begun, 1 failed, 4 to do" in text
    assert "500.0 ms for 32 pairs (given)" in text
    assert "RuntimeError: why" in text
    assert "NOT ENOUGH" not in text


def test_disk_by_hand():
    config = vision_config("cpu")
    model = build_simclr(
        "resnet-small", channels=1, image_size=28, width=16, projection_dim=64, seed=0
    )
    numbers = sum(p.numel() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    features = (10_000 + 10_000) * 64 * 4
    # 10 epochs: weights are kept after 1, 2, 4 and 8 of them.
    assert config.epochs == 10
    kept = 4 * (4 * numbers + buffers)
    expected = 12 * numbers + buffers + kept + features + RECORD_BYTES
    assert run_bytes(config, shape_of(config)) == expected


def test_disk_of_a_run_that_was_made(tiny):
    config, record = tiny
    model = build_simclr(
        "resnet-small", channels=1, image_size=8, width=4, projection_dim=8, seed=0
    )
    files = [path for path in record.path.parent.iterdir() if path.is_file()]
    assert {path.name for path in files} >= {"checkpoint.safetensors", "epoch-001.safetensors"}
    weights = sum(path.stat().st_size for path in files if path.suffix == ".safetensors")
    full = shape_of(config)
    features = features_bytes(full.labelled, model.encoder.feature_dim)
    features += features_bytes(full.test, model.encoder.feature_dim)
    planned = run_bytes(config, full) - features - RECORD_BYTES
    # Beyond the numbers there are names: up to 40 kB a file, whatever its size.
    assert planned < weights < planned + len(files) * 40_000
    assert sum(path.stat().st_size for path in files) - weights < RECORD_BYTES


def test_too_little_disk_is_said(small, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Use", (), {"free": 10})())
    assert "NOT ENOUGH" in "\n".join(plan(small, step_seconds=1.0).lines())


def test_a_step_is_measured_and_leaves_nothing_behind(small):
    config = small.runs()[2].config
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    found = measure(config, shape_of(config))
    assert found.pairs == 32
    assert 0 < found.step_seconds < 60
    assert 0 < found.evaluation_seconds < 600
    assert found.kind == ("gpu" if torch.cuda.is_available() else "core")
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert not store.run_folder("vision", small.runs()[2].key).exists()


def test_steps_are_timed_as_a_study_makes_them(small, monkeypatch):
    """With the study's execution; and building the model is no part of a step."""
    config = small.runs()[2].config.model_copy(update={"width": 16})
    made, taken = [], []

    class Watched(timing.TrainingStep):
        def __init__(self, config, images, device, execution):
            made.append((config.batch_size, len(images), execution))
            super().__init__(config, images, device, execution)

        def __call__(self):
            taken.append(self.model)
            super().__call__()

    monkeypatch.setattr(step_time, "TrainingStep", Watched)
    measure(config, shape_of(config))
    assert made == [(n, n, sweep.execution(config)) for n in (16, 32)]
    assert made[0][2].channels_last
    assert [len({id(m) for m in taken[k : k + 4]}) for k in (0, 4)] == [1, 1]
    assert len(taken) == 8


def test_a_slow_step_is_scaled_from_a_smaller_batch(small, monkeypatch):
    monkeypatch.setattr(step_time, "STEP_LONG_ENOUGH", 0.0)
    config = small.runs()[0].config
    found = measure(config, shape_of(config))
    assert found.pairs == 16


def test_hours_of_a_run_follow_from_its_parts():
    parts = Measured(step_seconds=0.25, evaluation_seconds=90.0, pairs=1, kind="gpu", device="any")
    config = vision_config("colab", dataset="cifar10", epochs=50, batch_size=256, train_limit=0)
    assert expected_hours(config, parts) == pytest.approx((50 * 195 * 0.25 + 90) / 3600)
    shorter = vision_config("colab", dataset="cifar10", epochs=50, batch_size=256, train_limit=2560)
    assert expected_hours(shorter, parts) == pytest.approx((50 * 10 * 0.25 + 90) / 3600)


def test_limits_apply_to_the_images_they_limit():
    fashion = shape_of(vision_config("cpu"))
    assert (fashion.pretraining, fashion.labelled, fashion.test) == (10_000, 10_000, 10_000)
    assert set(grid.PAPER_ENCODERS) <= set(SHAPES)
    assert SHAPES["stl10"].pretraining == 100_000


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_step_time(small, seconds):
    with pytest.raises(ConfigError, match="positive"):
        plan(small, step_seconds=seconds)


def test_a_folder_of_images_has_no_size_beforehand():
    with pytest.raises(ConfigError, match="imagefolder:pets"):
        shape_of(vision_config("quick", dataset="imagefolder:pets"))


def test_command_prints_the_plan_and_lists_studies(small):
    result = CliRunner().invoke(main, ["plan", "small", "--step-ms", "500"])
    assert result.exit_code == 0, result.output
    assert "5 runs" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 96
    listed = CliRunner().invoke(main, ["plan"]).stdout
    assert all(name in listed for name in grid.STUDIES)
    unknown = CliRunner().invoke(main, ["plan", "smal"])
    assert unknown.exit_code == 1
    assert "cpu-fashion" in unknown.stderr
    assert len(unknown.stderr.splitlines()) == 1
