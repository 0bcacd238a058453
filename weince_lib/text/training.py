"""The SimCSE training loop: evaluated every so many steps, the best and the last weights kept.

Resumable at any step, on one process or several, with one batch over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..training.loop import TrainingLoop, epoch_generator
from ..training.processes import current_world
from .steps import ChunkPlan, SimCSEStep
from .tokens import TokenisedCorpus

#: The weights that were best on dev lie in this file beside the checkpoint.
BEST = "best.safetensors"


def snapshot(checkpoint: Path, step: int) -> Path:
    """Where the weights after a step are kept, beside the checkpoint."""
    return checkpoint.with_name(f"step-{step:07d}.safetensors")


@dataclass(frozen=True)
class SimCSESettings:
    """How to train; the defaults are SimCSE's for BERT-base (Gao et al. 2021, appendix A).

    Attributes:
        epochs: passes over the corpus.
        batch_size: sentences per step over all processes, N. The last incomplete batch is dropped.
        chunk_size: sentences encoded at a time; 0 for the whole batch. Smaller chunks need less
            memory and have the same candidates, but draw other dropout.
        learning_rate: peak of AdamW's.
        weight_decay: of AdamW, decoupled.
        warm_up: share of the steps in which the rate rises from 0; then it falls linearly to 0.
        clip_norm: largest norm of the gradient, 1 as in the recipe's trainer; 0 does not clip.
        evaluate_every: steps between two evaluations; the last step is always evaluated.
        seed: of order and dropout.
        precision: ``"float32"``, or ``"bfloat16"`` for autocast in the encoder.
    """

    epochs: int = 1
    batch_size: int = 64
    chunk_size: int = 0
    learning_rate: float = 3e-5
    weight_decay: float = 0.0
    warm_up: float = 0.0
    clip_norm: float = 1.0
    evaluate_every: int = 125
    seed: int = 7
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"unknown precision {self.precision!r}; known: float32, bfloat16")
        if not 0.0 <= self.warm_up < 1.0:
            raise ValueError(f"warm_up is a share of the steps in [0, 1), got {self.warm_up}")
        if self.evaluate_every < 1:
            raise ValueError(f"evaluate_every must be 1 or more, got {self.evaluate_every}")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, from 0: linear warm-up, then linear decay to 0."""
        rising = round(self.warm_up * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)


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
        ProcessError: for processes that cannot share the batch.
        CheckpointError, NonFiniteLossError, TrainingInterrupted: see :class:`TrainingLoop`.
    """
    if len(corpus) < settings.batch_size:
        raise InputError(
            f"{len(corpus)} sentences make no batch of {settings.batch_size}; lower batch_size"
        )
    world, device = current_world(), torch.device(device)
    plan = ChunkPlan(settings.batch_size, settings.chunk_size or settings.batch_size, world)
    epoch_steps = len(corpus) // settings.batch_size
    model.to(device).train()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    loop = TrainingLoop(
        model,
        loss,
        optimizer,
        steps=settings.epochs * epoch_steps,
        every=settings.evaluate_every,
        epoch_steps=epoch_steps,
        checkpoint=checkpoint,
        fingerprint=fingerprint,
        device=device,
        save_minutes=save_minutes,
        save_intervals=False,
        clip_norm=settings.clip_norm,
    )
    take_step = SimCSEStep(
        model, loss, loop.optimizer, plan, seed=settings.seed, precision=settings.precision
    )
    order_of = lru_cache(maxsize=1)(partial(_order, settings.seed, len(corpus)))
    with loop:
        while loop.done < loop.steps:
            for step in loop.interval():
                epoch, within = divmod(step, epoch_steps)
                start = within * settings.batch_size
                batch = order_of(epoch)[start : start + settings.batch_size]
                chunks = [corpus.batch(batch[plan.rows(number)]) for number in plan.own]
                for group in optimizer.param_groups:
                    group["lr"] = settings.rate(step, loop.steps)
                wanted = step + 1 in snapshots
                at = snapshot(checkpoint, step + 1) if checkpoint and wanted else None
                loop.took(take_step(chunks, step), snapshot=at)
            dev = torch.zeros((), device=device)
            if world.first:
                dev += evaluate(model)
                model.train()
            row = {"step": float(loop.done), "loss": loop.mean_loss()}
            row["dev"] = float(world.sum(dev))
            # The first of equals is the best, as SimCSE keeps.
            better = row["dev"] > max((r["dev"] for r in loop.history), default=-math.inf)
            best = checkpoint.with_name(BEST) if checkpoint and better else None
            loop.close_interval(row, snapshot=best)
        if checkpoint is not None:
            loop.write_weights(checkpoint)
    return loop.history


def _order(seed: int, count: int, epoch: int) -> Tensor:
    """The sentences of an epoch in their random order."""
    return torch.randperm(count, generator=epoch_generator(seed, epoch))
