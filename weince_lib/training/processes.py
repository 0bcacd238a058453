"""Training by several processes, as ``torchrun`` starts them: one a device, one batch together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import WeinceError
from ..losses.distributed import gather_constant
from ..losses.evidence import TailEvidence

#: How long a process waits for the others; while the first evaluates, they wait.
PATIENCE = timedelta(hours=12)


class ProcessError(WeinceError):
    """Processes that do not fit the machine or the batch; the message names the mend."""


@dataclass(frozen=True)
class World:
    """This process among those that train together; alone by default.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def share(self, batch_size: int) -> int:
        """Pairs of a batch that each process takes.

        Raises:
            ProcessError: if the batch cannot be split evenly, which the gathered loss needs.
        """
        if batch_size % self.size:
            raise ProcessError(
                f"a batch of {batch_size} pairs cannot be split evenly over {self.size} processes; "
                "start a number of processes that divides batch_size"
            )
        return batch_size // self.size

    def sum(self, values: Tensor) -> Tensor:
        """Sum over processes, on the device; the tensor itself where there is one process."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def any(self, *flags: bool, device: torch.device) -> list[bool]:
        """For each flag whether any process has raised it; waits for the device."""
        if self.size == 1:
            return list(flags)
        raised = torch.tensor(flags, dtype=torch.float32, device=device)
        return [count > 0 for count in self.sum(raised).tolist()]

    def everyones(self, evidence: TailEvidence) -> TailEvidence:
        """The evidence of all processes' anchors, so that its quantiles are the whole batch's."""
        if self.size == 1:
            return evidence
        parts = {f.name: getattr(evidence, f.name) for f in fields(evidence)}
        # rho_0 is the whole batch's already.
        return TailEvidence(**{n: gather_constant(v) if v.ndim else v for n, v in parts.items()})

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.size > 1:
            dist.barrier()


def current_world() -> World:
    """This process's place in the process group; alone where there is none."""
    if dist.is_available() and dist.is_initialized():
        return World(dist.get_rank(), dist.get_world_size())
    return World()


def own_device(device: torch.device | str | None = None) -> torch.device:
    """The device this process trains on.

    Args:
        device: ``None`` for a CUDA device if there is one, else the CPU. ``"cuda"`` without a
            number is the one of torchrun's ``LOCAL_RANK``.

    Raises:
        ProcessError: for more processes on this machine than CUDA devices.
    """
    chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if chosen.type != "cuda" or chosen.index is not None:
        return chosen
    devices = torch.cuda.device_count()
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if processes > devices:
        raise ProcessError(
            f"{processes} processes on this machine but {devices} CUDA device(s); start as many as "
            f"there are (torchrun --nproc-per-node={max(devices, 1)}), or choose device 'cpu'"
        )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def join_processes(
    device: torch.device | str | None = None,
) -> Iterator[tuple[World, torch.device]]:
    """Join the other processes if ``torchrun`` started this one; alone otherwise.

    A process group that is already there is used and left alone.

    Args:
        device: see :func:`own_device`.

    Yields:
        This process's place, and its device.
    """
    chosen = own_device(device)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    # torchrun's environment, from which a process group knows its members.
    started = {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys()
    if not started or not dist.is_available() or dist.is_initialized():
        yield current_world(), chosen
        return
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE)
    try:
        yield current_world(), chosen
    finally:
        dist.destroy_process_group()
