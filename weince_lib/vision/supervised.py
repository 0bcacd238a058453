"""An encoder trained with labels: what its shape and budget can reach, for comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..training.checkpoints import (
    load_checkpoint,
    restore_model,
    restore_optimizer,
    save_checkpoint,
)
from ..training.loop import NonFiniteLossError, epoch_generator
from ..training.stopping import TrainingInterrupted, stop_requests
from .augment import TwoViewAugment, apply_by_order, apply_parameters, sample_parameters, unit_range
from .execution import Execution
from .training import TrainingSettings, adam


def one_view(augment: TwoViewAugment, images: Tensor, generator: torch.Generator) -> Tensor:
    """One random view of each image, from the distribution of either of the two views.

    Args:
        augment: the settings.
        images: uint8, shape ``(n, C, H, W)``.
        generator: source of all random numbers.

    Returns:
        Float in [0, 1], on the device of ``images``.
    """
    n, _, height, width = images.shape
    size = (augment.output_size, augment.output_size) if augment.output_size else (height, width)
    drawn = sample_parameters(augment, n, height, width, generator)
    if images.device.type == "cpu":
        return apply_by_order(images, drawn, size)
    return apply_parameters(unit_range(images), drawn, size)


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

    Steps, batches, optimiser and augmentation are those of contrastive training, with one view of
    each image instead of two.

    Args:
        encoder: a module with an integer ``feature_dim``.
        images: uint8, shape ``(n, C, H, W)``.
        labels: class numbers from 0, shape ``(n,)``.
        augment: the views, see :func:`one_view`.
        settings: as for :func:`.training.train`; the last incomplete batch is dropped.
        checkpoint: file written after every epoch, and resumed from if it is there.
        fingerprint: what the checkpoint must have been made with (JSON values).
        device: where to train.
        execution: layout of weights and views; the rest of it is for contrastive training.

    Returns:
        Per epoch ``loss`` (nats per image) and ``accuracy`` (percent, on the views), means over
        steps.

    Raises:
        ValueError: if there are fewer images than one batch.
        CheckpointError: if the checkpoint is damaged or belongs to another run.
        NonFiniteLossError: after an epoch in which a loss was not finite; it is not saved.
        TrainingInterrupted: after SIGINT (Ctrl-C) or SIGTERM, once the epoch is done and a
            checkpoint written; without ``checkpoint`` signals do what they did before.
    """
    steps = len(images) // settings.batch_size
    if steps < 1:
        raise ValueError(
            f"{len(images)} images make no batch of {settings.batch_size}; lower batch_size"
        )
    device = torch.device(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        classifier = nn.Linear(cast(int, encoder.feature_dim), int(labels.max()) + 1)
    model = nn.Sequential(encoder, classifier).to(device)
    layout = (execution or Execution()).layout(device, model)
    model.to(memory_format=layout).train()
    optimizer = adam(
        model, settings.learning_rate, settings.weight_decay, fused=device.type == "cuda"
    )
    images, labels = images.to(device), labels.to(device)
    stamp = json.dumps(dict(fingerprint or {}), sort_keys=True)
    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, stamp)
        restore_model(model, state, checkpoint)
        restore_optimizer(optimizer, state, checkpoint)
        history = state["history"]
    with stop_requests(active=checkpoint is not None) as stop:
        for epoch in range(len(history), settings.epochs):
            generator = epoch_generator(settings.seed, epoch, device)
            order = torch.randperm(len(images), generator=generator, device=device)
            batches = order[: steps * settings.batch_size].split(settings.batch_size)
            sums = torch.zeros(2, device=device)
            for rows in batches:
                view = one_view(augment, images[rows], generator).to(memory_format=layout)
                with torch.autocast(
                    device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"
                ):
                    logits = model(view)
                loss = F.cross_entropy(logits.float(), labels[rows])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                right = (logits.argmax(dim=1) == labels[rows]).float().mean()
                sums += torch.stack([loss.detach(), right])
            total, right = (sums / steps).tolist()
            if not math.isfinite(total):
                there = checkpoint is not None and checkpoint.exists()
                raise NonFiniteLossError(
                    f"supervised loss {total} in epoch {epoch}; "
                    f"last good checkpoint: {checkpoint if there else 'none'}"
                )
            history.append({"loss": total, "accuracy": 100.0 * right})
            if checkpoint is not None:
                save_checkpoint(checkpoint, stamp, model, optimizer, history)
            if stop.asked and len(history) < settings.epochs:
                raise TrainingInterrupted(
                    f"stopped after epoch {len(history)} of {settings.epochs}; "
                    f"run again to continue from {checkpoint}"
                )
    return history
