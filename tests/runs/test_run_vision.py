"""One run from config to record: once, resumable, and in the tables it belongs to."""

import dataclasses
import math

import pytest
import torch

from weince_lib import files
from weince_lib.evaluation import stratified_split
from weince_lib.experiments import (
    PROFILES,
    ConfigError,
    VisionConfig,
    labelled_images,
    run_vision,
    trained_model,
    training_images,
    vision_config,
)
from weince_lib.losses import TailMonitor
from weince_lib.records import store
from weince_lib.runs import vision
from weince_lib.runs.config import labels, profile_stamp
from weince_lib.studies.collect import records_of
from weince_lib.training import CheckpointError, NonFiniteLossError
from weince_lib.vision import ImageSet, training
from weince_lib.vision.datasets import UNLABELLED


@pytest.fixture
def no_training(monkeypatch):
    """Let every attempt to train, or to read images, fail the test."""

    def refuse(*args, **more):
        raise AssertionError("a finished run was repeated")

    for name in ("train", "load", "evaluate"):
        monkeypatch.setattr(vision, name, refuse)


def test_record_holds_config_metrics_and_data(tiny):
    config, record = tiny
    assert record.experiment == "vision"
    assert record.config == config.canonical()
    assert record.labels == {
        "profile": profile_stamp("quick"),
        "dataset": "digits",
        "encoder": "resnet-small",
        "loss": "weince",
        "temperature": 0.5,
        "seed": 7,
    }
    assert record.details["data"] == {
        "train": training_images(config).content_hash(),
        "test": vision.load("digits", "test").content_hash(),
    }
    history = record.details["history"]
    assert len(history) == config.epochs
    assert all(row.keys() == {"loss", *TailMonitor().names} for row in history)
    assert record.wall_seconds > 0


def test_record_has_one_accuracy_per_probe_seed_and_split_seed(tiny):
    config, record = tiny
    own = {m.name for m in record.metrics if m.split == "train"}
    assert {"negative_entropy", "mean_lambda", "same_class_push", "alignment"} <= own
    names = {metric.name for metric in record.metrics} - own
    assert {"linear_accuracy", "knn_accuracy", "recall_at_1", "recall_at_20"} <= names
    for name in names:
        for split in ("validation", "test"):
            seeds = [m.replicate for m in record.metrics if (m.name, m.split) == (name, split)]
            assert seeds == list(config.probe_seeds)
    accuracies = [metric.value for metric in record.metrics if metric.name in names]
    assert all(0 <= value <= 100 for value in accuracies)


def test_the_same_config_again_does_nothing_and_another_is_not_taken_for_it(tiny, no_training):
    config, record = tiny
    before = {path: path.stat().st_mtime_ns for path in record.folder.iterdir()}
    assert run_vision(VisionConfig(**config.model_dump()), profile="quick") == record
    assert {path: path.stat().st_mtime_ns for path in record.folder.iterdir()} == before
    with pytest.raises(AssertionError, match="repeated"):
        run_vision(config.model_copy(update={"seed": 8}), profile="quick")


def test_a_run_that_another_process_finishes_meanwhile_is_not_repeated(monkeypatch, no_training):
    config = vision_config("quick")

    class OtherProcess:
        """Holds the lock until it has written the record."""

        def __init__(self, path):
            assert path.parent.is_dir()

        def __enter__(self):
            metrics = [store.Metric("linear_accuracy", 1.0)]
            own = labels(config, "quick")
            store.save("vision", config.canonical(), metrics, labels=own, started=0.0)

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(files, "locked", OtherProcess)
    assert run_vision(config, profile="quick").metric("linear_accuracy") == 1.0


def test_a_run_cut_off_after_an_epoch_continues_to_the_same_record(tiny, tmp_path, monkeypatch):
    config, whole = tiny
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))
    steps = training_images(config).images.shape[0] // config.batch_size
    train_step, done = training.train_step, []
    last = steps + 1

    def counted(*args, **more):
        if len(done) == last:
            raise KeyboardInterrupt
        done.append(None)
        return train_step(*args, **more)

    monkeypatch.setattr(training, "train_step", counted)
    with pytest.raises(KeyboardInterrupt):
        run_vision(config, profile="quick", device="cpu")
    assert list(store.record_files()) == []
    done.clear()
    last = None
    resumed = run_vision(config, profile="quick", device="cpu")
    assert len(done) == (config.epochs - 1) * steps
    assert (resumed.key, resumed.metrics) == (whole.key, whole.metrics)
    assert resumed.details == whole.details


