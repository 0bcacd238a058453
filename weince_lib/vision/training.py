"""The contrastive training loop: checkpoint every epoch, resume to the bit on a CPU.

All randomness of epoch ``e`` (order and augmentation) comes from a generator seeded by the run's
seed and ``e`` alone, so a checkpoint needs no generator state: a run that was killed and resumed
sees the same batches as one that was not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm import tqdm

from .. import files
from ..losses import TailMonitor, WEINCELoss

Augment = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]


class CheckpointError(Exception):
    """A checkpoint that cannot be resumed from; the message names it and the mend."""


class NonFiniteLossError(Exception):
    """The loss became NaN or infinite; the message names the step and the last good checkpoint."""


@dataclass(frozen=True)
class TrainingSettings:
    """How to train; the defaults are the paper's (appendix F.2).

    Attributes:
        epochs: passes over the images.
        batch_size: pairs per step, N. The last incomplete batch of an epoch is dropped: N decides
            how many negatives an anchor has.
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


def epoch_generator(seed: int, epoch: int) -> torch.Generator:
    """The generator of one epoch's order and augmentation."""
    return torch.Generator().manual_seed(seed * 1_000_003 + epoch)


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
) -> list[dict[str, float]]:
    """Train ``model`` in place with ``loss(z0, z1)`` and return one row of history per epoch.

    Args:
        model: maps images to embeddings ``z``.
        loss: a two-view loss; for a :class:`WEINCELoss` the history also holds its evidence.
        images: uint8, shape ``(n, C, H, W)``.
        augment: maps a batch of images and a generator to two float batches.
        settings: see :class:`TrainingSettings`.
        checkpoint: file written after every epoch and resumed from if it is there.
        fingerprint: what the checkpoint must have been made with (JSON values); a checkpoint with
            another one is an error and stays untouched.
        device: where to train.
        snapshots: epochs (counted from 1) after which the weights are also kept in a file of
            their own beside the checkpoint, see :func:`snapshot_path`; none without a checkpoint.

    Returns:
        Per epoch: ``loss`` (mean over steps, nats per anchor), and for WEINCE what a
        :class:`TailMonitor` sums up: ``lam`` (mean lambda), ``beta`` and ``rho`` (medians), their
        quantiles and shares of anchors, each averaged over steps.

    Raises:
        ValueError: if there are fewer images than one batch.
        CheckpointError: if the checkpoint is truncated or belongs to another config.
        NonFiniteLossError: as soon as a step's loss is not finite.
    """
    steps = len(images) // settings.batch_size
    if steps < 1:
        raise ValueError(
            f"{len(images)} images make no batch of {settings.batch_size}; lower batch_size"
        )
    model.to(device).train()
    optimizer = torch.optim.Adam(
        model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    stamp = json.dumps(dict(fingerprint or {}), sort_keys=True)
    history: list[dict[str, float]] = []
    if checkpoint is not None and checkpoint.exists():
        state = load_checkpoint(checkpoint, stamp)
        try:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{checkpoint}: belongs to another model ({str(error).splitlines()[0]}); "
                "use another folder, or remove it to train from the start"
            ) from error
        history = state["history"]
    monitor = TailMonitor(loss.settings.evidence_margin) if isinstance(loss, WEINCELoss) else None
    # On a terminal the bar shows; disable=None hides it everywhere else (batch, notebooks).
    bar = tqdm(total=settings.epochs, initial=len(history), unit="epoch", disable=None)
    for epoch in range(len(history), settings.epochs):
        generator = epoch_generator(settings.seed, epoch)
        order = torch.randperm(len(images), generator=generator)
        losses = []
        if monitor is not None:
            monitor.reset()
        for step in range(steps):
            batch = images[order[step * settings.batch_size : (step + 1) * settings.batch_size]]
            views = augment(batch, generator)
            value = train_step(model, loss, optimizer, views, settings.precision, device, monitor)
            if not math.isfinite(value):
                kept = checkpoint if checkpoint is not None and checkpoint.exists() else "none"
                raise NonFiniteLossError(
                    f"loss {value}, or a gradient that is not finite, at step "
                    f"{epoch * steps + step} (epoch {epoch}, step {step} of {steps}); "
                    f"last good checkpoint: {kept}"
                )
            losses.append(value)
        tail = {} if monitor is None else monitor.summary()
        history.append({"loss": sum(losses) / steps} | tail)
        if checkpoint is not None:
            save_checkpoint(checkpoint, stamp, model, optimizer, history)
            if len(history) in snapshots:
                save_checkpoint(
                    snapshot_path(checkpoint, len(history)), stamp, model, None, history
                )
        bar.update()
        shown = {n: v for n, v in history[-1].items() if n in ("loss", "lam", "beta", "rho")}
        bar.set_postfix({name: f"{value:.3f}" for name, value in shown.items()})
    bar.close()
    return history


