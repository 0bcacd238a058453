"""Training of image encoders: SimCLR's step and run, and a run with labels for comparison.

All randomness of epoch ``e`` (order and augmentation) comes from a generator seeded by the run's
seed and ``e`` alone, and every process draws it for the whole batch: several processes see the
batches of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..errors import InputError
from ..training.loop import TrainingLoop, epoch_generator
from ..training.processes import World, current_world, synchronised_batch_norm
from ..training.steps import GuardedOptimizer, runs_ahead
from .augment import TwoViewAugment, apply_parameters
from .execution import Batches, Execution

#: A batch of images and a generator to two float batches.
Augment = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
#: Two forward passes a step: to send buffers before the second would write to what the backward
#: pass of the first still needs, and running statistics agree anyway. torch 2.14 renamed it.
_SYNC_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)


def snapshot_path(checkpoint: Path, epoch: int) -> Path:
    """Where the weights after an epoch are kept: ``epoch-003.safetensors`` beside it."""
    return checkpoint.with_name(f"epoch-{epoch:03d}.safetensors")


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; the defaults are the paper's (appendix F.2).

    Attributes:
        epochs: passes over the images.
        batch_size: pairs per step over all processes, N. The last incomplete batch of an epoch is
            dropped: N decides how many negatives an anchor has.
        learning_rate: of Adam.
        weight_decay: of Adam, added to the gradient.
        seed: of order and augmentation.
        precision: ``"float32"``, or ``"bfloat16"`` for autocast in the encoder; the loss
            computes in float32 or wider.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 3e-4
    weight_decay: float = 1e-6
    seed: int = 7
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"unknown precision {self.precision!r}; known: float32, bfloat16")


def adam(
    model: nn.Module, learning_rate: float, weight_decay: float, *, fused: bool
) -> torch.optim.Adam:
    """The paper's optimiser: Adam with the weight decay added to the gradient (appendix F.2)."""
    return torch.optim.Adam(
        model.parameters(), learning_rate, weight_decay=weight_decay, fused=fused or None
    )


def train_step(
    images: Tensor,
    generator: torch.Generator,
    augment: Augment,
    model: nn.Module,
    loss: nn.Module,
    optimizer: GuardedOptimizer,
    *,
    precision: str = "float32",
    layout: torch.memory_format = torch.contiguous_format,
) -> Tensor:
    """One step of SimCLR on a batch of images; the learning rate is constant.

    Each view has batch statistics of its own.

    Returns:
        The loss over all processes, shape ``()``; not finite if embeddings, loss or gradient
        are not, and then the weights stay as they are.
    """
    device = optimizer.device
    view0, view1 = augment(images, generator)
    with _autocast(device, precision):
        # The model is the encoder and the projection head after it.
        z0 = model(view0.to(memory_format=layout).to(device))
        z1 = model(view1.to(memory_format=layout).to(device))
    value = optimizer.loss(loss, z0, z1)
    value.backward()
    return optimizer.step(value)


