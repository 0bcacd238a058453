"""One vision run from config to record: train, freeze, evaluate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from ..evaluation import RECALL_KS, knn_evaluate, linear_probe, stratified_split
from ..vision import (
    ImageSet,
    SimCLR,
    TrainingSettings,
    augmentation,
    build_simclr,
    load,
    load_checkpoint,
    train,
)
from . import paths, store
from .config import VisionConfig, is_own, profile_defaults, profile_stamp
from .frozen import frozen_features
from .store import Metric, Record

EXPERIMENT = "vision"
CHECKPOINT = "checkpoint.pt"


def training_images(config: VisionConfig) -> ImageSet:
    """The labelled training images of a run; contrastive training uses them without labels."""
    return load_images(config, "train", limit=config.train_limit)


def load_images(config: VisionConfig, split: str, limit: int = 0) -> ImageSet:
    """A split of the run's data set; relative folders start at the companion's root."""
    name, root = config.dataset, paths.data()
    kind, _, folder = name.partition(":")
    if folder:
        name = f"{kind}:{paths.root() / folder}"
    return load(name, split, root=root, limit=limit, image_size=config.image_size)


def build_model(config: VisionConfig, images: ImageSet) -> SimCLR:
    """The run's model with its initial weights."""
    return build_simclr(
        config.encoder,
        channels=images.images.shape[1],
        image_size=images.images.shape[-1],
        width=config.width,
        projection_dim=config.projection_dim,
        seed=config.seed,
    )


def trained_model(config: VisionConfig, images: ImageSet) -> SimCLR:
    """The model of a finished run, from its last checkpoint.

    Raises:
        FileNotFoundError: if the run has not been finished yet.
    """
    record = store.record_path(EXPERIMENT, config.canonical())
    path = record.parent / CHECKPOINT
    if not (record.exists() and path.exists()):
        raise FileNotFoundError(f"{path} is missing; run 06_train_vision with this config first")
    model = build_model(config, images)
    model.load_state_dict(load_checkpoint(path)["model"])
    return model.eval()


def labels(config: VisionConfig, profile: str) -> dict[str, Any]:
    """How tables name a run. One whose settings are not its profile's own is in no table.

    Loss, preset and seed are what a profile varies; any other departure makes the run the user's
    own (``"custom"``).
    """
    return {
        "profile": profile_stamp(profile) if is_own(config, profile) else "custom",
        "dataset": config.dataset,
        "encoder": config.encoder,
        "loss": config.label,
        "temperature": config.temperature,
        "seed": config.seed,
    }


def run_vision(
    config: VisionConfig, *, profile: str, device: torch.device | str | None = None
) -> Record:
    """Train and evaluate, or return the record if this config has been run before.

    A run that was killed continues from its last finished epoch.

    Args:
        config: see :class:`VisionConfig`.
        profile: the profile it was asked for; decides which table it is collected into.
        device: where to train; a CUDA device if there is one, else the CPU.
    """
    profile_defaults(profile)  # an unknown one is better known now than after training
    settings = config.canonical()
    done = store.find(EXPERIMENT, settings)
    if done is not None:
        return done
    folder = store.record_path(EXPERIMENT, settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    # Two notebooks that need the same run at once: the second waits and finds the record.
    with FileLock(folder / ".lock"):
        done = store.find(EXPERIMENT, settings)
        return done or _train_and_evaluate(config, profile, folder, device)


def _train_and_evaluate(
    config: VisionConfig, profile: str, folder: Path, device: torch.device | str | None
) -> Record:
    started = time.time()
    settings = config.canonical()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    train_set = training_images(config)
    test_set = load_images(config, "test")
    for seed in config.split_seeds:  # what would fail after training is better known before
        bank = len(stratified_split(train_set.labels, seed=seed).train)
        if bank < max(RECALL_KS):
            raise ValueError(
                f"{len(train_set)} labelled images leave a kNN bank of {bank}; R@{max(RECALL_KS)} "
                "needs as many: raise train_limit"
            )
    model = build_model(config, train_set)
    history = train(
        model,
        config.build_loss(),
        train_set.images,
        augmentation(config.dataset),
        TrainingSettings(
            epochs=config.epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            seed=config.seed,
            precision=config.precision,
        ),
        checkpoint=folder / CHECKPOINT,
        fingerprint=settings | {"data": train_set.content_hash()},
        device=device,
    )
    return store.save(
        EXPERIMENT,
        settings,
        evaluate(model, train_set, test_set, config),
        started=started,
        labels=labels(config, profile),
        details={
            "data": {"train": train_set.content_hash(), "test": test_set.content_hash()},
            "history": history,
        },
    )


def evaluate(
    model: SimCLR, train_set: ImageSet, test_set: ImageSet, config: VisionConfig
) -> list[Metric]:
    """Linear probe and kNN on frozen features h (paper F.3, F.4); accuracies in percent.

    The probe uses the split of the first split seed and one fit per probe seed; kNN one bank per
    split seed. The whole test set counts in every one.
    """
    # Probe and neighbours go where the encoder is: a GPU has room for any set's features.
    device = next(model.parameters()).device
    train_h = frozen_features(model, train_set).to(device)
    test_h = frozen_features(model, test_set).to(device)
    labels, test_labels = train_set.labels.to(device), test_set.labels.to(device)
    metrics: list[Metric] = []
    for seed in config.split_seeds:
        split = stratified_split(labels, seed=seed)
        bank, bank_labels = train_h[split.train], labels[split.train]
        queries = {
            "validation": (train_h[split.validation], labels[split.validation]),
            "test": (test_h, test_labels),
        }
        if seed == config.split_seeds[0]:
            probe = linear_probe(
                bank, bank_labels, queries, seeds=config.probe_seeds, epochs=config.probe_epochs
            )
            for name, values in probe.accuracy.items():
                metrics += [
                    Metric("linear_accuracy", value, name, probe_seed)
                    for probe_seed, value in zip(probe.seeds, values, strict=True)
                ]
        for name, (h, true) in queries.items():
            found = knn_evaluate(bank, bank_labels, h, true)
            metrics += [Metric(metric, value, name, seed) for metric, value in found.items()]
    return metrics
