"""The end of a training step: the loss, and an optimiser step only where all numbers are finite.

A step whose embeddings, loss or gradient are not finite is never taken. On a CPU the host looks at
each step. On an accelerator looking would leave the device idle, so there the step is skipped on
the device itself, with all that follow, and the host reads a row of losses now and then.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..losses import TailMonitor, WEINCELoss
from .processes import World


def runs_ahead(device: torch.device) -> bool:
    """Whether the host queues steps for the device and looks at their losses only now and then."""
    return device.type == "cuda"


class GuardedOptimizer:
    """An optimiser that refuses a step with a number that is not finite, so the weights stay good.

    Args:
        optimizer: a fused one where the host runs ahead, because it can skip a step on the device.
        device: of the model.
        world: the processes; what one of them finds holds for all.
        monitor: takes a WEINCE loss's evidence.
        clip_norm: largest norm of the gradient; 0 leaves it.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        *,
        world: World | None = None,
        monitor: TailMonitor | None = None,
        clip_norm: float = 0.0,
    ) -> None:
        self.optimizer, self.device, self.monitor = optimizer, device, monitor
        self.world = world or World()
        self.clip_norm = clip_norm
        self.ahead = runs_ahead(device)
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        #: 1 once a step was refused, else 0. All steps after a refused one are refused too.
        self.refused = torch.zeros((), device=device)
        self._finite = torch.ones((), dtype=torch.bool, device=device)

    def loss(self, loss: nn.Module, z0: Tensor, z1: Tensor) -> Tensor:
        """The loss of two views' embeddings, shape ``()``; NaN for embeddings that are not finite.

        A WEINCE loss's evidence goes to the monitor.
        """
        self.optimizer.zero_grad(set_to_none=True)
        self._finite = torch.isfinite(z0).all() & torch.isfinite(z1).all()
        if not self.ahead and self.world.any(not bool(self._finite), device=self.device)[0]:
            # The loss would refuse these rows. A NaN with a graph keeps all processes in step.
            return (z0.sum() + z1.sum()) * math.nan
        if self.monitor is None or not isinstance(loss, WEINCELoss):
            value: Tensor = loss(z0, z1)
            return value
        value, evidence = loss(z0, z1, return_evidence=True)
        self.monitor.update(self.world.everyones(evidence))
        return value

    def step(self, value: Tensor) -> Tensor:
        """Take the step whose gradients are there, unless something is not finite.

        Args:
            value: the loss of this process, shape ``()``.

        Returns:
            The loss over all processes, shape ``()``, not finite if the step was refused. Where
            the host runs ahead nothing waits for it.
        """
        value = value.detach()
        grads = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads) if grads else value * math.nan
        # A finite loss can have a gradient that is not, and one such step spoils every weight.
        finite = self._finite & torch.isfinite(value) & torch.isfinite(norm)
        number, bad = self.world.sum(torch.stack([value, (~finite).to(value.dtype)])).unbind()
        self.refused.copy_(torch.maximum(self.refused, (bad > 0).float()))
        if self.clip_norm:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_norm, norm)
        if self.ahead:
            # What a gradient scaler sets; a fused step reads it on the device.
            self.optimizer.found_inf = self.refused  # type: ignore[attr-defined]
            self.optimizer.step()
        elif not self.refused:
            self.optimizer.step()
        number = number / self.world.size
        return torch.where((self.refused > 0) & torch.isfinite(number), math.nan, number)

    def average_gradients(self) -> None:
        """Replace gradients by their mean over processes.

        The gradient of a gathered loss is W times the whole batch's on each process, see
        :mod:`weince_lib.losses.distributed`; the mean is that of one process with the whole batch.
        """
        if self.world.size == 1:
            return
        for parameter in self.parameters:
            # None on one is None on all: models have no data-dependent branches.
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.world.size
