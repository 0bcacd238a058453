"""The contrastive training loop: one batch over any number of processes, resumable at any step.

All randomness of epoch ``e`` (order and augmentation) comes from a generator seeded by the run's
seed and ``e`` alone, and every process draws it for the whole batch. So a run that was stopped and
resumed sees the same batches as one that was not, and several processes see those of one.

A resumed run ends in the same bits as one that was not stopped on one machine: the same processor,
builds of torch and its libraries, number of threads and processes. Elsewhere sums are rounded
otherwise, and training enlarges that: two machines' encoders from one seed differ as seeds do.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ..errors import InputError, WeinceError
from ..losses import TailMonitor, WEINCELoss
from .augment import TwoViewAugment
from .batch_norm import synchronised_batch_norm
from .checkpoints import (
    CheckpointError,
    EpochProgress,
    load_checkpoint,
    restore_loss,
    restore_model,
    restore_optimizer,
    save_checkpoint,
    snapshot_path,
)
from .execution import Batches, Execution
from .processes import ProcessError, current_world
from .sharing import Augment, shared_forward, shared_views
from .steps import adam, queued_step, train_step
from .stopping import TrainingInterrupted, stop_requests

#: Steps between two looks at the losses on an accelerator, and at the other processes' wishes.
CHECK_EVERY = 50


class NonFiniteLossError(WeinceError):
    """The loss became NaN or infinite; the message names the step and the last good checkpoint."""


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
        precision: ``"float32"``, or ``"bfloat16"`` for autocast in the encoder; the loss always
            computes its cosines in float32.
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


def epoch_generator(seed: int, epoch: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator of one epoch's order and augmentation, on the device that trains."""
    return torch.Generator(device).manual_seed(seed * 1_000_003 + epoch)


