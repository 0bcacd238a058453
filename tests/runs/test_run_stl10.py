"""Training on one set and evaluating on another: STL-10's unlabelled and labelled images."""

import pytest
import torch

from weince_lib.experiments import (
    labelled_images,
    run_vision,
    trained_model,
    training_images,
    vision_config,
)
from weince_lib.records import store
from weince_lib.runs import vision
from weince_lib.vision import ImageSet
from weince_lib.vision.datasets import UNLABELLED

SIZES = {"train": 80, "test": 40, "unlabeled": 70}


def small_stl10(split):
    """Images of 12 x 12 pixels, 10 classes."""
    n = SIZES[split]
    generator = torch.Generator().manual_seed(n)
    images = torch.randint(0, 256, (n, 3, 12, 12), generator=generator, dtype=torch.uint8)
    if split == "unlabeled":
        return ImageSet("stl10", images, torch.full((n,), UNLABELLED), ())
    return ImageSet("stl10", images, torch.arange(n) % 10, tuple("abcdefghij"))


@pytest.fixture
def loaded(monkeypatch):
    """The small set in place of the published one; what was asked for, in order."""
    asked = []

    def load(name, split, *, root, limit, image_size):
        assert (name, image_size) == ("stl10", 0)
        asked.append((split, limit))
        return small_stl10(split).limit(limit)

    monkeypatch.setattr(vision, "load", load)
    return asked


@pytest.fixture
def config():
    return vision_config(
        "paper",
        dataset="stl10",
        train_limit=64,
        encoder="resnet-small",
        width=4,
        epochs=1,
        batch_size=32,
        probe_epochs=1,
        probe_seeds=(1,),
        split_seeds=(1,),
    )


def test_trained_without_labels_and_evaluated_with_them(config, loaded, monkeypatch):
    seen = {}

    def watched(name):
        call = getattr(vision, name)

        def watch(*given, **more):
            seen[name] = given
            return call(*given, **more)

        monkeypatch.setattr(vision, name, watch)

    watched("train")
    watched("evaluate")
    record = run_vision(config, profile="paper", device="cpu")
    # The limit is of the images to train with; all labelled ones count.
    assert sorted(loaded) == [("test", 0), ("train", 0), ("unlabeled", 64)]
    assert torch.equal(seen["train"][2], small_stl10("unlabeled").images[:64])
    _, labelled, test_set, _ = seen["evaluate"]
    assert torch.equal(labelled.images, small_stl10("train").images)
    assert torch.equal(test_set.images, small_stl10("test").images)
    assert record.details["data"] == {
        "train": small_stl10("unlabeled").limit(64).content_hash(),
        "labelled": small_stl10("train").content_hash(),
        "test": small_stl10("test").content_hash(),
    }
    features = [m for m in record.metrics if m.split != "train"]  # "train": of the loss itself
    assert {m.split for m in features} == {"validation", "test"}
    model = trained_model(config, training_images(config))
    again = vision.evaluate(model, labelled_images(config), small_stl10("test"), config)
    assert [m.value for m in again] == [m.value for m in features]


def test_other_sets_are_loaded_once_and_keep_their_details(tiny, monkeypatch, tmp_path):
    config, record = tiny
    assert record.details["data"].keys() == {"train", "test"}
    assert labelled_images(config).content_hash() == training_images(config).content_hash()
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))
    asked = []
    load = vision.load
    monkeypatch.setattr(vision, "load", lambda *a, **k: asked.append(a[1]) or load(*a, **k))
    run_vision(config, profile="quick", device="cpu")
    assert asked == ["train", "test"]


def test_a_class_too_small_for_the_split_is_named_before_training(config, loaded, monkeypatch):
    monkeypatch.setattr(vision, "train", lambda *a, **k: pytest.fail("trained first"))
    monkeypatch.setitem(SIZES, "train", 45)
    with pytest.raises(ValueError, match=r"stl10: class 'f' has 4 of the 45 .* which needs 5"):
        run_vision(config, profile="paper", device="cpu")
    assert store.find("vision", config.canonical()) is None
