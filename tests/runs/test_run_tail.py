"""The tail of a frozen encoder as a record."""

import pytest
import torch

from weince_lib.experiments import TailConfig, run_tail, score_bank
from weince_lib.losses import PRESETS
from weince_lib.records import store
from weince_lib.studies.collect import collect, load_results, records_of


@pytest.fixture(scope="session")
def tail_config(tiny_runs):
    return TailConfig(encoder_run=tiny_runs[1], batches=2, batch_size=24, quantile=0.9, seed=3)


def test_bank_is_that_of_the_run(tiny, tail_config):
    bank = score_bank(tail_config)
    assert bank.scores.shape == (2, 48, 48)
    assert torch.equal(bank.scores, score_bank(tail_config).scores)
    other = score_bank(tail_config.model_copy(update={"seed": 4}))
    assert not torch.equal(bank.scores, other.scores)


def test_tail_is_recorded_once(tiny, tail_config, monkeypatch):
    _, run = tiny
    bank = score_bank(tail_config)
    record = run_tail(tail_config, bank, profile="quick")
    try:
        assert record.experiment == "tail"
        assert record.labels == run.labels | {"profile": record.labels["profile"]}
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

        def refuse(*args, **more):
            raise AssertionError("a finished fit was repeated")

        monkeypatch.setattr("weince_lib.runs.tail.fit_known_endpoint", refuse)
        before = record.path.stat().st_mtime_ns
        assert run_tail(tail_config, bank, profile="quick") == record
        assert record.path.stat().st_mtime_ns == before
    finally:
        record.path.unlink()


def test_tail_at_another_threshold_is_not_mixed_into_the_table(tiny, tail_config):
    # Rows with the same labels count as replicates of one number, and are averaged.
    bank = score_bank(tail_config)
    other = tail_config.model_copy(update={"quantile": 0.8})
    made = [run_tail(config, bank, profile="quick") for config in (tail_config, other)]
    try:
        collect(records_of("quick"), "quick")
        table = load_results("quick")
        labels = [name for name in table.columns if name not in ("key", "value", "low", "high")]
        assert not table.duplicated(labels).any()
    finally:
        for record in made:
            record.path.unlink()


def test_tail_of_an_encoder_that_was_not_trained_is_an_error(tiny, tail_config):
    run = tail_config.encoder_run.model_copy(update={"seed": 8})
    with pytest.raises(FileNotFoundError, match="06_train_vision"):
        score_bank(tail_config.model_copy(update={"encoder_run": run}))


@pytest.mark.parametrize(
    "changed", [{"batches": 3}, {"batch_size": 25}, {"quantile": 0.95}, {"seed": 4}], ids=str
)
def test_tail_key_changes_with_every_setting(tail_config, changed):
    other = tail_config.model_copy(update=changed)
    keys = {store.content_key("tail", config.canonical()) for config in (tail_config, other)}
    assert len(keys) == 2


@pytest.mark.parametrize(
    "wrong", [{"batches": 0}, {"batch_size": 1}, {"quantile": 1.0}, {"quantile": 0.0}, {"sed": 1}]
)
def test_tail_config_refuses_what_makes_no_bank(tail_config, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TailConfig(**{"encoder_run": tail_config.encoder_run} | wrong)
