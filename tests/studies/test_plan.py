"""What a study will cost: counts, hours by hand, disk by hand; nothing is trained for good."""

import shutil

import pytest
import torch
from click.testing import CliRunner
from sample_runs import TINY

from weince_lib.cli import main
from weince_lib.experiments import PROFILES, ConfigError, vision_config
from weince_lib.records import store
from weince_lib.runs import fastest
from weince_lib.runs.text_config import text_config
from weince_lib.studies import grid, sweep
from weince_lib.studies import plan as planning
from weince_lib.studies.grid import Study
from weince_lib.studies.plan import (
    RECORD_BYTES,
    SHAPES,
    Measured,
    expected_hours,
    measure,
    plan,
    require_gpu,
    run_bytes,
    shape_of,
    steps_of,
)
from weince_lib.studies.study_types import execution
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


def test_hours_of_a_given_step_by_hand(small, monkeypatch):
    text = "\n".join(plan(small, step_seconds=450.0))
    assert "6 (3 settings x 2 encoder seeds): 1 done, 0 begun, 1 failed, 4 to do" in text
    assert "450,000.0 ms for 32 pairs (given)" in text
    # 120 images in batches of 32 make 3 steps; 2 epochs.
    assert "2 epochs, 6 steps: 0.75 core-hours, 0.00 of them evaluation" in text
    assert "5 runs: 3.8 core-hours" in text
    assert "RuntimeError: why" in text
    assert "NOT ENOUGH" not in text
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Use", (), {"free": 10})())
    assert "NOT ENOUGH" in "\n".join(plan(small, step_seconds=1.0))


def test_what_stands_in_the_committed_table_is_done(small):
    """As in a fresh clone, which has the table and no record."""
    sweep.collect_study(small, partial=True)
    shutil.rmtree(store.run_folder("vision", small.runs()[0].key))
    assert "1 done, 0 begun, 1 failed, 4 to do" in plan(small, step_seconds=0.5)[1]


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
    assert run_bytes(config) == 12 * numbers + buffers + kept + features + RECORD_BYTES


def test_a_step_is_timed_as_a_study_makes_it_and_leaves_nothing_behind(small, monkeypatch):
    """With the study's execution; and building the model is no part of a step."""
    config = small.runs()[2].config.model_copy(update={"width": 16})
    made, taken = [], []

    class Watched(fastest.TrainingStep):
        def __init__(self, config, images, device, execution):
            made.append((config.batch_size, len(images), execution))
            super().__init__(config, images, device, execution)

        def __call__(self):
            taken.append(self.model)
            super().__call__()

    monkeypatch.setattr(planning, "TrainingStep", Watched)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    found = measure(config)
    assert found.pairs == 32
    assert 0 < found.step_seconds < 60
    assert 0 < found.evaluation_seconds < 600
    assert made == [(n, n, execution(config)) for n in (16, 32)]
    assert made[0][2].channels_last
    assert [len({id(m) for m in taken[k : k + 4]}) for k in (0, 4)] == [1, 1]
    assert len(taken) == 8
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert not store.run_folder("vision", small.runs()[2].key).exists()


def test_a_slow_step_is_scaled_from_a_smaller_batch(small, monkeypatch):
    monkeypatch.setattr(planning, "STEP_LONG_ENOUGH", 0.0)
    assert measure(small.runs()[0].config).pairs == 16


def test_hours_of_a_run_follow_from_its_parts():
    parts = Measured(step_seconds=0.25, evaluation_seconds=90.0, pairs=1, kind="gpu", device="any")
    config = vision_config("colab", dataset="cifar10", epochs=50, batch_size=256, train_limit=0)
    assert expected_hours(config, parts) == pytest.approx((50 * 195 * 0.25 + 90) / 3600)
    shorter = vision_config("colab", dataset="cifar10", epochs=50, batch_size=256, train_limit=2560)
    assert expected_hours(shorter, parts) == pytest.approx((50 * 10 * 0.25 + 90) / 3600)
    assert steps_of(text_config("paper")) == 1_000_000 // 64
    assert steps_of(text_config("quick", train_limit=256)) == 3 * 2


def test_a_sentence_run_is_timed_on_random_tokens():
    pytest.importorskip("tokenizers")
    state = torch.get_rng_state()
    found = measure(text_config("quick"))
    assert found.pairs == 128
    assert 0 < found.step_seconds < 60 and 0 < found.evaluation_seconds < 600
    assert run_bytes(text_config("quick")) > RECORD_BYTES
    torch.set_rng_state(state)


def test_limits_apply_to_the_images_they_limit():
    fashion = shape_of(vision_config("cpu"))
    assert (fashion.pretraining, fashion.labelled, fashion.test) == (10_000, 10_000, 10_000)
    assert set(grid.PAPER_ENCODERS) <= set(SHAPES)
    assert SHAPES["stl10"].pretraining == 100_000


@pytest.mark.parametrize("seconds", [0.0, float("inf"), float("nan")])
def test_bad_step_time(small, seconds):
    with pytest.raises(ConfigError, match="positive"):
        plan(small, step_seconds=seconds)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (vision_config("quick", dataset="imagefolder:pets"), "imagefolder:pets"),
        (text_config("quick", corpus="hub:pets"), "hub:pets"),
    ],
)
def test_what_has_no_size_beforehand_is_named(config, name):
    with pytest.raises(ConfigError, match=f"no size known of '{name}'; known: "):
        expected_hours(config)


def test_command_prints_the_plan_and_lists_studies(small):
    result = CliRunner().invoke(main, ["plan", "small", "--step-ms", "500"])
    assert result.exit_code == 0, result.output
    assert "5 runs" in result.stdout
    listed = CliRunner().invoke(main, ["plan"]).stdout
    assert all(name in listed for name in grid.STUDIES)
    unknown = CliRunner().invoke(main, ["plan", "smal"])
    assert unknown.exit_code == 1
    assert "cpu-fashion" in unknown.stderr
    assert len(unknown.stderr.splitlines()) == 1


def test_only_colab_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    require_gpu("cpu")
    with pytest.raises(ConfigError, match=r"no GPU here; choose one under Runtime > Change"):
        require_gpu("colab")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_gpu("colab")
