"""Tail, link selection and gradient allocation of a run as records; weights along training."""

import math

import numpy as np
import pytest
import torch

from weince_lib.diagnostics.link_selection import select_link
from weince_lib.experiments import (
    AllocationConfig,
    ConfigError,
    LinkConfig,
    TailConfig,
    allocation_config,
    link_choices,
    link_config,
    models_along_training,
    run_allocation,
    run_link,
    run_link_epochs,
    run_tail,
    score_bank,
    training_images,
)
from weince_lib.losses import PRESETS
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


@pytest.fixture(scope="session")
def small_tail(tiny_runs):
    return TailConfig(encoder_run=tiny_runs[1], batches=2, batch_size=24, quantile=0.9, seed=3)


@pytest.fixture(autouse=True)
def easy_views(monkeypatch):
    """Two views so alike that even the tiny encoder finds the positive."""

    def views(batch, generator):
        x = batch.float() / 255
        return tuple(x + 0.15 * torch.randn(x.shape, generator=generator) for _ in range(2))

    monkeypatch.setattr("weince_lib.runs.on_encoder.augmentation", lambda dataset: views)


@pytest.fixture
def made(tiny):
    """Keeps the shared folder clean: records appended here are removed after the test."""
    records = []
    yield records
    for record in records:
        record.path.unlink()


def test_tail_is_recorded_once(tiny, small_tail, made, monkeypatch):
    _, run = tiny
    bank = score_bank(small_tail)
    assert bank.scores.shape == (2, 48, 48)
    record = run_tail(small_tail, bank, profile="quick")
    made.append(record)
    assert record.experiment == "tail"
    assert record.labels == run.labels
    assert record.config["encoder_run"] == run.config
    negatives = bank.negatives().double().numpy()
    assert record.details["pairs"] == negatives.size == 2 * (48 * 47 // 2 - 24)
    assert record.metric("threshold") <= negatives.max()
    assert record.metric("exceedances") == (negatives > record.metric("threshold")).sum()
    known = next(m for m in record.metrics if m.name == "known_endpoint_shape")
    assert known.low < known.value < known.high < 0
    for name in PRESETS:
        assert 0 <= record.metric(f"mean_lambda_{name}") <= 1
    has_shape = any(m.name == "gpd_shape" for m in record.metrics)
    assert has_shape == (record.details["regime"] != "unbounded")
    over = negatives[negatives > record.metric("threshold")] - record.metric("threshold")
    above = math.exp(-(1 - record.metric("threshold")) / over.mean())
    assert record.metric("exponential_share_above_cap") == pytest.approx(above)
    names = {m.name for m in record.metrics}
    assert has_shape == ("endpoint_minus_cap" in names) == ("quantile_miss_ratio" in names)
    monkeypatch.setattr("weince_lib.runs.tail.fit_known_endpoint", None)
    assert run_tail(small_tail, bank, profile="quick") == record


def test_tail_at_another_threshold_is_not_mixed_into_the_table(small_tail, made):
    # Rows with the same labels count as replicates of one number, and are averaged.
    bank = score_bank(small_tail)
    other = small_tail.model_copy(update={"quantile": 0.8})
    made += [run_tail(config, bank, profile="quick") for config in (small_tail, other)]
    collect(records_of("quick"), "quick")
    table = load_results("quick")
    labels = [name for name in table.columns if name not in ("key", "value", "low", "high")]
    assert not table.duplicated(labels).any()


def test_tail_of_an_encoder_that_was_not_trained_is_an_error(tiny, small_tail):
    run = small_tail.encoder_run.model_copy(update={"seed": 8})
    with pytest.raises(FileNotFoundError, match="06_train_vision"):
        score_bank(small_tail.model_copy(update={"encoder_run": run}))


@pytest.mark.parametrize(
    "changed", [{"batches": 3}, {"batch_size": 25}, {"quantile": 0.95}, {"seed": 4}], ids=str
)
def test_key_and_bank_change_with_the_settings(tiny, small_tail, changed):
    other = small_tail.model_copy(update=changed)
    keys = {store.content_key("tail", config.canonical()) for config in (small_tail, other)}
    assert len(keys) == 2
    same = torch.equal(score_bank(other).scores, score_bank(small_tail).scores)
    assert same == ("quantile" in changed)


@pytest.mark.parametrize(
    "wrong", [{"batches": 0}, {"batch_size": 1}, {"quantile": 1.0}, {"quantile": 0.0}, {"sed": 1}]
)
def test_tail_config_refuses_what_makes_no_bank(small_tail, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TailConfig(**{"encoder_run": small_tail.encoder_run} | wrong)


def test_link_is_recorded_once_with_its_interval(tiny, small_link, made, monkeypatch):
    record = run_link(small_link, profile="quick")
    made.append(record)
    found = select_link(link_choices(small_link), seed=3)
    gain = next(m for m in record.metrics if m.name == "held_out_gain")
    interval = found.gain.interval
    assert (gain.value, gain.low, gain.high) == (interval.mean, interval.low, interval.high)
    assert record.metric("lambda_hat") == pytest.approx(found.h1.value)
    assert record.metric("gain_blend") == pytest.approx(interval.mean, abs=1e-6)
    assert record.labels["seed"] == tiny[1].labels["seed"]
    # Not the profile's own measurement: in no table.
    assert record.labels["profile"] == "custom"
    assert len(record.details["simulated_ratios"]) == 19
    assert set(record.details["ablations"]) == {"winner_kept", "by_rank", "simulated"}
    monkeypatch.setattr("weince_lib.runs.link.link_choices", None)
    assert run_link(small_link, profile="quick") == record


def test_own_measurement_is_collected_with_one_row_a_seed(small_link, made, monkeypatch):
    monkeypatch.setattr(LinkConfig, "of", classmethod(lambda cls, run, profile: small_link))
    other = small_link.model_copy(update={"seed": 4})
    made += [run_link_epochs(config, profile="quick") for config in (small_link, other)]
    collect(records_of("quick"), "quick")
    table = load_results("quick")
    rows = table[table.experiment == "link-epochs"]
    assert set(rows["key"]) == {made[0].key}
    epochs = rows[rows.metric == "gain_at_epoch"]["replicate"].tolist()
    assert epochs == [1, small_link.encoder_run.epochs]
    assert made[0].details["epochs"][0]["epoch"] == 0


def test_allocation_is_recorded_once(small_allocation, made):
    record = run_allocation(small_allocation, profile="quick")
    made.append(record)
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


@pytest.mark.parametrize(
    ("build", "settings", "word"),
    [
        (link_config, {"batches": 3}, "batches = 3"),
        (link_config, {"fold": 5}, "unknown setting 'fold'"),
        (allocation_config, {"sizes": ()}, "sizes"),
        (allocation_config, {"pairs": 512}, "take pairs = 513 or more"),
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


def test_a_run_keeps_its_weights_along_training(tiny):
    config, record = tiny
    images = training_images(config)
    kept = load_checkpoint(snapshot_path(record.folder / CHECKPOINT, 1))
    assert len(kept["history"]) == 1
    assert not any(math.isnan(row["loss"]) for row in kept["history"])
    models = models_along_training(config, images)
    assert list(models) == [0, 1, 2]
    states = [torch.cat([p.flatten() for p in m.parameters()]) for m in models.values()]
    assert not torch.equal(states[0], states[1])
    last = load_checkpoint(record.folder / CHECKPOINT)["model"]
    for epoch, weights in ((1, kept["model"]), (2, last)):
        found = models[epoch].state_dict()
        assert all(torch.equal(value, weights[name]) for name, value in found.items())
