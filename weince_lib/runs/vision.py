"""One vision run from config to record: read the images, train, freeze, evaluate."""

from __future__ import annotations

import copy
import dataclasses
import math
import statistics
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import paths
from ..errors import InputError, checking_input
from ..evaluation import (
    RECALL_KS,
    cached_features,
    geometry,
    knn_evaluate,
    linear_probe,
    stratified_split,
)
from ..losses import AblationLoss, sharpness
from ..losses.sharpness import KNOWN
from ..records import store
from ..records.store import Metric, Record
from ..training import epoch_generator, load_checkpoint, restore_model
from ..training.processes import World
from ..vision import (
    Execution,
    ImageSet,
    SimCLR,
    TrainingSettings,
    augmentation,
    build_simclr,
    extract_features,
    load,
    pretraining_split,
    train,
)
from ..vision.datasets import LEAST_PER_CLASS, content_of
from ..vision.training import snapshot_path
from .config import VisionConfig, labels
from .fastest import step_form
from .trained import CHECKPOINT, Measured, finished_checkpoint, trained_once

EXPERIMENT = "vision"
#: Features of a set larger than this are not kept on disk: ImageNet-32's would take 2.6 GB a run.
FEATURES_LIMIT = 2**28
#: The probe on standardised features, see :func:`evaluate_features`.
STANDARDISED = "standardised_linear_accuracy"
#: Of that probe: on 64 features of a small ResNet 3e-3 and 1e-2 end within 0.1 points.
STANDARDISED_LEARNING_RATE = 3e-3
#: Batches on which a run's own loss is looked at. Their entropies agree within about 1 %.
LOSS_BATCHES = 8


def training_images(config: VisionConfig) -> ImageSet:
    """The images of a run's contrastive training, which uses no labels; STL-10's have none."""
    return load_images(config, pretraining_split(config.dataset), limit=config.train_limit)


def labelled_images(config: VisionConfig) -> ImageSet:
    """The labelled training images of a run, for probe and kNN.

    They are those of :func:`training_images`, except for STL-10.
    """
    own = pretraining_split(config.dataset) == "train"
    return load_images(config, "train", limit=config.train_limit if own else 0)


def load_images(config: VisionConfig, split: str, limit: int = 0) -> ImageSet:
    """A split of the run's data set.

    Relative folders start at the companion's root; ``data/...`` lies in the data folder, wherever
    that is.

    Raises:
        InputError: for files that are damaged or wrong, see :func:`weince_lib.vision.load`.
        FileNotFoundError: for data that is missing.
    """
    name, root = _place(config)
    with checking_input():
        return load(name, split, root=root, limit=limit, image_size=config.image_size)


def _place(config: VisionConfig) -> tuple[str, Path]:
    """The name of the run's data set, with the whole path of a folder, and the data folder."""
    name, root = config.dataset, paths.data()
    kind, _, folder = name.partition(":")
    if folder:
        inside = folder.removeprefix("data/")
        name = f"{kind}:{paths.root() / folder if inside == folder else root / inside}"
    return name, root


def files_now(config: VisionConfig) -> dict[str, str]:
    """Hashes of the files that the run's data set consists of, as records keep them.

    Returns:
        ``train_files`` and ``test_files``; nothing for a set of fixed content, and for a folder
        that is not there, where nothing contradicts a record.
    """
    if pretraining_split(config.dataset) != "train":
        return {}  # STL-10, whose content is fixed
    name, root = _place(config)
    found = {}
    for split, limit in (("train", config.train_limit), ("test", 0)):
        with checking_input():
            found[f"{split}_files"] = content_of(name, split, root=root, limit=limit)
    return {part: digest for part, digest in found.items() if digest}


