"""Runs of the ablation: keys, labels, the sharpness they record, and a resumed running mean."""

from __future__ import annotations

import math

import pytest
import torch
from sample_runs import TINY

from weince_lib.experiments import (
    PROFILES,
    ConfigError,
    VisionConfig,
    is_own,
    run_vision,
    training_images,
    vision_config,
)
from weince_lib.losses import RELEASED, AblationLoss, AblationSettings, EndpointLoss, InfoNCELoss
from weince_lib.records import store
from weince_lib.runs import vision
from weince_lib.runs.config import parse
from weince_lib.runs.vision import loss_metrics
from weince_lib.studies.collect import belongs
from weince_lib.training import CheckpointError, TrainingInterrupted
from weince_lib.vision import training

#: Keys of runs from before there was an ablation.
KEYS = {
    "e098f9051caaf4ad": {"profile": "quick"},
    "94907e33c519fa79": {"profile": "quick", "loss": "infonce"},
    "aba5966cf4d410ca": {"profile": "paper", "preset": "calibrated", "seed": 21},
}


@pytest.mark.parametrize("key", KEYS)
def test_other_runs_keep_their_keys(key):
    config = vision_config(**KEYS[key])
    assert store.content_key("vision", config.canonical()) == key
    assert "ablation" not in config.canonical()


def test_a_config_is_read_back_from_its_record():
    config = vision_config("quick", loss="ablation", ablation=RELEASED)
    again = parse(VisionConfig, config.canonical())
    assert again == config and again.canonical() == config.canonical()
    assert config.label == "released" and not is_own(config, "quick")
    assert isinstance(config.build_loss(), AblationLoss)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"loss": "ablation"}, "ablation"),
        ({"loss": "infonce", "ablation": RELEASED}, "ablation"),
        ({"loss": "ablation", "ablation": {"link": "sotfmax"}}, "sotfmax"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(settings, word):
    with pytest.raises(ConfigError, match=word) as error:
        vision_config("quick", **settings)
    assert "\n" not in str(error.value)


@pytest.fixture
def tiny_released(monkeypatch):
    monkeypatch.setitem(PROFILES, "quick", TINY)
    return vision_config("quick", loss="ablation", ablation=RELEASED)


def test_a_run_records_sharpness_and_lambda(tiny_released):
    record = run_vision(tiny_released, profile="quick", device="cpu")
    assert record.labels["loss"] == "released" and record.labels["profile"] == "custom"
    entropy, lam = (record.metric(n, "train") for n in ("negative_entropy", "mean_lambda"))
    assert 0 < entropy < math.log(62)
    assert 0 < lam < 1
    assert not belongs(record, "quick")


def test_metrics_are_the_same_twice_and_leave_the_model_alone(tiny_released):
    images = training_images(tiny_released)
    model = vision.build_model(tiny_released, images)
    before = {n: v.clone() for n, v in model.state_dict().items()}
    first, second = (loss_metrics(model, InfoNCELoss(), images, tiny_released) for _ in range(2))
    assert first == second
    names = [m.name for m in first]
    assert names[:3] == ["negative_entropy", "mean_lambda", "same_class_push"]
    assert {"alignment", "uniformity", "negative_shortfall", "choice_nats"} < set(names)
    assert first[1].value == 0
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())
    assert loss_metrics(model, torch.nn.Identity(), images, tiny_released) == []
    found = loss_metrics(model, EndpointLoss(0.2), images, tiny_released)
    assert [m.name for m in found] == [name for name in names if name != "mean_lambda"]
    assert 0 < found[0].value < math.log(62) and 0 < found[1].value < 1


def test_a_resumed_run_goes_on_with_its_running_beta(tiny_released, monkeypatch, tmp_path):
    whole = run_vision(tiny_released, profile="quick", device="cpu")
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))
    step, taken = training.train_step, []

    def stops_after_four(*args, **more):
        if len(taken) == 4:
            taken.append(None)
            raise TrainingInterrupted("stop")
        taken.append(None)
        return step(*args, **more)

    monkeypatch.setattr(training, "train_step", stops_after_four)
    with pytest.raises(TrainingInterrupted):
        run_vision(tiny_released, profile="quick", device="cpu")
    resumed = run_vision(tiny_released, profile="quick", device="cpu")
    assert resumed.metrics == whole.metrics
    assert resumed.details["history"] == whole.details["history"]


def test_a_loss_of_another_state_does_not_resume(tiny_released, tmp_path):
    images = training_images(tiny_released)
    path = tmp_path / "checkpoint.safetensors"
    model = vision.build_model(tiny_released, images)
    settings = training.TrainingSettings(epochs=1, batch_size=32)
    augment = vision.augmentation("digits")
    common = (images.images, augment, settings)
    training.train(model, AblationLoss(0.5, RELEASED), *common, checkpoint=path)
    other = AblationLoss(0.5, AblationSettings(link="softmax"))
    with pytest.raises(CheckpointError, match="another loss"):
        training.train(model, other, *common, checkpoint=path)
