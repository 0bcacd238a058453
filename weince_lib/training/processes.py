"""Training by several processes, as ``torchrun`` starts them: one a device, one batch together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import WeinceError
from ..losses.distributed import gather_constant
from ..losses.evidence import TailEvidence

#: How long a process waits for the others; while the first evaluates, they wait.
PATIENCE = timedelta(hours=12)


class ProcessError(WeinceError):
    """Processes that do not fit the machine or the batch; the message says what to change."""


@dataclass(frozen=True)
class World:
    """This process, number ``rank`` from 0, among ``size`` that train together."""

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

    Yields:
        This process's place, and its device, see :func:`own_device`.
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


class _Average(torch.autograd.Function):
    """Mean of a tensor over processes; its adjoint is the mean of the gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _averaged(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _averaged(grad)


def _averaged(x: Tensor) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total.div_(dist.get_world_size())


class GlobalBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation whose statistics are those of all processes' batches, on any device.

    ``torch.nn.SyncBatchNorm`` is faster on CUDA and exists nowhere else. Batches must be of one
    size on all processes; then mean and variance over all are means over processes. The mean comes
    first, so that no variance is a difference of large numbers.

    Args:
        norm: the layer to stand in for; weights and running statistics are shared with it.
    """

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__(
            norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats
        )
        self.weight, self.bias = norm.weight, norm.bias
        self.running_mean, self.running_var = norm.running_mean, norm.running_var
        self.num_batches_tracked = norm.num_batches_tracked
        self.training = norm.training

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 - torch's name
        if input.ndim < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.ndim}")

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x``, shape ``(n, C, ...)``, as :class:`torch.nn.BatchNorm2d` does."""
        if not self.training:
            return super().forward(x)
        over = (0, *range(2, x.ndim))
        shape = (1, -1, *[1] * (x.ndim - 2))
        wide = x.double() if x.dtype == torch.float64 else x.float()
        mean = _Average.apply(wide.mean(over))
        centred = wide - mean.view(shape)
        variance = _Average.apply(centred.square().mean(over))
        if self.running_mean is not None:
            total = x.numel() // x.shape[1] * dist.get_world_size()
            unbiased = variance.detach() * (total / max(total - 1, 1))  # as torch tracks it
            self._track(self.running_mean, mean.detach(), unbiased)
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(x.dtype)

    @torch.no_grad()
    def _track(self, running_mean: Tensor, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics."""
        assert self.num_batches_tracked is not None and self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        running_mean.lerp_(mean.to(running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


@contextmanager
def synchronised_batch_norm(model: nn.Module) -> Iterator[None]:
    """Let a model's batch normalisation see the batch of all processes, inside the block.

    Layers on a CUDA device become torch's ``SyncBatchNorm``, others :class:`GlobalBatchNorm`. They
    share weights and running statistics with the layers that are put back afterwards.
    """
    swapped: list[tuple[nn.Module, str, nn.Module]] = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                swapped.append((parent, name, child))
                on_cuda = child.weight is not None and child.weight.is_cuda
                convert = nn.SyncBatchNorm.convert_sync_batchnorm if on_cuda else GlobalBatchNorm
                setattr(parent, name, convert(child))
    try:
        yield
    finally:
        for parent, name, child in swapped:
            child.train(parent.training)
            setattr(parent, name, child)