def check_current(record: Record, config: VisionConfig) -> Record:
    """The record of a run, or one measured on it, if its images are what its name stands for now.

    Only sets whose content may change are looked at, see
    :func:`weince_lib.vision.datasets.content_of`: their files are read, not decoded.

    Args:
        record: of the run, or made from its encoder.
        config: of the run.

    Raises:
        StaleRecordError: for other images.
    """
    now = files_now(config)
    # An encoder has not seen the test images, nor has what is measured on it.
    if record.experiment != EXPERIMENT:
        now.pop("test_files", None)
    store.compare_data(record, now, config.dataset)
    return record


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


def snapshot_epochs(epochs: int) -> list[int]:
    """Epochs whose weights a run keeps besides its last: 1, 2, 4, 8, ... below ``epochs``."""
    return [2**k for k in range(epochs.bit_length()) if 2**k < epochs]


def trained_model(config: VisionConfig, images: ImageSet) -> SimCLR:
    """The model of a finished run, from its last checkpoint.

    Raises:
        FileNotFoundError: if the run has not been finished yet.
        StaleRecordError: if its data set has other images now.
    """
    settings = config.canonical()
    checkpoint = finished_checkpoint(EXPERIMENT, settings, "run 06_train_vision")
    check_current(store.read(store.record_path(EXPERIMENT, settings)), config)
    return _restored(config, images, checkpoint)


def models_along_training(config: VisionConfig, images: ImageSet) -> dict[int, SimCLR]:
    """The run's model after 0 epochs (its initial weights), 1, 2, 4, 8, ... and its last epoch.

    Raises:
        FileNotFoundError: if the run has not been finished yet, or its weights are gone.
    """
    last = trained_model(config, images)
    checkpoint = finished_checkpoint(EXPERIMENT, config.canonical(), "run 06_train_vision")
    models = {0: build_model(config, images).eval()}
    for epoch in snapshot_epochs(config.epochs):
        models[epoch] = _restored(config, images, snapshot_path(checkpoint, epoch))
    return models | {config.epochs: last}


def _restored(config: VisionConfig, images: ImageSet, path: Path) -> SimCLR:
    model = build_model(config, images)
    restore_model(model, load_checkpoint(path), path)
    return model.eval()


def run_vision(
    config: VisionConfig,
    *,
    profile: str,
    device: torch.device | str | None = None,
    execution: Execution | None = None,
    sets: tuple[ImageSet, ImageSet] | None = None,
) -> Record:
    """Train and evaluate, or return the record if this config has been run before.

    A run that was killed continues from its last checkpoint, to the same bits on one machine with
    one build of torch. Under ``torchrun`` the processes train together, on one machine; the first
    evaluates and writes.

    Args:
        config: see :class:`VisionConfig`.
        profile: the profile it was asked for; decides which table it is collected into.
        device: where to train; a CUDA device if there is one, else the CPU.
        execution: how to train, which changes speed and rounding alone.
        sets: training and test images that are in memory already; loaded by default.

    Raises:
        StaleRecordError: if there is a record, of other images than the data set's name stands
            for now.
    """
    settings = config.canonical()

    def train_and_evaluate(folder: Path, own: torch.device, world: World) -> Measured | None:
        return _train_and_evaluate(config, settings, folder, own, world, execution, sets)

    return trained_once(
        EXPERIMENT,
        settings,
        train_and_evaluate,
        labels=labels(config, profile),
        check=lambda record: check_current(record, config),
        device=device,
    )