def train(
    model: nn.Module,
    loss: nn.Module,
    images: Tensor,
    augment: Augment,
    settings: TrainingSettings,
    *,
    checkpoint: Path | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    snapshots: Collection[int] = (),
    execution: Execution | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` in place with ``loss(z0, z1)`` and return one row of history per epoch.

    In a process group of several processes each takes its share of every batch, batch
    normalisation sees the batch of all, and gradients are averaged: with a loss that gathers
    (``gather_distributed=True``) the run is that of one process, up to rounding.

    Args:
        model: maps images to embeddings ``z``.
        loss: a two-view loss; for a :class:`WEINCELoss` the history also holds its evidence.
        images: uint8, shape ``(n, C, H, W)``.
        augment: maps a batch of images and a generator to two float batches.
        settings: see :class:`TrainingSettings`.
        checkpoint: file written by the first process after every epoch, now and then within one,
            and at Ctrl-C; resumed from if it is there, to the same bits on one machine with one
            build of torch.
        fingerprint: what the checkpoint must have been made with (JSON values); a checkpoint with
            another one is an error and stays untouched.
        device: where to train.
        snapshots: epochs (counted from 1) after which the weights are also kept in a file of
            their own beside the checkpoint, see :func:`snapshot_path`; none without a checkpoint.
        execution: see :class:`Execution`; it changes speed and rounding alone.

    Returns:
        Per epoch: ``loss`` (mean over steps, nats per anchor), and for WEINCE what a
        :class:`TailMonitor` sums up: ``lam`` (mean lambda), ``beta`` and ``rho`` (medians), their
        quantiles and shares of anchors, each averaged over steps.

    Raises:
        ValueError: if there are fewer images than one batch.
        ProcessError: for processes that cannot share a batch evenly, or a loss that would see the
            negatives of its own process only.
        CheckpointError, NonFiniteLossError, TrainingInterrupted: see :class:`TrainingLoop`.
    """
    device = _device(device)
    execution = execution or Execution()
    world = current_world()
    share = world.share(settings.batch_size)
    # Where views are made of a share of the batch its images are enough.
    cuts = isinstance(augment, TwoViewAugment)
    first, size = (world.rank * share, share) if cuts else (0, settings.batch_size)
    loop, layout = _loop(model, loss, images, settings, device, execution, checkpoint, fingerprint)
    batches = Batches(images, device, execution)
    views = shared_views(augment, world, share, compiled=execution.compile)
    with ExitStack() as stack:
        stack.enter_context(_fastest_algorithms(device))
        if world.size > 1:
            stack.enter_context(synchronised_batch_norm(model))
        forward = shared_forward(model, world, device, compiled=execution.compile)
        stack.enter_context(loop)
        for epoch, generator, order in _epochs(loop, settings, images):
            starts = [step % loop.every * settings.batch_size + first for step in loop.interval()]
            for batch in batches.epoch([order[start : start + size] for start in starts]):
                loop.took(
                    train_step(
                        batch,
                        generator,
                        views,
                        forward,
                        loss,
                        loop.optimizer,
                        precision=settings.precision,
                        layout=layout,
                    )
                )
            wanted = epoch + 1 in snapshots
            at = snapshot_path(checkpoint, epoch + 1) if checkpoint and wanted else None
            loop.close_interval({"loss": loop.mean_loss()}, snapshot=at)
    return loop.history


def train_supervised(
    encoder: nn.Module,
    images: Tensor,
    labels: Tensor,
    augment: TwoViewAugment,
    settings: TrainingSettings,
    *,
    checkpoint: Path | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    execution: Execution | None = None,
) -> list[dict[str, float]]:
    """Train ``encoder`` in place with cross-entropy on a linear classifier of its features h.

    Shows what an encoder's shape and budget can reach. Steps, batches, optimiser and checkpoints
    are those of :func:`train`, with one view of each image instead of two; one process trains.

    Args:
        encoder: a module with an integer ``feature_dim``.
        images: uint8, shape ``(n, C, H, W)``.
        labels: class numbers from 0, shape ``(n,)``.
        augment: makes the views, from the distribution of either of its two.
        settings: as for :func:`train`.
        checkpoint: likewise.
        fingerprint: likewise.
        device: likewise.
        execution: its layout of weights and views and the age of checkpoints count.

    Returns:
        Per epoch ``loss`` (nats per image) and ``accuracy`` (percent, on the views), means over
        steps.

    Raises:
        ValueError, CheckpointError, NonFiniteLossError, TrainingInterrupted: as :func:`train`.
    """
    device = _device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        classifier = nn.Linear(cast(int, encoder.feature_dim), int(labels.max()) + 1)
    model = nn.Sequential(encoder, classifier)
    accuracy = _Accuracy(device)
    loop, layout = _loop(
        model,
        nn.CrossEntropyLoss(),
        images,
        settings,
        device,
        execution or Execution(),
        checkpoint,
        fingerprint,
        monitor=accuracy,
    )
    images, labels = images.to(device), labels.to(device)
    with loop:
        for _, generator, order in _epochs(loop, settings, images):
            for step in loop.interval():
                rows = order[step % loop.every * settings.batch_size :][: settings.batch_size]
                view = augment.view(images[rows], generator).to(memory_format=layout)
                with _autocast(device, settings.precision):
                    logits = model(view)
                value = loop.optimizer.loss(loop.loss, logits.float(), labels[rows])
                value.backward()
                accuracy.update(logits, labels[rows])
                loop.took(loop.optimizer.step(value))
            loop.close_interval({"loss": loop.mean_loss()})
    return loop.history


class _Accuracy:
    """Share of right answers over the steps of an interval, kept in checkpoints."""

    def __init__(self, device: torch.device) -> None:
        self.shares = torch.zeros((), device=device)
        self.steps = 0

    def update(self, logits: Tensor, labels: Tensor) -> None:
        self.shares += (logits.argmax(dim=1) == labels).float().mean()
        self.steps += 1

    def summary(self) -> dict[str, float]:
        return {"accuracy": 100.0 * float(self.shares / self.steps)}

    def reset(self) -> None:
        self.shares.zero_()
        self.steps = 0

    def state(self) -> dict[str, Any]:
        return {"shares": float(self.shares), "steps": self.steps}

    def restore(self, state: dict[str, Any]) -> None:
        self.shares.fill_(state["shares"])
        self.steps = state["steps"]


def _device(device: torch.device | str) -> torch.device:
    """The device with its number."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def _loop(
    model: nn.Module,
    loss: nn.Module,
    images: Tensor,
    settings: TrainingSettings,
    device: torch.device,
    execution: Execution,
    checkpoint: Path | None,
    fingerprint: Mapping[str, Any] | None,
    *,
    monitor: _Accuracy | None = None,
) -> tuple[TrainingLoop, torch.memory_format]:
    """The loop of a run by epochs, and the layout in which model and views are on the device.

    Raises:
        InputError: if there are fewer images than one batch.
    """
    if len(images) < settings.batch_size:
        raise InputError(
            f"{len(images)} images make no batch of {settings.batch_size}; lower batch_size"
        )
    steps = len(images) // settings.batch_size
    model.to(device)
    layout = execution.layout(device, model)
    model.to(memory_format=layout).train()
    loss.to(device)
    fused = runs_ahead(device)
    loop = TrainingLoop(
        model,
        loss,
        adam(model, settings.learning_rate, settings.weight_decay, fused=fused),
        steps=settings.epochs * steps,
        every=steps,
        epoch_steps=steps,
        checkpoint=checkpoint,
        fingerprint=fingerprint,
        device=device,
        save_minutes=execution.save_minutes,
        save_intervals=True,
        monitor=monitor,
    )
    return loop, layout


def _epochs(
    loop: TrainingLoop, settings: TrainingSettings, images: Tensor
) -> Iterator[tuple[int, torch.Generator, Tensor]]:
    """Each epoch that is left, from 0, with its generator and its order of the images."""
    for epoch in range(len(loop.history), settings.epochs):
        generator = epoch_generator(settings.seed, epoch, loop.device)
        order = torch.randperm(len(images), generator=generator, device=loop.device)
        loop.keep(generator)
        yield epoch, generator, order


@contextmanager
def _fastest_algorithms(device: torch.device) -> Iterator[None]:
    """Let cuDNN look once for the fastest algorithm; batches are all of one shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or device.type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def shared_forward(
    model: nn.Module, world: World, device: torch.device, *, compiled: bool
) -> nn.Module:
    """The model as steps call it: with averaged gradients if there are several processes."""
    forward = model
    if world.size > 1:
        how: dict[str, Any] = {_SYNC_BUFFERS: False}
        own = [device] if device.type == "cuda" else None
        forward = DistributedDataParallel(model, device_ids=own, **how)
    return torch.compile(forward) if compiled else forward  # type: ignore[return-value]


def shared_views(augment: Augment, world: World, share: int, *, compiled: bool) -> Augment:
    """The augmentation as steps call it: it makes this process's views.

    A :class:`TwoViewAugment` takes this process's share of the images and draws for all; any other
    takes the whole batch, and its views are cut. ``compiled`` is for the former alone.
    """
    if isinstance(augment, TwoViewAugment):
        apply = torch.compile(apply_parameters) if compiled else None
        return partial(augment, part=world.rank, parts=world.size, apply=apply)
    if world.size == 1:
        return augment
    own = slice(world.rank * share, (world.rank + 1) * share)

    def cut(batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        view0, view1 = augment(batch, generator)
        return view0[own], view1[own]

    return cut
