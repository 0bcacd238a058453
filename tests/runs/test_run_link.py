"""Link selection and gradient allocation of a run as records; weights along training."""

import math

import numpy as np
import pytest
import torch

from weince_lib.diagnostics.link_selection import select_link
from weince_lib.experiments import (
    AllocationConfig,
    ConfigError,
    LinkConfig,
    allocation_config,
    link_choices,
    link_config,
    models_along_training,
    run_allocation,
    run_link,
    run_link_epochs,
    training_images,
)
from weince_lib.records import store
from weince_lib.runs.vision import CHECKPOINT
from weince_lib.studies.collect import collect, load_results, records_of
from weince_lib.training import load_checkpoint
from weince_lib.vision.training import snapshot_path


@pytest.fixture(scope="session")
def small_link(tiny_runs):
    return LinkConfig(
        encoder_run=tiny_runs[1], batches=8, batch_size=24, folds=2, repetitions=19, seed=3
    )


@pytest.fixture(scope="session")
def small_allocation(tiny_runs):
    return AllocationConfig(
        encoder_run=tiny_runs[1], pairs=60, anchors=20, sizes=(34, 60, 100), draws=3
    )


def slightly_noisy(dataset):
    """Two views so alike that even the tiny encoder finds the positive."""

    def views(batch, generator):
        x = batch.float() / 255
        return tuple(x + 0.15 * torch.randn(x.shape, generator=generator) for _ in range(2))

    return views


@pytest.fixture(autouse=True)
def easy_views(monkeypatch):
    monkeypatch.setattr("weince_lib.runs.on_encoder.augmentation", slightly_noisy)


def test_link_is_recorded_once_with_its_interval(tiny, small_link, monkeypatch):
    _, run = tiny
    record = run_link(small_link, profile="quick")
    try:
        found = select_link(link_choices(small_link), seed=3)
        assert record.metric("held_out_gain") == pytest.approx(found.gain.interval.mean)
        gain = next(m for m in record.metrics if m.name == "held_out_gain")
        assert (gain.low, gain.high) == (found.gain.interval.low, found.gain.interval.high)
        assert record.metric("lambda_hat") == pytest.approx(found.h1.value)
        assert record.metric("gain_blend") == pytest.approx(found.gain.interval.mean, abs=1e-6)
        assert record.labels["seed"] == run.labels["seed"]
        # Not the profile's own measurement: in no table.
        assert record.labels["profile"] == "custom"
        assert len(record.details["simulated_ratios"]) == 19
        assert set(record.details["ablations"]) == {"winner_kept", "by_rank", "simulated"}
        monkeypatch.setattr("weince_lib.runs.link.link_choices", None)
        assert run_link(small_link, profile="quick") == record
    finally:
        record.path.unlink()


def test_own_measurement_is_collected_with_one_row_a_seed(tiny, small_link, monkeypatch):
    monkeypatch.setattr(LinkConfig, "of", classmethod(lambda cls, run, profile: small_link))
    made = [run_link_epochs(small_link, profile="quick")]
    other = small_link.model_copy(update={"seed": 4})
    made.append(run_link_epochs(other, profile="quick"))
    try:
        collect(records_of("quick"), "quick")
        table = load_results("quick")
        rows = table[table.experiment == "link-epochs"]
        assert set(rows["key"]) == {made[0].key}
        epochs = rows[rows.metric == "gain_at_epoch"]["replicate"].tolist()
        assert epochs == [1, small_link.encoder_run.epochs]
        assert made[0].details["epochs"][0]["epoch"] == 0
    finally:
        for record in made:
            record.path.unlink()


def test_allocation_is_recorded_once(tiny, small_allocation):
    record = run_allocation(small_allocation, profile="quick")
    try:
        assert 0 < record.metric("lost_k60") <= 1
        for size in small_allocation.sizes:
            shares = record.details["sizes"][str(size)]
            assert {"risk", "infonce", "weibit", "weince", "infonce-fitted"} <= set(shares)
            for values in shares.values():
                assert sum(values) == pytest.approx(1, abs=1e-4)
            by_hand = 0.5 * np.abs(np.subtract(shares["infonce"], shares["risk"])).sum()
            assert record.metric(f"tv_infonce_k{size}") == pytest.approx(by_hand, abs=1e-4)
        difference = record.metric("tv_infonce_k60") - record.metric("tv_weibit_k60")
        assert record.metric("weibit_nearer_than_infonce_k60") == pytest.approx(difference)
        assert record.labels["profile"] == "custom"
        assert run_allocation(small_allocation, profile="quick") == record
    finally:
        record.path.unlink()


@pytest.mark.parametrize(
    ("build", "settings", "word"),
    [
        (link_config, {"batches": 3}, "batches = 3"),
        (link_config, {"fold": 5}, "unknown setting 'fold'"),
        (allocation_config, {"sizes": ()}, "sizes"),
    ],
)
def test_wrong_settings_are_named(tiny, build, settings, word):
    with pytest.raises(ConfigError, match=word):
        build(tiny[0], "quick", **settings)
    assert build(tiny[0], "quick", seed="auto").seed == 0


def test_quick_measures_less_than_cpu(tiny):
    quick, cpu = (LinkConfig.of(tiny[0], p) for p in ("quick", "cpu"))
    assert (quick.batches, quick.every, cpu.batches, cpu.every) == (16, 4, 32, 1)
    assert cpu.batch_size == tiny[0].batch_size
    keys = {store.content_key("link", c.canonical()) for c in (quick, cpu)}
    assert len(keys) == 2


# Weights along training -------------------------------------------------------------------------


def test_a_run_keeps_its_weights_along_training_and_makes_up_for_lost_ones(tiny):
    config, record = tiny
    images = training_images(config)
    kept = snapshot_path(record.folder / CHECKPOINT, 1)
    assert kept.exists()
    before = load_checkpoint(kept)
    assert len(before["history"]) == 1
    models = models_along_training(config, images)
    assert list(models) == [0, 1, 2]
    states = [torch.cat([p.flatten() for p in m.parameters()]) for m in models.values()]
    assert not torch.equal(states[0], states[1])
    assert not torch.equal(states[1], states[2])
    last = load_checkpoint(record.folder / CHECKPOINT)["model"]
    for name, value in models[2].state_dict().items():
        assert torch.equal(value, last[name])
    kept.unlink()
    models_along_training(config, images)
    again = load_checkpoint(kept)
    for name, value in before["model"].items():
        assert torch.equal(value, again["model"][name])
    assert not any(math.isnan(row["loss"]) for row in again["history"])