def train_step(
    model: nn.Module,
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    views: tuple[Tensor, Tensor],
    precision: str,
    device: torch.device | str,
    monitor: TailMonitor | None = None,
) -> float:
    """One optimiser step on two augmented views; each view has its own batch statistics.

    Returns the loss; a WEINCE loss's evidence goes to ``monitor``. The step is not taken, and the
    loss given as NaN, if embeddings, loss or gradient are not finite, so that the weights stay
    good.
    """
    kind = torch.device(device).type
    with torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16"):
        z0, z1 = (model(view.to(device)) for view in views)
    if not bool(torch.isfinite(z0).all() & torch.isfinite(z1).all()):
        return math.nan
    if monitor is not None and isinstance(loss, WEINCELoss):
        value, evidence = loss(z0, z1, return_evidence=True)
        monitor.update(evidence)
    else:
        value = loss(z0, z1)
    number = value.item()
    if math.isfinite(number):
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        # A finite loss can have a gradient that is not, and one such step spoils every weight.
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if not bool(torch.isfinite(torch.nn.utils.get_total_norm(gradients))):
            return math.nan
        optimizer.step()
    return number


def snapshot_path(checkpoint: Path, epoch: int) -> Path:
    """Where the weights after an epoch are kept: ``epoch-003.pt`` beside the checkpoint."""
    return checkpoint.with_name(f"epoch-{epoch:03d}.pt")


def save_checkpoint(
    path: Path,
    stamp: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    history: list[dict[str, float]],
) -> None:
    """Write a checkpoint, whole or not at all; without an optimiser none can resume from it."""
    content = {
        "fingerprint": stamp,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict() if optimizer is not None else {},
        "history": history,
    }
    with files.replacing(path) as aside:
        torch.save(content, aside)


def load_checkpoint(path: Path, stamp: str | None = None) -> dict[str, Any]:
    """Read a checkpoint (tensors and plain values only; no code is run).

    Args:
        path: the file.
        stamp: canonical JSON of the expected fingerprint; ``None`` skips the comparison.

    Raises:
        CheckpointError: if it is truncated, not a checkpoint, or of another config, in which case
            the settings that differ are named.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        found = content["fingerprint"]
        missing = {"model", "optimizer", "history"} - content.keys()
        if missing:
            raise KeyError(*sorted(missing))
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:
        # torch.load raises many kinds (zip, pickle, EOF, runtime) for a damaged file.
        raise CheckpointError(
            f"{path}: truncated or not a checkpoint ({type(error).__name__}); "
            "remove it to train from the start"
        ) from error
    if stamp is not None and found != stamp:
        raise CheckpointError(
            f"{path}: belongs to another config ({_difference(found, stamp)}); "
            "use another folder, or remove it to train from the start"
        )
    return content


def _difference(found: str, wanted: str) -> str:
    """The settings in which two fingerprints differ, in words."""
    have, want = json.loads(found), json.loads(wanted)
    absent = "absent"
    both = {
        n: (have.get(n, absent), want.get(n, absent)) for n in sorted(have.keys() | want.keys())
    }
    return ", ".join(f"{n} is {h!r}, wanted {w!r}" for n, (h, w) in both.items() if h != w)
