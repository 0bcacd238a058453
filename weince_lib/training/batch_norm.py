"""Batch normalisation over the batch of all processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


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

    ``torch.nn.SyncBatchNorm`` is the faster choice on CUDA and exists nowhere else. Batches must be
    of one size on all processes; then mean and variance over all are means over processes. Two
    passes, mean first, so that no variance is a difference of large numbers.

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
            self._track(mean.detach(), variance.detach(), x.numel() // x.shape[1])
        y = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return y.to(x.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics; the variance is the unbiased one, as in torch."""
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        total = count * dist.get_world_size()
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
            unbiased = variance * (total / max(total - 1, 1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


@contextmanager
def synchronised_batch_norm(model: nn.Module) -> Iterator[None]:
    """Let a model's batch normalisation see the batch of all processes, inside the block.

    torch's own ``SyncBatchNorm`` where the layer is on a CUDA device, :class:`GlobalBatchNorm`
    elsewhere. The layers that were there are put back afterwards; they share weights and running
    statistics with those that stood in, so that nothing is lost.
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
