"""Checkpoints of training: safetensors, so that reading one can never run code.

A file holds tensors under ``model/``, ``optimizer/``, ``loss/`` (of a loss that keeps a state) and
``generator``, and in its header, as JSON, the fingerprint of the run, the history of finished
epochs, and how far the epoch under way has come. It says nothing of processes or devices, so that a
run may continue on others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from .. import files
from ..errors import WeinceError

#: Raise it when the meaning of the parts changes.
FORMAT = "weince-checkpoint-1"


class CheckpointError(WeinceError):
    """A checkpoint that cannot be resumed from or written; the message names it and the remedy."""


def _of_another(path: Path, what: str, how: object) -> CheckpointError:
    """The error for a checkpoint that belongs to another run."""
    return CheckpointError(
        f"{path}: belongs to another {what} ({how}); use another folder, or remove it to train "
        "from the start"
    )


@dataclass
class Progress:
    """How far the interval of the history that is under way has come.

    Attributes:
        losses: of its finished steps.
        generator: state of the generator after them; ``None`` before the first.
        monitor: state of the tail monitor, for WEINCE.
    """

    losses: list[float] = field(default_factory=list)
    generator: Tensor | None = None
    monitor: dict[str, Any] = field(default_factory=dict)


def save_checkpoint(
    path: Path,
    stamp: str,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    history: list[dict[str, float]],
    progress: Progress | None = None,
    loss: nn.Module | None = None,
    *,
    resumed_from: Path | None = None,
) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: the file.
        stamp: canonical JSON of the run's fingerprint.
        model: its parameters and buffers are kept.
        optimizer: likewise; without one no run can continue from the file.
        history: rows of the finished intervals.
        progress: of the interval under way; ``None`` between two.
        loss: its buffers are kept, such as a running mean; most losses have none.
        resumed_from: the file a run continues from, if it is not ``path``, for the error.

    Raises:
        CheckpointError: if the file cannot be written, on a full disk for instance; what was there
            before stays as it was.
    """
    progress = progress or Progress()
    empty: dict[str, Any] = {"state": {}, "param_groups": []}
    state = empty if optimizer is None else optimizer.state_dict()
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for number, values in state["state"].items():
        tensors |= {f"optimizer/{number}/{name}": value for name, value in values.items()}
    if loss is not None:
        tensors |= {f"loss/{name}": value for name, value in loss.state_dict().items()}
    if progress.generator is not None:
        tensors["generator"] = progress.generator
    parts = {
        "history": history,
        "optimizer": state["param_groups"],
        "losses": progress.losses,
        "monitor": progress.monitor,
    }
    header = {name: json.dumps(value) for name, value in parts.items()}
    # A tensor that two names share, or with another memory layout, has to be a copy of its own.
    own = {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()
    }
    content = save(own, {"format": FORMAT, "fingerprint": stamp, **header})
    try:
        with files.replacing(path) as aside:
            aside.write_bytes(content)
    except OSError as error:
        last = resumed_from or path
        kept = "the last good one is still there" if last.exists() else "none was written before"
        raise CheckpointError(
            f"{path}: a checkpoint of {len(content) / 2**20:.0f} MiB could not be written "
            f"({error.strerror or error}); {kept}. Make room and run again to continue"
        ) from error


def load_checkpoint(path: Path, stamp: str | None = None) -> dict[str, Any]:
    """Read a checkpoint (tensors and plain values only; no code is run).

    Args:
        path: the file.
        stamp: canonical JSON of the expected fingerprint; ``None`` skips the comparison.

    Returns:
        ``fingerprint``, ``model``, ``optimizer`` and ``loss`` (state dictionaries), ``history``,
        and ``progress`` (an :class:`Progress`).

    Raises:
        CheckpointError: if it is truncated, not a checkpoint, or of another config, in which case
            the settings that differ are named.
    """
    try:
        content = _read(path)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:
        # A damaged file raises many kinds (safetensors, JSON, keys).
        raise CheckpointError(
            f"{path}: truncated or not a checkpoint ({type(error).__name__}); "
            "remove it to train from the start"
        ) from error
    found = content["fingerprint"]
    if stamp is not None and found != stamp:
        raise _of_another(path, "config", _difference(found, stamp))
    return content


def _read(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        if header.get("format") != FORMAT:
            raise SafetensorError(f"format {header.get('format')!r}")
        # Views of the mapped file would change with the file.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    losses, monitor, groups, history = (
        json.loads(header[name]) for name in ("losses", "monitor", "optimizer", "history")
    )
    model, loss = (
        {n.removeprefix(part): v for n, v in tensors.items() if n.startswith(part)}
        for part in ("model/", "loss/")
    )
    if not model:
        raise KeyError("model")
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer/"):
            _, number, part = name.split("/")
            state.setdefault(int(number), {})[part] = value
    return {
        "fingerprint": header["fingerprint"],
        "model": model,
        "optimizer": {"state": dict(sorted(state.items())), "param_groups": groups},
        "loss": loss,
        "history": history,
        "progress": Progress(losses, tensors.get("generator"), monitor),
    }


def restore_model(model: nn.Module, content: dict[str, Any], path: Path) -> None:
    """Put a checkpoint's weights into a model, or leave the model as it is and say why not.

    Raises:
        CheckpointError: for weights of another model; the first tensor that differs is named.
    """
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in content["model"].items()}
    if wanted != found:
        names = [n for n in [*wanted, *found] if wanted.get(n) != found.get(n)]
        name = names[0]
        first = f"{name} is {found.get(name, 'absent')}, wanted {wanted.get(name, 'absent')}"
        raise _of_another(path, "model", f"{first}; {len(set(names))} tensors differ")
    model.load_state_dict(content["model"])


def restore_loss(loss: nn.Module, content: dict[str, Any], path: Path) -> None:
    """Put a checkpoint's state into its loss; ``CheckpointError`` if it keeps another state."""
    if content["loss"].keys() != loss.state_dict().keys():
        states = f"its state is {sorted(content['loss'])}, wanted {sorted(loss.state_dict())}"
        raise _of_another(path, "loss", states)
    loss.load_state_dict(content["loss"])


def restore_optimizer(
    optimizer: torch.optim.Optimizer, content: dict[str, Any], path: Path
) -> None:
    """Put a checkpoint's moments into the optimiser; ``CheckpointError`` for other parameters."""
    # How the steps are computed is the new run's affair; only what they compute is kept.
    own: list[dict[str, Any]] = [
        {n: g[n] for n in ("fused", "foreach") if n in g} for g in optimizer.param_groups
    ]
    try:
        optimizer.load_state_dict(content["optimizer"])
    except (KeyError, ValueError) as error:
        raise _of_another(path, "model", error) from error
    for group, kept in zip(optimizer.param_groups, own, strict=True):
        group.update(kept)
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            # Fused steps want moments in the memory layout of their parameter.
            if value.shape == parameter.shape and value.ndim:
                values[name] = torch.empty_like(parameter).copy_(value)
            elif group.get("fused"):
                values[name] = value.to(parameter.device)


def _difference(found: str, wanted: str) -> str:
    """The settings in which two fingerprints differ, in words."""
    have, want = json.loads(found), json.loads(wanted)
    absent = "absent"
    both = {
        n: (have.get(n, absent), want.get(n, absent)) for n in sorted(have.keys() | want.keys())
    }
    return ", ".join(f"{n} is {h!r}, wanted {w!r}" for n, (h, w) in both.items() if h != w)
