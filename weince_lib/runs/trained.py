"""A run that is trained once: its record is found, or made by one process or several together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from .. import files
from ..records import store
from ..records.store import Metric, Record
from ..training.processes import World, join_processes

#: The file of a run's last weights, beside its record.
CHECKPOINT = "checkpoint.safetensors"
#: Metrics and details of a record.
Measured = tuple[list[Metric], Mapping[str, Any]]


def trained_once(
    experiment: str,
    settings: Mapping[str, Any],
    train_and_evaluate: Callable[[Path, torch.device, World], Measured | None],
    *,
    labels: Mapping[str, Any],
    check: Callable[[Record], Record],
    device: torch.device | str | None = None,
) -> Record:
    """Train and evaluate, or return the record if these settings have been run before.

    Under ``torchrun`` the processes train together; the first evaluates and writes.

    Args:
        experiment: what the record is filed under.
        settings: the run's config in canonical form, from before its data are read: a file that
            changes during the run does not move its record.
        train_and_evaluate: given the run's folder, this process's device and its place among the
            others; metrics and details in the first process, ``None`` in the others.
        labels: how tables name the run.
        check: refuses a record that is there and is of other data; else returns it.
        device: where to train; a CUDA device if there is one, else the CPU.
    """
    done = store.find(experiment, settings)
    if done is not None:
        return check(done)
    path = store.record_path(experiment, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    with join_processes(device) as (world, own), ExitStack() as stack:
        if world.first:
            # Two notebooks that need the same run at once: the second waits and finds the record.
            stack.enter_context(files.locked(path.parent / ".lock"))
        world.wait()
        if not path.exists():
            started = time.time()
            made = train_and_evaluate(path.parent, own, world)
            if made is not None:
                metrics, details = made
                store.save(
                    experiment, settings, metrics, labels=labels, started=started, details=details
                )
        world.wait()
        return store.read(path)


def finished_checkpoint(experiment: str, settings: Mapping[str, Any], mend: str) -> Path:
    """The file of a finished run's last weights.

    Args:
        experiment: see :func:`trained_once`.
        settings: see :func:`trained_once`.
        mend: what to do first, for the message.

    Raises:
        FileNotFoundError: if the run has not been finished yet.
    """
    record = store.record_path(experiment, settings)
    path = record.with_name(CHECKPOINT)
    if not (record.exists() and path.exists()):
        raise FileNotFoundError(f"{path} is missing; {mend} with this config first")
    return path