def test_checkpoint_of_other_images_is_an_error_and_stays(tiny, tmp_path, monkeypatch):
    config, record = tiny
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))
    folder = store.record_path("vision", config.canonical()).parent
    folder.mkdir(parents=True)
    kept = (record.folder / vision.CHECKPOINT).read_bytes()
    (folder / vision.CHECKPOINT).write_bytes(kept)
    images = training_images(config)
    mirrored = dataclasses.replace(images, images=images.images.flip(-1))
    monkeypatch.setattr(vision, "training_images", lambda config: mirrored)
    with pytest.raises(CheckpointError, match="data"):
        run_vision(config, profile="quick", device="cpu")
    assert (folder / vision.CHECKPOINT).read_bytes() == kept
    assert store.find("vision", config.canonical()) is None


def test_trained_model_has_the_checkpoints_weights_and_the_records_metrics(tiny):
    config, record = tiny
    images = training_images(config)
    model = trained_model(config, images)
    assert not model.training
    weights = vision.load_checkpoint(record.folder / vision.CHECKPOINT)["model"]
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    found = vision.evaluate(model, images, vision.load("digits", "test"), config)
    # The loss's own metrics, on training batches, come after those of the features.
    assert found == record.metrics[: len(found)]
    assert {m.split for m in record.metrics[len(found) :]} == {"train"}


def test_probe_has_the_first_split_and_knn_each_with_the_whole_test_set(tiny, monkeypatch):
    config, _ = tiny
    images, test_set = training_images(config), vision.load("digits", "test")
    banks = {"linear_probe": [], "knn_evaluate": []}

    def watched(name):
        evaluate = getattr(vision, name)

        def call(features, labels, *more, **given):
            banks[name].append((features, labels, more))
            return evaluate(features, labels, *more, **given)

        return call

    for name in banks:
        monkeypatch.setattr(vision, name, watched(name))
    model = trained_model(config, images)
    vision.evaluate(model, images, test_set, config)
    h = vision.extract_features(model.encoder, images.images)
    splits = [stratified_split(images.labels, seed=seed) for seed in config.split_seeds]
    assert not torch.equal(splits[0].train, splits[1].train)
    (features, found, (queries,)), (scaled, _, (scaled_queries,)) = banks["linear_probe"]
    assert torch.equal(features, h[splits[0].train])
    assert torch.equal(found, images.labels[splits[0].train])
    assert torch.equal(queries["validation"][0], h[splits[0].validation])
    assert torch.equal(queries["test"][1], test_set.labels)
    # The second probe has the same rows, on the scale of the bank.
    varying = features.std(dim=0) > 0
    assert torch.allclose(scaled.mean(dim=0), torch.zeros(scaled.shape[1]), atol=1e-4)
    assert torch.allclose(scaled.std(dim=0)[varying], torch.ones(int(varying.sum())), atol=1e-4)
    back = scaled_queries["test"][0] * features.std(dim=0) + features.mean(dim=0)
    assert torch.allclose(back[:, varying], queries["test"][0][:, varying], atol=1e-4)
    # For each split validation first, then test.
    for split, bank in zip(splits, banks["knn_evaluate"][::2], strict=True):
        assert torch.equal(bank[0], h[split.train])
        assert torch.equal(bank[2][1], images.labels[split.validation])
    for _, _, (_, true) in banks["knn_evaluate"][1::2]:
        assert torch.equal(true, test_set.labels)


def test_an_encoder_that_was_not_trained_is_named_with_the_mend(tiny):
    config = tiny[0].model_copy(update={"seed": 8})
    with pytest.raises(FileNotFoundError, match="06_train_vision") as caught:
        trained_model(config, training_images(config))
    assert store.content_key("vision", config.canonical()) in str(caught.value)


def test_two_losses_of_one_seed_start_from_the_same_weights():
    images = training_images(vision_config("quick"))
    first, second, other = (
        torch.cat([p.flatten() for p in vision.build_model(config, images).parameters()])
        for config in (
            vision_config("quick", loss="infonce", seed=21),
            vision_config("quick", loss="weince", seed=21),
            vision_config("quick", loss="infonce", seed=22),
        )
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


# Tables -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("given", [{"loss": "infonce"}, {"seed": 84}, {"preset": "release"}])
def test_what_a_profile_varies_keeps_its_stamp(profile, given):
    config = vision_config(profile, **given)
    assert labels(config, profile)["profile"] == profile_stamp(profile)
    assert labels(config, profile)["loss"] == config.label


@pytest.mark.parametrize(
    "given",
    [{"epochs": 3}, {"temperature": 0.2}, {"train_limit": 50}, {"cap_quantile": 0.5}],
    ids=str,
)
def test_any_other_departure_is_custom(given):
    assert labels(vision_config("quick", **given), "quick")["profile"] == "custom"


def test_custom_run_is_in_no_table(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "mine"))
    own = vision_config("quick", epochs=1, loss="infonce")
    record = run_vision(own, profile="quick", device="cpu")
    assert (record.labels["profile"], record.labels["loss"]) == ("custom", "infonce")
    assert all(row.keys() == {"loss"} for row in record.details["history"])
    assert list(store.record_files()) == [record.path]
    assert [records_of(profile) for profile in PROFILES] == [[]] * len(PROFILES)


