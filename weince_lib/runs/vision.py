"""One vision run from config to record: train, freeze, evaluate."""

from __future__ import annotations

import dataclasses
import shutil
import time
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from .. import files, paths
from ..errors import checking_input
from ..losses import AblationLoss, InfoNCELoss, WEINCELoss
from ..records import store
from ..records.store import Record
from ..vision import (
    Execution,
    ImageSet,
    SimCLR,
    TrainingSettings,
    augmentation,
    build_simclr,
    join_processes,
    load,
    load_checkpoint,
    pretraining_split,
    restore_model,
    train,
)
from ..vision.checkpoints import snapshot_path
from ..vision.datasets import content_of
from ..vision.processes import World, current_world
from .config import VisionConfig, is_own, profile_defaults, profile_stamp
from .fastest import StepForm, step_form
from .loss_metrics import loss_metrics
from .vision_metrics import check_evaluable, evaluate

EXPERIMENT = "vision"
CHECKPOINT = "checkpoint.safetensors"


def training_images(config: VisionConfig) -> ImageSet:
    """The images of a run's contrastive training, which uses no labels; STL-10's have none."""
    return load_images(config, pretraining_split(config.dataset), limit=config.train_limit)


def labelled_images(config: VisionConfig) -> ImageSet:
    """The labelled training images of a run, for probe and kNN.

    They are those of :func:`training_images`, except for STL-10.
    """
    if trains_on_labelled(config):
        return training_images(config)
    return load_images(config, "train")


def trains_on_labelled(config: VisionConfig) -> bool:
    """Whether contrastive training and evaluation use the same images."""
    return pretraining_split(config.dataset) == "train"


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
    :func:`weince_lib.vision.datasets.content_of`: their files are read, not decoded. For a run's
    own record of an earlier version, which holds hashes of the decoded images alone, they are
    decoded too. A measurement of an earlier version is as current as its run's record.

    Args:
        record: of the run, or made from its encoder.
        config: of the run.

    Raises:
        StaleRecordError: for other images.
    """
    now = files_now(config)
    if not now:
        return record
    held = record.details.get("data", {})
    if "train_files" not in held:
        if record.experiment == EXPERIMENT:
            now = {
                split: _decoded_hash(config, split, now[f"{split}_files"])
                for split in ("train", "test")
            }
        elif own := store.find(EXPERIMENT, config.canonical()):
            check_current(own, config)
    # An encoder has not seen the test images, nor has what is measured on it.
    if record.experiment != EXPERIMENT:
        now.pop("test_files", None)
    store.compare_data(record, now, config.dataset)
    return record


@lru_cache(maxsize=64)
def _decoded_hash(config: VisionConfig, split: str, files: str) -> str:
    """Hash of the decoded images; ``files`` makes it another call when they change."""
    limit = config.train_limit if split == "train" else 0
    return load_images(config, split, limit=limit).content_hash()


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
        StaleRecordError: if its data set has other images now.
    """
    record = store.find(EXPERIMENT, config.canonical())
    path = store.record_path(EXPERIMENT, config.canonical()).with_name(CHECKPOINT)
    if record is None or not path.exists():
        raise FileNotFoundError(f"{path} is missing; run 06_train_vision with this config first")
    check_current(record, config)
    model = build_model(config, images)
    restore_model(model, load_checkpoint(path), path)
    return model.eval()


def snapshot_epochs(epochs: int) -> list[int]:
    """Epochs whose weights a run keeps besides its last: 1, 2, 4, 8, ... below ``epochs``."""
    return [2**k for k in range(epochs.bit_length()) if 2**k < epochs]


