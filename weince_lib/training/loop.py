"""The training loop that can be stopped after any step and resumed from there.

All randomness of a step comes from the run's seed and the step's place, or from a generator whose
state is kept. So a run that was stopped and resumed sees the same batches as one that was not.

A resumed run ends in the same bits as one that was not stopped on one machine: the same processor,
builds of torch and its libraries, number of threads and processes. Elsewhere sums are rounded
otherwise, and training enlarges that: two machines' encoders from one seed differ as seeds do.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ..errors import WeinceError
from ..losses import AnnealedLoss, TailMonitor, WEINCELoss
from .checkpoints import (
    CheckpointError,
    Progress,
    load_checkpoint,
    restore_loss,
    restore_model,
    restore_optimizer,
    save_checkpoint,
)
from .processes import ProcessError, current_world
from .steps import GuardedOptimizer
from .stopping import TrainingInterrupted, stop_requests

#: Steps between two looks at the losses, and at stop requests of other processes, where the host
#: runs ahead of the device.
CHECK_EVERY = 50


class NonFiniteLossError(WeinceError):
    """The loss became NaN or infinite; the message names the step and the last good checkpoint."""


def epoch_generator(seed: int, epoch: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator of one epoch's order and augmentation, on the device that trains."""
    return torch.Generator(device).manual_seed(seed * 1_000_003 + epoch)