def test_records_of_a_changed_profile_are_left_out(tiny, monkeypatch):
    _, record = tiny
    assert records_of("quick") == [record.path]
    monkeypatch.setitem(PROFILES, "quick", PROFILES["quick"] | {"epochs": 3})
    assert records_of("quick") == []


def test_a_run_first_made_as_custom_counts_for_the_profile_that_asks(tiny):
    # A finished run is never repeated, so what it was first asked for must not decide for good.
    config = tiny[0].model_copy(update={"seed": 63})
    custom = labels(config, "cpu")
    assert custom["profile"] == "custom"
    metrics = [store.Metric("x", 1.0)]
    made = store.save("vision", config.canonical(), metrics, labels=custom, started=0.0)
    try:
        assert run_vision(config, profile="quick").metrics == made.metrics
        assert made.path in records_of("quick")
    finally:
        made.path.unlink()


# Refused before or without a record ---------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"cap_quantile": 0.5}])
def test_unknown_profile_is_refused_before_training(given, no_training):
    with pytest.raises(ConfigError, match="qiuck"):
        run_vision(vision_config("quick", **given), profile="qiuck")


def test_loss_that_is_not_finite_leaves_no_record(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))

    class Broken(torch.nn.Module):
        def forward(self, z0, z1):
            return z0.sum() * math.nan

    monkeypatch.setattr(VisionConfig, "build_loss", lambda self: Broken())
    with pytest.raises(NonFiniteLossError, match="step 0"):
        run_vision(tiny[0], profile="quick", device="cpu")
    assert list(store.record_files()) == []


def test_too_few_images_for_the_knn_bank_are_refused_before_training(tiny, monkeypatch, tmp_path):
    monkeypatch.setattr(vision, "train", lambda *a, **k: pytest.fail("trained first"))
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "few"))
    monkeypatch.setattr(vision, "RECALL_KS", (1, 10_000))
    with pytest.raises(ValueError, match=r"kNN bank of \d+; R@10000"):
        run_vision(tiny[0], profile="quick")


# Training on one set and evaluating on another: STL-10 --------------------------------------------

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
def stl10(loaded):
    small = {"encoder": "resnet-small", "width": 4, "epochs": 1, "batch_size": 32}
    once = {"probe_epochs": 1, "probe_seeds": (1,), "split_seeds": (1,)}
    return vision_config("paper", dataset="stl10", train_limit=64, **small, **once)


def test_trained_without_labels_and_evaluated_with_them(stl10, loaded, monkeypatch):
    seen = []
    train = vision.train
    monkeypatch.setattr(vision, "train", lambda *a, **k: seen.append(a[2]) or train(*a, **k))
    record = run_vision(stl10, profile="paper", device="cpu")
    # The limit is of the images to train with; all labelled ones count.
    assert sorted(loaded) == [("test", 0), ("train", 0), ("unlabeled", 64)]
    assert torch.equal(seen[0], small_stl10("unlabeled").images[:64])
    assert record.details["data"] == {
        "train": small_stl10("unlabeled").limit(64).content_hash(),
        "labelled": small_stl10("train").content_hash(),
        "test": small_stl10("test").content_hash(),
    }
    model = trained_model(stl10, training_images(stl10))
    assert torch.equal(labelled_images(stl10).images, small_stl10("train").images)
    again = vision.evaluate(model, small_stl10("train"), small_stl10("test"), stl10)
    assert again == [m for m in record.metrics if m.split != "train"]


def test_other_sets_are_loaded_once(tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path / "again"))
    asked, load = [], vision.load
    monkeypatch.setattr(vision, "load", lambda *a, **k: asked.append(a[1]) or load(*a, **k))
    run_vision(tiny[0], profile="quick", device="cpu")
    assert asked == ["train", "test"]


def test_a_class_too_small_for_the_split_is_named_before_training(stl10, monkeypatch):
    monkeypatch.setattr(vision, "train", lambda *a, **k: pytest.fail("trained first"))
    monkeypatch.setitem(SIZES, "train", 45)
    with pytest.raises(ValueError, match=r"stl10: class 'f' has 4 of the 45 .* which needs 5"):
        run_vision(stl10, profile="paper", device="cpu")
    assert store.find("vision", stl10.canonical()) is None
