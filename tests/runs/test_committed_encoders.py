"""Committed encoders are verified, read before anything is trained, and trained anew when asked."""

import hashlib
import json
import os
import shutil

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.torch import save

from weince_lib.cli import main
from weince_lib.experiments import (
    EncoderError,
    TailConfig,
    VisionConfig,
    frozen_model,
    frozen_models,
    paths,
    ready_encoder,
    run_tail,
    run_vision,
    score_bank,
    train_anew,
    training_images,
    vision_config,
)
from weince_lib.records import record_lines, store
from weince_lib.runs import encoders
from weince_lib.studies.collect import collect, load_results, load_table, records_of, rows


@pytest.fixture
def run(tiny, tmp_path, monkeypatch):
    """A finished run of the test's own, and what trains it."""
    folder = tmp_path / "runs"
    shutil.copytree(tiny[1].folder, folder / "vision" / tiny[1].key)
    monkeypatch.setenv("WEINCE_RUNS", str(folder))
    return vision_config("quick", loss="infonce")


@pytest.fixture
def infonce(run):
    """Config of an InfoNCE encoder that is committed and has no run."""
    weights = encoders.commit_encoder(run)
    shutil.rmtree(paths.runs())
    assert weights.parent.parent == paths.encoders()
    return run


@pytest.fixture
def no_training(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("weince_lib.runs.vision.train", fail)


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_weights_are_those_that_were_trained(run):
    images = training_images(run)
    record = run_vision(run, profile="quick", device="cpu")
    assert ready_encoder(run, profile="quick") == record  # none is committed yet
    last, along = frozen_model(run, images), frozen_models(run, images)
    encoders.commit_encoder(run)
    shutil.rmtree(paths.runs())
    held = ready_encoder(run, profile="quick", along_training=True)
    assert (held.key, held.config, held.metrics) == (record.key, record.config, record.metrics)
    assert same(frozen_model(run, images), last)
    found = frozen_models(run, images)
    assert list(found) == list(along) == [0, 1, 2]
    assert all(same(found[epoch], along[epoch]) for epoch in along)
    assert not paths.runs().exists()


def damage(weights):
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)