class TrainingLoop:
    """Counts steps, reads losses, writes checkpoints, resumes from them and stops when asked to.

    The caller takes the steps. History gets one row an interval: an epoch, or the steps between two
    evaluations. ::

        with TrainingLoop(model, loss, optimizer, ...) as loop:
            while loop.done < loop.steps:
                for step in loop.interval():
                    loop.took(one_step(step))
                loop.close_interval({"loss": loop.mean_loss()})

    Args:
        model: its weights are kept, and those of a checkpoint put into it.
        loss: a two-view loss. The evidence of a :class:`WEINCELoss` goes to a monitor. Several
            processes need ``gather_distributed=True``.
        optimizer: its moments are kept.
        steps: of the whole run.
        every: steps of an interval; the last one may be shorter.
        epoch_steps: steps of an epoch, for messages.
        checkpoint: resumed from if it is there, and written by the first process. None keeps
            nothing and leaves signals alone.
        fingerprint: what the checkpoint must have been made with (JSON values).
        device: of the model.
        save_minutes: age of the last checkpoint at which a new one is written.
        save_intervals: write one after every interval, too.
        clip_norm: see :class:`GuardedOptimizer`.
        monitor: adds to an interval's row, in place of the tail monitor, which shows the methods
            it needs; the caller updates it.

    Raises:
        ProcessError: for a loss that would see the negatives of its own process only.
        CheckpointError: if the checkpoint is truncated, belongs to another config or model, or
            cannot be written.
        NonFiniteLossError: as soon as a step's loss is seen not to be finite.
        TrainingInterrupted: after SIGINT (Ctrl-C) or SIGTERM, once the step is done and a
            checkpoint written; without a checkpoint signals do what they did before.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        steps: int,
        every: int,
        epoch_steps: int,
        checkpoint: Path | None,
        fingerprint: Mapping[str, Any] | None,
        device: torch.device,
        save_minutes: float,
        save_intervals: bool,
        clip_norm: float = 0.0,
        monitor: Any = None,
    ) -> None:
        self.model, self.loss, self.checkpoint, self.device = model, loss, checkpoint, device
        self.steps, self.every, self.epoch_steps = steps, every, epoch_steps
        self.save_minutes, self.save_intervals = save_minutes, save_intervals
        self.stamp = json.dumps(dict(fingerprint or {}), sort_keys=True)
        self.world = current_world()
        if self.world.size > 1 and not getattr(loss, "gather_distributed", False):
            raise ProcessError(
                f"{self.world.size} processes, but the loss sees its own process's negatives only; "
                "make it with gather_distributed=True"
            )
        if isinstance(loss, AnnealedLoss) and loss.steps is None:
            loss.steps = steps
        tails: TailMonitor | None = None
        if isinstance(loss, WEINCELoss):
            tails = TailMonitor(loss.settings.evidence_margin)
        self.monitor: Any = monitor or tails
        self.optimizer = GuardedOptimizer(
            optimizer, device, world=self.world, monitor=tails, clip_norm=clip_norm
        )
        self.history: list[dict[str, float]] = []
        self.progress = Progress()
        self.generator: torch.Generator | None = None
        self.saved = time.monotonic()
        self._queued: list[Tensor] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Resume, take over the signals and show the bar."""
        if self.checkpoint is not None and self.checkpoint.exists():
            state = load_checkpoint(self.checkpoint, self.stamp)
            restore_model(self.model, state, self.checkpoint)
            restore_loss(self.loss, state, self.checkpoint)
            self.history, self.progress = state["history"], state["progress"]
            if self.done < self.steps:
                restore_optimizer(self.optimizer.optimizer, state, self.checkpoint)
            if self.monitor is not None and self.progress.monitor:
                self.monitor.restore(self.progress.monitor)
        self.world.wait()  # nobody writes before all have read
        self.stop = self._stack.enter_context(stop_requests(active=self.checkpoint is not None))
        # On a terminal the bar shows; disable=None hides it everywhere else (batch, notebooks).
        hide = None if self.world.first else True
        self._bar = tqdm(total=self.steps, initial=self.done, unit="step", disable=hide)
        self._stack.callback(self._bar.close)
        return self

    def __exit__(self, *error: object) -> None:
        """Put back the signals."""
        self._stack.close()

    @property
    def done(self) -> int:
        """Steps taken whose loss has been looked at."""
        return min(len(self.history) * self.every, self.steps) + len(self.progress.losses)

    def interval(self) -> range:
        """The steps that are left of the interval under way."""
        return range(self.done, min((len(self.history) + 1) * self.every, self.steps))

    def keep(self, generator: torch.Generator) -> None:
        """Keep this generator's state in checkpoints; put it where a stopped interval left it."""
        kept, self.generator = self.progress.generator, generator
        # Another kind of device has generators of another kind; there the interval's numbers go on
        # from its start, with other images.
        if kept is not None and kept.shape == generator.get_state().shape:
            generator.set_state(kept)

    def took(self, value: Tensor, *, snapshot: Path | None = None) -> None:
        """Note a step's loss, write what is due, and stop if somebody asked for it.

        The loss has shape ``()``, and is NaN for a step that was refused. With ``snapshot`` the
        weights are written there, too.
        """
        self._queued.append(value)
        last = self.done + len(self._queued) == self.interval().stop
        looks = last or snapshot or not self.optimizer.ahead or len(self._queued) >= CHECK_EVERY
        # One process alone may stop at once; several have to agree on the step.
        if not (looks or (self.stop.asked and self.world.size == 1)):
            return
        for number in torch.stack(self._queued).tolist():
            if not math.isfinite(number):
                there = self.checkpoint is not None and self.checkpoint.exists()
                epoch, within = divmod(self.done, self.epoch_steps)
                raise NonFiniteLossError(
                    f"loss {number}, or a gradient that is not finite, at step {self.done} of "
                    f"{self.steps} (epoch {epoch}, step {within} of {self.epoch_steps}); "
                    f"last good checkpoint: {self.checkpoint if there else 'none'}"
                )
            self.progress.losses.append(float(number))
        self._bar.update(len(self._queued))
        self._queued = []
        if snapshot:
            self.write_weights(snapshot)
        if not last:
            self._save_if_due()

    def mean_loss(self) -> float:
        """Mean loss of the interval's steps."""
        return sum(self.progress.losses) / len(self.progress.losses)

    def close_interval(self, row: dict[str, float], *, snapshot: Path | None = None) -> None:
        """Add a row to the history, with the monitor's numbers, and write what is due.

        With ``snapshot`` the weights are written there, too.
        """
        if self.monitor is not None:
            row = row | self.monitor.summary()
            self.monitor.reset()
        self.history.append(row)
        self.progress = Progress()
        self.generator = None
        shown = {n: v for n, v in row.items() if n in ("loss", "lam", "beta", "rho", "dev")}
        self._bar.set_postfix({name: f"{value:.3f}" for name, value in shown.items()})
        if self.save_intervals:
            self._save()
        if snapshot:
            self.write_weights(snapshot)
        if self.done < self.steps:
            self._save_if_due()

    def write_weights(self, path: Path) -> None:
        """Write weights and history without the optimiser's moments; no run continues from it."""
        self._write(path, None, None)

    def _save_if_due(self) -> None:
        """Write a checkpoint if a stop was asked for or the last is old; then stop."""
        if self.checkpoint is None:
            return
        old = time.monotonic() - self.saved > 60 * self.save_minutes
        stop, old = self.world.any(self.stop.asked, old, device=self.device)
        if stop or old:
            self._save()
        if stop:
            epoch, within = divmod(self.done, self.epoch_steps)
            raise TrainingInterrupted(
                f"stopped after {self.done} of {self.steps} steps ({epoch} of "
                f"{self.steps // self.epoch_steps} epochs and {within} of {self.epoch_steps} "
                f"steps); {self.checkpoint} is written, run again to continue"
            )

    def _save(self) -> None:
        if self.generator is not None:
            self.progress.generator = self.generator.get_state()
        if self.monitor is not None and self.progress.losses:
            self.progress.monitor = self.monitor.state()
        if self.checkpoint is not None:
            self._write(self.checkpoint, self.optimizer.optimizer, self.loss)
        self.saved = time.monotonic()

    def _write(
        self, path: Path, optimizer: torch.optim.Optimizer | None, loss: nn.Module | None
    ) -> None:
        """Write by the first process; all learn whether it worked."""
        if self.checkpoint is None:
            return
        error: CheckpointError | None = None
        if self.world.first:
            try:
                save_checkpoint(
                    path,
                    self.stamp,
                    self.model,
                    optimizer,
                    self.history,
                    self.progress,
                    loss,
                    resumed_from=self.checkpoint,
                )
            except CheckpointError as caught:
                error = caught
        if self.world.any(error is not None, device=self.device)[0]:
            raise error or CheckpointError(
                f"{self.checkpoint}: could not be written; see the first process's error"
            )
