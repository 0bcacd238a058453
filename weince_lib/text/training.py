"""The SimCSE training loop: evaluated every so many steps, the best and the last weights kept.

Resumable at any step, on one process or several, with one batch over all of them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ..errors import InputError
from ..losses import TailMonitor, WEINCELoss
from ..vision.checkpoints import (
    CheckpointError,
    EpochProgress,
    load_checkpoint,
    restore_model,
    restore_optimizer,
    save_checkpoint,
)
from ..vision.processes import ProcessError, current_world
from ..vision.stopping import TrainingInterrupted, stop_requests
from ..vision.training import NonFiniteLossError, epoch_generator
from .recipe import SimCSESettings
from .steps import ChunkPlan, SimCSEStep
from .tokens import TokenisedCorpus, Tokens

__all__ = ["BEST", "CHECK_EVERY", "SimCSESettings", "snapshot", "train_simcse"]

#: Steps between two looks at the losses on an accelerator.
CHECK_EVERY = 50
BEST = "best.safetensors"


def snapshot(checkpoint: Path, step: int) -> Path:
    """Where the weights after a step are kept, beside the checkpoint."""
    return checkpoint.with_name(f"step-{step:07d}.safetensors")


def train_simcse(
    model: nn.Module,
    loss: nn.Module,
    corpus: TokenisedCorpus,
    settings: SimCSESettings,
    evaluate: Callable[[nn.Module], float],
    *,
    checkpoint: Path | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    device: torch.device | str = "cpu",
    snapshots: Collection[int] = (),
    save_minutes: float = 10.0,
) -> list[dict[str, float]]:
    """Train in place and return one row an evaluation.

    Args:
        model: a :class:`.simcse.SimCSE`; moved to the device.
        loss: one-way bipartite for SimCSE; with ``gather_distributed`` for several processes.
        corpus: the sentences.
        settings: see :class:`SimCSESettings`.
        evaluate: gives the score, larger is better, by which the best weights are chosen. Only
            the first process calls it.
        checkpoint: continue from this file, and write it; the best weights lie beside it. To the
            same bits on one machine with one build of torch. None keeps nothing.
        fingerprint: what the run depends on; a checkpoint of another one is refused.
        device: where to train.
        snapshots: steps after which the weights are kept, see :func:`snapshot`.
        save_minutes: age of the last checkpoint at which a new one is written.

    Returns:
        Rows with ``step`` (steps taken), ``loss`` (mean since the row before), ``dev``, and the
        tail monitor's numbers for WEINCE.

    Raises:
        ValueError: if the corpus makes no batch.
        NonFiniteLossError: naming the step; the weights before it are kept.
        TrainingInterrupted: after Ctrl-C or SIGTERM, with the checkpoint written.
        CheckpointError: for a checkpoint of another run, or one that cannot be written.
        ProcessError: for processes that cannot share the batch.
    """
    if len(corpus) < settings.batch_size:
        raise InputError(
            f"{len(corpus)} sentences make no batch of {settings.batch_size}; lower batch_size"
        )
    with ExitStack() as stack:
        run = _Run(model, loss, corpus, settings, evaluate, checkpoint, torch.device(device), stack)
        run.snapshots, run.save_minutes = frozenset(snapshots), save_minutes
        run.resume(json.dumps(dict(fingerprint or {}), sort_keys=True))
        bar = tqdm(
            total=run.steps,
            initial=run.done,
            unit="step",
            disable=None if run.world.first else True,
        )
        stack.callback(bar.close)
        while run.done < run.steps:
            before = run.done
            run.interval()
            bar.update(run.done - before)
            bar.set_postfix({n: f"{run.history[-1][n]:.3f}" for n in ("loss", "dev")})
        run.finish()
        return run.history


class _Run:
    """What one call of :func:`train_simcse` works with."""

    def __init__(
        self,
        model: nn.Module,
        loss: nn.Module,
        corpus: TokenisedCorpus,
        settings: SimCSESettings,
        evaluate: Callable[[nn.Module], float],
        checkpoint: Path | None,
        device: torch.device,
        stack: ExitStack,
    ) -> None:
        self.model, self.corpus, self.settings = model, corpus, settings
        self.evaluate, self.checkpoint, self.device = evaluate, checkpoint, device
        self.world = current_world()
        if self.world.size > 1 and not getattr(loss, "gather_distributed", False):
            raise ProcessError(
                f"{self.world.size} processes, but the loss sees its own process's negatives only; "
                "make it with gather_distributed=True"
            )
        self.plan = ChunkPlan(settings.batch_size, settings.chunk, self.world)
        self.ahead = device.type == "cuda"
        self.per_epoch = len(corpus) // settings.batch_size
        self.steps = settings.epochs * self.per_epoch
        model.to(device).train()
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.step = SimCSEStep(
            model,
            loss,
            self.optimizer,
            self.plan,
            seed=settings.seed,
            device=device,
            precision=settings.precision,
            clip_norm=settings.clip_norm,
        )
        self.monitor: TailMonitor | None = None
        if isinstance(loss, WEINCELoss):
            self.monitor = TailMonitor(loss.settings.evidence_margin)
        self.history: list[dict[str, float]] = []
        self.progress = EpochProgress()
        self.stamp = "{}"
        self.snapshots: frozenset[int] = frozenset()
        self.save_minutes = 10.0
        self.saved = time.monotonic()
        self._order: tuple[int, Tensor] | None = None
        self.stop = stack.enter_context(stop_requests(active=checkpoint is not None))

    @property
    def done(self) -> int:
        """Steps taken whose loss has been looked at."""
        before = int(self.history[-1]["step"]) if self.history else 0
        return before + len(self.progress.losses)

    def resume(self, stamp: str) -> None:
        """Continue from the checkpoint, if there is one."""
        self.stamp = stamp
        if self.checkpoint is not None and self.checkpoint.exists():
            state = load_checkpoint(self.checkpoint, stamp)
            restore_model(self.model, state, self.checkpoint)
            self.history, self.progress = state["history"], state["progress"]
            if self.done < self.steps:
                restore_optimizer(self.optimizer, state, self.checkpoint)
            if self.monitor is not None and self.progress.monitor:
                self.monitor.restore(self.progress.monitor)
        self.world.wait()  # nobody writes before all have read

    def chunks(self, step: int) -> list[Tokens]:
        """This process's chunks of a step's batch."""
        epoch, within = divmod(step, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            generator = epoch_generator(self.settings.seed, epoch)
            self._order = epoch, torch.randperm(len(self.corpus), generator=generator)
        start = within * self.settings.batch_size
        batch = self._order[1][start : start + self.settings.batch_size]
        return [self.corpus.batch(batch[self.plan.rows(chunk)]) for chunk in self.plan.own]

    def interval(self) -> None:
        """The steps up to the next evaluation, and that."""
        start, every = self.done, self.settings.evaluate_every
        end = min((start // every + 1) * every, self.steps)
        queued: list[Tensor] = []
        for step in range(start, end):
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.rate(step, self.steps)
            queued.append(self.step(self.chunks(step), step, self.monitor))
            after = step + 1
            looks = after == end or after in self.snapshots or not self.ahead
            if looks or len(queued) >= CHECK_EVERY:
                self._take(queued)
                queued = []
                if after in self.snapshots:
                    self._write_snapshot(after)
                if after < end:
                    self._save_within()
        self._evaluate()

    def _write_snapshot(self, step: int) -> None:
        self._write(lambda path: self._weights(snapshot(path, step)))

    def _take(self, queued: list[Tensor]) -> None:
        for value in torch.stack(queued).tolist():
            if not math.isfinite(value):
                there = self.checkpoint is not None and self.checkpoint.exists()
                raise NonFiniteLossError(
                    f"loss or gradient not finite at step {self.done} of {self.steps}; "
                    f"last good checkpoint: {self.checkpoint if there else 'none'}"
                )
            self.progress.losses.append(float(value))

    def _evaluate(self) -> None:
        losses, step = self.progress.losses, self.done
        score = torch.zeros((), device=self.device)
        if self.world.first:
            score += self.evaluate(self.model)
            self.model.train()
        dev = float(self.world.sum(score))
        row = {"step": float(step), "loss": sum(losses) / len(losses), "dev": dev}
        best = max((r["dev"] for r in self.history), default=-math.inf)
        if self.monitor is not None:
            row |= self.monitor.summary()
            self.monitor.reset()
        self.history.append(row)
        self.progress = EpochProgress()
        if dev > best:  # the first of equals, as SimCSE keeps
            self._write(lambda p: self._weights(p.with_name(BEST)))
        if step < self.steps:
            self._save_within()

    def finish(self) -> None:
        """The last weights, without the optimiser's moments: nothing continues from here."""
        self._write(self._weights)

    def _weights(self, path: Path) -> None:
        save_checkpoint(path, self.stamp, self.model, None, self.history, self.progress)

    def _save_within(self) -> None:
        if self.checkpoint is None:
            return
        old = time.monotonic() - self.saved > 60 * self.save_minutes
        stop, old = self.world.any(self.stop.asked, old, device=self.device)
        if not (stop or old):
            return
        self.progress.monitor = {} if self.monitor is None else self.monitor.state()
        self._write(
            lambda p: save_checkpoint(
                p, self.stamp, self.model, self.optimizer, self.history, self.progress
            )
        )
        self.saved = time.monotonic()
        if stop:
            raise TrainingInterrupted(
                f"stopped after {self.done} of {self.steps} steps; {self.checkpoint} is written, "
                "run again to continue"
            )

    def _write(self, write: Callable[[Path], None]) -> None:
        """Write by the first process; all learn whether it worked."""
        if self.checkpoint is None:
            return
        error: CheckpointError | None = None
        if self.world.first:
            try:
                write(self.checkpoint)
            except CheckpointError as caught:
                error = caught
        if self.world.any(error is not None, device=self.device)[0]:
            raise error or CheckpointError(
                f"{self.checkpoint}: could not be written; see the first process's error"
            )