def _train_and_evaluate(
    config: VisionConfig,
    settings: dict[str, Any],
    folder: Path,
    device: torch.device,
    world: World,
    execution: Execution | None,
    sets: tuple[ImageSet, ImageSet] | None,
) -> Measured | None:
    """Metrics and details in the first process; the others have none."""
    files_before = files_now(config) if world.first else {}
    train_set, test_set = sets or (training_images(config), load_images(config, "test"))
    own_labels = pretraining_split(config.dataset) == "train"
    labelled = train_set if own_labels else labelled_images(config)
    check_evaluable(labelled, config)  # what would fail after training is better known before
    data = {"train": train_set.content_hash()}
    model = build_model(config, train_set)
    loss = config.build_loss()
    if not isinstance(loss, AblationLoss):
        loss.gather_distributed = world.size > 1
    form = step_form(config, train_set.images, device, folder, world)
    history = train(
        model,
        loss,
        train_set.images,
        augmentation(config.dataset),
        TrainingSettings(
            epochs=config.epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            seed=config.seed,
            precision=form.precision,
        ),
        checkpoint=folder / CHECKPOINT,
        fingerprint=settings | {"data": data["train"]},
        device=device,
        snapshots=snapshot_epochs(config.epochs),
        execution=form.apply(execution),
    )
    if not world.first:
        return None
    metrics = evaluate(model, labelled, test_set, config)
    metrics += loss_metrics(model, loss, train_set, config)
    if labelled is not train_set:
        data["labelled"] = labelled.content_hash()
    data |= {"test": test_set.content_hash(), **files_before}
    details = {"data": data, "history": history}
    if form.machine:
        details["step_form"] = dataclasses.asdict(form)
    return metrics, details


def check_evaluable(labelled: ImageSet, config: VisionConfig) -> None:
    """Make sure that every class can be split 80/20 and the kNN bank holds enough images.

    Raises:
        ValueError: naming the class that is too small, or the size of the bank.
    """
    sizes = labelled.labels.bincount(minlength=len(labelled.classes))
    for name, size in zip(labelled.classes, sizes.tolist(), strict=True):
        if 0 < size < LEAST_PER_CLASS:
            raise InputError(
                f"{labelled.name}: class {name!r} has {size} of the {len(labelled)} labelled "
                f"images, too few for the 80/20 split, which needs {LEAST_PER_CLASS}: raise "
                "train_limit, or leave the class out"
            )
    for seed in config.split_seeds:
        bank = len(stratified_split(labelled.labels, seed=seed).train)
        if bank < max(RECALL_KS):
            raise InputError(
                f"{len(labelled)} labelled images leave a kNN bank of {bank}; R@{max(RECALL_KS)} "
                "needs as many: raise train_limit"
            )


def evaluate(
    model: SimCLR, train_set: ImageSet, test_set: ImageSet, config: VisionConfig
) -> list[Metric]:
    """:func:`evaluate_features` of a model's frozen features h.

    ``train_set`` is labelled: see :func:`labelled_images`.
    """
    # Probe and neighbours go where the encoder is: a GPU has room for any set's features.
    device = next(model.parameters()).device
    train_h = frozen_features(model, train_set).to(device)
    test_h = frozen_features(model, test_set).to(device)
    labels, test_labels = train_set.labels.to(device), test_set.labels.to(device)
    return evaluate_features(train_h, labels, test_h, test_labels, config)


def evaluate_features(
    train_h: Tensor,
    labels: Tensor,
    test_h: Tensor,
    test_labels: Tensor,
    config: VisionConfig,
    *,
    probes: bool = True,
) -> list[Metric]:
    """Linear probe and kNN on features (paper F.3, F.4); accuracies in percent.

    The probe uses the split of the first split seed and one fit per probe seed; kNN one bank per
    split seed. The whole test set counts in every one.

    At the paper's learning rate the probe of a narrow encoder is far from converged after its 100
    epochs, so that its accuracy depends on the scale of h as well (seen: 74 % against 80 % for
    logistic regression). ``standardised_linear_accuracy`` is the probe on h standardised with the
    bank's mean and deviation, at a learning rate with which it does converge.

    Args:
        train_h: features of the labelled training images, shape ``(n, d)``.
        labels: their class numbers, shape ``(n,)``.
        test_h: features of the test images, shape ``(m, d)``.
        test_labels: shape ``(m,)``.
        config: gives probe and split seeds and the probe's epochs.
        probes: without them there is kNN alone.
    """
    metrics: list[Metric] = []
    for seed in config.split_seeds:
        split = stratified_split(labels, seed=seed)
        bank, bank_labels = train_h[split.train], labels[split.train]
        queries = {
            "validation": (train_h[split.validation], labels[split.validation]),
            "test": (test_h, test_labels),
        }
        if probes and seed == config.split_seeds[0]:
            mean, deviation = bank.mean(dim=0), bank.std(dim=0)
            # A column that is constant in the bank stays so.
            deviation = torch.where(deviation > 0, deviation, 1.0)
            scaled = {name: ((h - mean) / deviation, true) for name, (h, true) in queries.items()}
            seeds, epochs = config.probe_seeds, config.probe_epochs
            fits = {
                "linear_accuracy": linear_probe(
                    bank, bank_labels, queries, seeds=seeds, epochs=epochs
                ),
                STANDARDISED: linear_probe(
                    (bank - mean) / deviation,
                    bank_labels,
                    scaled,
                    seeds=seeds,
                    epochs=epochs,
                    learning_rate=STANDARDISED_LEARNING_RATE,
                ),
            }
            metrics += [
                Metric(metric, value, name, probe_seed)
                for metric, fit in fits.items()
                for name, values in fit.accuracy.items()
                for probe_seed, value in zip(fit.seeds, values, strict=True)
            ]
        for name, (h, true) in queries.items():
            found = knn_evaluate(bank, bank_labels, h, true)
            metrics += [Metric(metric, value, name, seed) for metric, value in found.items()]
    return metrics