HARMS = {
    "damaged": damage,
    "cut short": lambda weights: weights.write_bytes(weights.read_bytes()[:1000]),
    "weights missing": lambda weights: weights.unlink(),
    "record missing": lambda weights: weights.with_suffix(".json").unlink(),
    "record broken": lambda weights: weights.with_suffix(".json").write_text("{"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_or_missing_file_is_one_line_with_the_mend(infonce, no_training, harm):
    key = encoders.key_of(infonce)
    weights = encoders.weights_path(key)
    wanted = sha256(weights)
    HARMS[harm](weights)
    for use in (
        lambda: ready_encoder(infonce, profile="quick"),
        lambda: frozen_model(infonce, None),
        encoders.committed_records,
    ):
        with pytest.raises(EncoderError) as error:
            use()
        message = str(error.value)
        assert "\n" not in message
        assert message.endswith(f"weince encoders --make {key}")
        if harm in ("damaged", "cut short"):
            assert sha256(weights)[:16] in message and wanted[:16] in message


@pytest.mark.parametrize(
    "parts", [(".safetensors",), (".json",), (".safetensors", ".json"), ("hash",)]
)
def test_encoder_of_another_run_is_named_with_both_keys(infonce, parts):
    other = infonce.model_copy(update={"seed": 8})
    foreign, own = encoders.commit_encoder(other), encoders.weights_path(encoders.key_of(infonce))
    if parts == ("hash",):  # both files say that they belong together
        shutil.copy(foreign, own)
        about = json.loads(own.with_suffix(".json").read_text())
        about["details"]["encoder"]["sha256"] = sha256(foreign)
        own.with_suffix(".json").write_text(json.dumps(about))
    else:
        for suffix in parts:
            shutil.copy(foreign.with_suffix(suffix), own.with_suffix(suffix))
    with pytest.raises(EncoderError) as error:
        ready_encoder(infonce, profile="quick")
    for key in (own.stem, foreign.stem):
        assert key in str(error.value)


def test_missing_epochs_are_said_before_any_work(run, no_training):
    weince = vision_config("quick", loss="weince")
    encoders.commit_encoder(weince)
    assert ready_encoder(weince, profile="quick").config["loss"] == "weince"
    with pytest.raises(EncoderError, match=r"epochs \[1\].*retrain True"):
        ready_encoder(weince, profile="quick", along_training=True)


# Trained anew ------------------------------------------------------------------------------------


@pytest.fixture
def anew(monkeypatch):
    """Train anew, and forget it after the test."""
    for name in paths.RETRAINED_VARIABLES:
        monkeypatch.setenv(name, os.environ[name])
    return train_anew


def test_trained_anew_goes_to_a_folder_of_its_own(infonce, anew):
    retrained = paths.runs() / "retrained"
    assert anew() == anew() == retrained  # twice is once
    record = ready_encoder(infonce, profile="quick")
    assert record.path.is_relative_to(retrained / "vision")
    assert list(store.record_files(retrained.parent)) == []  # none that a table would take
    assert paths.figures().is_relative_to(retrained)


def test_finished_run_is_not_trained_again(run, anew, no_training):
    weince = vision_config("quick", loss="weince")
    finished = store.find("vision", weince.canonical())
    anew()
    again = ready_encoder(weince, profile="quick")
    assert again == finished
    assert again.path != finished.path
    frozen_models(weince, training_images(weince))


# What is measured on them ------------------------------------------------------------------------


def another_encoder(weights):
    """Put other weights under the same key, as another processor would train them."""
    with safe_open(weights, framework="pt") as file:
        header = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    generator = torch.Generator().manual_seed(0)
    for value in tensors.values():
        if value.is_floating_point() and value.ndim > 1:
            value += 0.05 * torch.randn(value.shape, generator=generator)
    weights.write_bytes(save(tensors, header))
    about = json.loads(weights.with_suffix(".json").read_text())
    about["details"]["encoder"]["sha256"] = sha256(weights)
    weights.with_suffix(".json").write_text(json.dumps(about))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def measured(config):
    tail = TailConfig(encoder_run=config, batches=4, batch_size=24)
    return run_tail(tail, score_bank(tail), profile="quick")


def test_measurement_names_the_encoder_and_is_made_again_for_another(infonce):
    first = measured(infonce)
    weights = encoders.weights_path(encoders.key_of(infonce))
    sha = sha256(weights)
    assert first.details["encoder"] == {"sha256": sha}
    assert json.loads(record_lines.record_line(first))["encoder"] == {"sha256": sha}
    stamp = first.path.stat().st_mtime_ns
    assert measured(infonce) == first
    assert first.path.stat().st_mtime_ns == stamp

    another_encoder(weights)
    assert not encoders.is_current(first)
    assert first.path not in records_of("quick")
    again = measured(infonce)
    assert again.key == first.key
    assert again.details["encoder"] != first.details["encoder"]
    assert again.metric("known_endpoint_shape") != first.metric("known_endpoint_shape")


def test_table_has_the_committed_run_and_not_ones_own(infonce, monkeypatch):
    committed = encoders.committed_record(infonce)
    collect(records_of("quick"), "quick")
    assert set(load_results("quick")["key"]) == {committed.key}
    own = run_vision(infonce, profile="quick", device="cpu")
    assert own.key == committed.key
    content = json.loads(own.path.read_text())
    content["metrics"][0]["value"] += 1
    own.path.write_text(json.dumps(content))
    before = load_results("quick")
    collect(records_of("quick"), "quick")
    assert load_results("quick").equals(before)


# The repository's own ----------------------------------------------------------------------------


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.delenv("WEINCE_ENCODERS")
    monkeypatch.delenv("WEINCE_RESULTS")


def test_repository_has_its_eight_encoders(repository):
    records = {r.key: r for r in map(store.read, encoders.committed_records())}
    assert set(records) == {encoders.key_of(config) for config in encoders.configs()}
    assert len(records) == 8
    for config in encoders.configs():
        ready_encoder(config, profile="quick", along_training=config.loss == "infonce")
        images = training_images(config)
        with torch.no_grad():
            z = frozen_model(config, images)(images.images[:8].float() / 255)
        assert z.shape == (8, config.projection_dim) and z.isfinite().all()


def test_committed_table_speaks_of_the_committed_encoders(repository):
    table = load_table(paths.committed_results() / "quick.csv")
    for path in encoders.committed_records():
        record = store.read(path)
        own = table[table["key"] == record.key]
        wanted = sorted(
            (r["metric"], r["split"], r["replicate"], float(f"{r['value']:.7g}"))
            for r in rows(record)
        )
        found = own[["metric", "split", "replicate", "value"]].itertuples(index=False, name=None)
        assert sorted(found) == wanted
    lines = record_lines.read_lines(paths.committed_results() / "quick.records.jsonl")
    measured_there = 0
    for line in map(json.loads, lines.values()):
        if "encoder_run" in line["config"]:
            run = VisionConfig(**line["config"]["encoder_run"])
            held = encoders.committed_record(run)
            assert line["encoder"]["sha256"] == held.details["encoder"]["sha256"], line["key"]
            measured_there += 1
    assert measured_there >= 16


def command(*words):
    return CliRunner().invoke(main, ["encoders", *words])


def test_the_command_verifies_and_makes(infonce, monkeypatch):
    monkeypatch.setattr(encoders, "configs", lambda: [infonce])
    key = encoders.key_of(infonce)
    weights = encoders.weights_path(key)
    sound = command()
    assert sound.exit_code == 0
    assert sound.stdout.split() == [key, "infonce", "seed", "7", sha256(weights)[:16]]
    damage(weights)
    bad = command()
    assert bad.exit_code == 1 and bad.stderr.count("\n") == 1
    assert bad.stderr.startswith(f"Error: {weights} has the SHA-256 {sha256(weights)[:16]}")
    unknown = command("--make", "0123")
    assert unknown.exit_code != 0
    assert "0123" in unknown.stderr and key in unknown.stderr
    weights.unlink()
    weights.with_suffix(".json").unlink()
    gone = command()
    assert gone.exit_code == 1
    assert gone.stderr.startswith("Error: 1 of 1 encoders") and f"--make {key}" in gone.stderr
    assert command("--make", key).exit_code == 0
    assert command().stdout == sound.stdout