def models_along_training(config: VisionConfig, images: ImageSet) -> dict[int, SimCLR]:
    """The run's model after 0 epochs (its initial weights), 1, 2, 4, 8, ... and its last epoch.

    A run that was finished before weights were kept is trained once more up to the last epoch
    that is missing. On the CPU and with the build that made the run, this gives the same weights,
    as an epoch's randomness depends on the seed and the epoch alone; elsewhere it is another run.

    Raises:
        FileNotFoundError: if the run has not been finished yet.
    """
    last = trained_model(config, images)
    checkpoint = store.record_path(EXPERIMENT, config.canonical()).with_name(CHECKPOINT)
    epochs = snapshot_epochs(config.epochs)
    missing = [e for e in epochs if not snapshot_path(checkpoint, e).exists()]
    if missing:
        with files.locked(checkpoint.parent / ".lock"), TemporaryDirectory() as folder:
            again = Path(folder) / checkpoint.name
            form = step_form(config, images.images, torch.device("cpu"), checkpoint.parent)
            fresh = build_model(config, images)
            _train(config, fresh, images, again, form, epochs=max(missing))
            for epoch in missing:
                with files.replacing(snapshot_path(checkpoint, epoch)) as aside:
                    shutil.copy(snapshot_path(again, epoch), aside)
    models = {0: build_model(config, images).eval()}
    for epoch in epochs:
        models[epoch] = build_model(config, images)
        models[epoch].load_state_dict(load_checkpoint(snapshot_path(checkpoint, epoch))["model"])
        models[epoch].eval()
    return models | {config.epochs: last}


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
    config: VisionConfig,
    *,
    profile: str,
    device: torch.device | str | None = None,
    execution: Execution | None = None,
    sets: tuple[ImageSet, ImageSet] | None = None,
) -> Record:
    """Train and evaluate, or return the record if this config has been run before.

    A run that was killed continues from its last checkpoint, to the same bits on one machine with
    one build of torch. Under ``torchrun`` the processes
    train together, on one machine; the first evaluates and writes.

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
    profile_defaults(profile)  # an unknown one is better known now than after training
    settings = config.canonical()
    done = store.find(EXPERIMENT, settings)
    if done is not None:
        return check_current(done, config)
    folder = store.record_path(EXPERIMENT, settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    with join_processes(device) as (world, own), ExitStack() as stack:
        if world.first:
            # Two notebooks that need the same run at once: the second waits and finds the record.
            stack.enter_context(files.locked(folder / ".lock"))
        world.wait()
        done = store.find(EXPERIMENT, settings)
        if done is None:
            done = _train_and_evaluate(config, profile, folder, own, world, execution, sets)
        world.wait()
        return done or store.read(store.record_path(EXPERIMENT, settings))


def _train_and_evaluate(
    config: VisionConfig,
    profile: str,
    folder: Path,
    device: torch.device,
    world: World,
    execution: Execution | None,
    sets: tuple[ImageSet, ImageSet] | None,
) -> Record | None:
    """The record, written by the first process; the others have none."""
    started = time.time()
    settings = config.canonical()
    files_before = files_now(config) if world.first else {}
    train_set, test_set = sets or (training_images(config), load_images(config, "test"))
    labelled = train_set if trains_on_labelled(config) else labelled_images(config)
    check_evaluable(labelled, config)  # what would fail after training is better known before
    model = build_model(config, train_set)
    loss = config.build_loss()
    form = step_form(config, train_set.images, device, folder, world)
    history = _train(
        config,
        model,
        train_set,
        folder / CHECKPOINT,
        form,
        loss,
        device=device,
        execution=form.apply(execution),
    )
    if not world.first:
        return None
    return store.save(
        EXPERIMENT,
        settings,
        [
            *evaluate(model, labelled, test_set, config),
            *loss_metrics(model, loss, train_set, config),
        ],
        started=started,
        labels=labels(config, profile),
        details={
            "data": {
                "train": train_set.content_hash(),
                **({} if labelled is train_set else {"labelled": labelled.content_hash()}),
                "test": test_set.content_hash(),
                **files_before,
            },
            "history": history,
            **({"step_form": dataclasses.asdict(form)} if form.machine else {}),
        },
    )


def _train(
    config: VisionConfig,
    model: SimCLR,
    images: ImageSet,
    checkpoint: Path,
    form: StepForm,
    loss: InfoNCELoss | WEINCELoss | AblationLoss | None = None,
    *,
    epochs: int = 0,
    device: torch.device | str | None = None,
    execution: Execution | None = None,
) -> list[dict[str, float]]:
    """Train the run's model, or only the first so many of its epochs, with steps of a form.

    A loss that was passed has the state that training leaves it in.
    """
    loss = loss or config.build_loss()
    if not isinstance(loss, AblationLoss):
        loss.gather_distributed = current_world().size > 1
    return train(
        model,
        loss,
        images.images,
        augmentation(config.dataset),
        TrainingSettings(
            epochs=epochs or config.epochs,
            batch_size=config.batch_size,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            seed=config.seed,
            precision=form.precision,
        ),
        checkpoint=checkpoint,
        fingerprint=config.canonical() | {"data": images.content_hash()},
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
        # 1, 2, 4, ... of the whole run, so that a shorter one keeps its last epoch too.
        snapshots=snapshot_epochs(config.epochs),
        execution=form.apply(execution),
    )