def runs_ahead(device: torch.device) -> bool:
    """Whether the host queues steps for the device and looks at their losses only now and then."""
    return device.type == "cuda"


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
        checkpoint: file written after every epoch, now and then within one, and at Ctrl-C, and
            resumed from if it is there, by the first process of a group; to the same bits on one
            machine with one build of torch.
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
        CheckpointError: if the checkpoint is truncated, belongs to another config or model, or
            cannot be written.
        NonFiniteLossError: as soon as a step's loss is seen not to be finite.
        TrainingInterrupted: after SIGINT (Ctrl-C) or SIGTERM, once the step is done and a
            checkpoint written; without ``checkpoint`` signals do what they did before.
    """
    if len(images) < settings.batch_size:
        raise InputError(
            f"{len(images)} images make no batch of {settings.batch_size}; lower batch_size"
        )
    with ExitStack() as stack:
        run = _Run(model, loss, images, augment, settings, checkpoint, device, execution, stack)
        run.snapshots = frozenset(snapshots)
        run.resume(json.dumps(dict(fingerprint or {}), sort_keys=True))
        # On a terminal the bar shows; disable=None hides it everywhere else (batch, notebooks).
        bar = tqdm(
            total=settings.epochs,
            initial=len(run.history),
            unit="epoch",
            disable=None if run.world.first else True,
        )
        stack.callback(bar.close)
        for epoch in range(len(run.history), settings.epochs):
            row = run.epoch(epoch)
            bar.update()
            shown = {n: v for n, v in row.items() if n in ("loss", "lam", "beta", "rho")}
            bar.set_postfix({name: f"{value:.3f}" for name, value in shown.items()})
        return run.history


class _Run:
    """What one call of :func:`train` works with."""

    def __init__(
        self,
        model: nn.Module,
        loss: nn.Module,
        images: Tensor,
        augment: Augment,
        settings: TrainingSettings,
        checkpoint: Path | None,
        device: torch.device | str,
        execution: Execution | None,
        stack: ExitStack,
    ) -> None:
        self.model, self.loss, self.settings, self.checkpoint = model, loss, settings, checkpoint
        self.execution = execution or Execution()
        self.world = current_world()
        self.share = self.world.share(settings.batch_size)
        if self.world.size > 1 and not getattr(loss, "gather_distributed", False):
            raise ProcessError(
                f"{self.world.size} processes, but the loss sees its own process's negatives only; "
                "make it with gather_distributed=True"
            )
        self.device = torch.device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.ahead = runs_ahead(self.device)
        self.steps = len(images) // settings.batch_size
        self.layout = self.execution.layout(self.device, model)
        model.to(self.device).to(memory_format=self.layout).train()
        loss.to(self.device)
        self.optimizer = adam(
            model, settings.learning_rate, settings.weight_decay, fused=self.ahead
        )
        self.batches = Batches(images, self.device, self.execution)
        #: Whether views can be made of a share of the batch; else all make all, and cut.
        self.shares = isinstance(augment, TwoViewAugment)
        self.views = shared_views(augment, self.world, self.share, compiled=self.execution.compile)
        self.monitor: TailMonitor | None = None
        if isinstance(loss, WEINCELoss):
            self.monitor = TailMonitor(loss.settings.evidence_margin)
        self.refused = torch.zeros((), device=self.device)
        self.history: list[dict[str, float]] = []
        self.progress = EpochProgress()
        self.stamp = "{}"
        self.snapshots: frozenset[int] = frozenset()
        self.saved = time.monotonic()
        if self.device.type == "cuda":
            # Batches are all of one shape: the fastest algorithm is worth looking for once.
            stack.callback(
                setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark
            )
            torch.backends.cudnn.benchmark = True
        if self.world.size > 1:
            stack.enter_context(synchronised_batch_norm(model))
        self.forward = shared_forward(
            model, self.world, self.device, compiled=self.execution.compile
        )
        self.stop = stack.enter_context(stop_requests(active=checkpoint is not None))

    def resume(self, stamp: str) -> None:
        """Continue from the checkpoint, if there is one."""
        self.stamp = stamp
        if self.checkpoint is not None and self.checkpoint.exists():
            state = load_checkpoint(self.checkpoint, stamp)
            restore_model(self.model, state, self.checkpoint)
            restore_optimizer(self.optimizer, state, self.checkpoint)
            restore_loss(self.loss, state, self.checkpoint)
            self.history, self.progress = state["history"], state["progress"]
        self.world.wait()  # nobody writes before all have read

    def epoch(self, epoch: int) -> dict[str, float]:
        """Take the epoch's steps that are left, and write a checkpoint."""
        generator = epoch_generator(self.settings.seed, epoch, self.device)
        order = torch.randperm(
            self.batches.images.shape[0], generator=generator, device=self.device
        )
        first = len(self.progress.losses)
        if self.monitor is not None:
            self.monitor.reset()
            if first and self.progress.monitor:
                self.monitor.restore(self.progress.monitor)
        kept = self.progress.generator
        # Another kind of device has generators of another kind; there the epoch's numbers go on
        # from its start, with other images.
        if first and kept is not None and kept.shape == generator.get_state().shape:
            generator.set_state(kept)
        queued: list[Tensor | float] = []
        rows = [self._own_rows(order, step) for step in range(first, self.steps)]
        for step, batch in enumerate(self.batches.epoch(rows), start=first):
            view0, view1 = self.views(batch, generator)
            queued.append(self._step((view0, view1)))
            last = step + 1 == self.steps
            looks = last or not self.ahead or len(queued) >= CHECK_EVERY
            # One process alone may stop at once; several have to agree on the step.
            if looks or (self.stop.asked and self.world.size == 1):
                self._take(queued, epoch)
                queued = []
                if not last:
                    self._save_within(epoch, generator)
        losses = self.progress.losses
        tail = {} if self.monitor is None else self.monitor.summary()
        self.history.append({"loss": sum(losses) / self.steps} | tail)
        self.progress = EpochProgress()
        self._save()
        stop = self.world.any(self.stop.asked, device=self.device)[0]
        if stop and len(self.history) < self.settings.epochs:
            self._interrupt()
        return self.history[-1]

    def _own_rows(self, order: Tensor, step: int) -> Tensor:
        start, size = step * self.settings.batch_size, self.settings.batch_size
        if self.shares:
            start, size = start + self.world.rank * self.share, self.share
        return order[start : start + size]

    def _step(self, views: tuple[Tensor, Tensor]) -> Tensor | float:
        views = (views[0].to(memory_format=self.layout), views[1].to(memory_format=self.layout))
        common = (self.forward, self.loss, self.optimizer, views, self.settings.precision)
        if self.ahead:
            return queued_step(*common, self.refused, self.monitor, self.world)
        return train_step(*common, self.device, self.monitor, self.world)

    def _take(self, queued: list[Tensor | float], epoch: int) -> None:
        """Read the losses of the steps since the last look; stop at one that is not finite."""
        if queued and isinstance(queued[0], Tensor):
            queued = torch.stack(queued).tolist()  # type: ignore[arg-type]
        for value in queued:
            step = len(self.progress.losses)
            if not math.isfinite(value):
                there = self.checkpoint is not None and self.checkpoint.exists()
                raise NonFiniteLossError(
                    f"loss {value}, or a gradient that is not finite, at step "
                    f"{epoch * self.steps + step} (epoch {epoch}, step {step} of {self.steps}); "
                    f"last good checkpoint: {self.checkpoint if there else 'none'}"
                )
            self.progress.losses.append(float(value))

    def _save_within(self, epoch: int, generator: torch.Generator) -> None:
        """Write a checkpoint within an epoch, if a stop was asked for or the last is old."""
        if self.checkpoint is None:
            return
        old = time.monotonic() - self.saved > 60 * self.execution.save_minutes
        stop, old = self.world.any(self.stop.asked, old, device=self.device)
        if stop or old:
            self.progress.generator = generator.get_state()
            self.progress.monitor = {} if self.monitor is None else self.monitor.state()
            self._save()
        if stop:
            self._interrupt()

    def _save(self) -> None:
        """Write a checkpoint by the first process; all learn whether it worked."""
        if self.checkpoint is None:
            return
        error: CheckpointError | None = None
        common = self.stamp, self.model
        if self.world.first:
            try:
                save_checkpoint(
                    self.checkpoint,
                    *common,
                    self.optimizer,
                    self.history,
                    self.progress,
                    self.loss,
                )
                done = len(self.history)
                if not self.progress.losses and done in self.snapshots:
                    at = snapshot_path(self.checkpoint, done)
                    save_checkpoint(at, *common, None, self.history, resumed_from=self.checkpoint)
            except CheckpointError as caught:
                error = caught
        failed = self.world.any(error is not None, device=self.device)[0]
        if failed:
            raise error or CheckpointError(
                f"{self.checkpoint}: could not be written; see the first process's error"
            )
        self.saved = time.monotonic()

    def _interrupt(self) -> None:
        step = len(self.progress.losses)
        raise TrainingInterrupted(
            f"stopped after {len(self.history)} of {self.settings.epochs} epochs and {step} of "
            f"{self.steps} steps; {self.checkpoint} is written, run again to continue"
        )