def frozen_features(model: SimCLR, images: ImageSet) -> Tensor:
    """Features h of a set on the CPU, kept in ``runs/features/`` unless they are very large.

    An evaluation that is cut off, or another one of the same encoder, then finds them.
    """
    feature_dim = cast(int, model.encoder.feature_dim)
    if features_bytes(len(images), feature_dim) == 0:
        return extract_features(model.encoder, images.images)
    return cached_features(
        model.encoder,
        images.images,
        images.content_hash(),
        folder=paths.runs() / "features",
        extract=extract_features,
    )


def features_bytes(count: int, feature_dim: int) -> int:
    """Disk that the float32 features of ``count`` images take; 0 if they are not kept."""
    size = 4 * count * feature_dim
    return size if size <= FEATURES_LIMIT else 0


@torch.no_grad()
def loss_metrics(
    model: SimCLR, loss: nn.Module, images: ImageSet, config: VisionConfig
) -> list[Metric]:
    """The loss's sharpness and the embedding's geometry, on batches as training would see next.

    The images, their order and their views are those that an epoch after the last would begin
    with; the network takes them as in training, with the statistics of each batch, and stays as it
    is.

    Args:
        model: the trained network.
        loss: the run's loss as training left it. One that the sharpness is not known of (a test's
            own) has no metrics.
        images: of the contrastive training.
        config: of the run.

    Returns:
        Those that the loss has, each the mean over :data:`LOSS_BATCHES` batches, with split
        ``"train"``: ``negative_entropy`` (mean entropy of the gradient over negatives, in nats),
        ``mean_lambda``, with labels ``same_class_push`` (share of the push on negatives that falls
        on the anchor's own class), and those of :func:`weince_lib.evaluation.geometry`. Records of
        InfoNCE and WEINCE from before 2026-12-01 lack the last two kinds.
    """
    if not isinstance(loss, KNOWN):
        return []
    device = next(model.parameters()).device
    network = copy.deepcopy(model).train()
    augment = augmentation(config.dataset)
    generator = epoch_generator(config.seed, config.epochs, device)
    order = torch.randperm(len(images), generator=generator, device=device).cpu()
    names = ("negative_entropy", "mean_lambda", "same_class_push")
    found: list[dict[str, float]] = []
    for rows in order.split(config.batch_size)[:LOSS_BATCHES]:
        if len(rows) == config.batch_size:
            views = augment(images.images[rows].to(device), generator)
            labels = images.labels[rows] if images.classes else None
            z = network(views[0]), network(views[1])
            pushed = sharpness(loss, *z, labels)
            found.append({name: getattr(pushed, name) for name in names} | geometry(*z))
    means = {name: statistics.fmean(row[name] for row in found) for name in found[0]}
    return [Metric(name, mean, "train") for name, mean in means.items() if not math.isnan(mean)]
