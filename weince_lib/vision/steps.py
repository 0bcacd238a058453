"""One optimiser step of contrastive training, and what is done about numbers that are not finite.

A step whose embeddings, loss or gradient are not finite is never taken. On a CPU the host looks at
each step. On an accelerator looking would leave the device idle, so there the step is skipped on
the device itself, with all that follow, and the host reads a row of losses now and then.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..losses import TailMonitor, WEINCELoss
from .processes import World

Views = tuple[Tensor, Tensor]


def adam(
    model: nn.Module, learning_rate: float, weight_decay: float, *, fused: bool
) -> torch.optim.Adam:
    """The paper's optimiser: Adam with the weight decay added to the gradient (appendix F.2)."""
    return torch.optim.Adam(
        model.parameters(), learning_rate, weight_decay=weight_decay, fused=fused or None
    )


def train_step(
    model: nn.Module,
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    views: Views,
    precision: str,
    device: torch.device | str,
    monitor: TailMonitor | None = None,
    world: World | None = None,
) -> float:
    """One optimiser step on two augmented views; each view has its own batch statistics.

    Returns the loss, over all processes; a WEINCE loss's evidence goes to ``monitor``. The step is
    not taken, and the loss given as NaN, if embeddings, loss or gradient are not finite, so that
    the weights stay good.
    """
    world, device = world or World(), torch.device(device)
    z0, z1 = _embed(model, views, precision, device)
    finite = bool(torch.isfinite(z0).all() & torch.isfinite(z1).all())
    # What one process finds all have to know, or the others would wait for it for ever.
    if world.any(not finite, device=device)[0]:
        return math.nan
    value = _loss(loss, z0, z1, monitor, world)
    number = (world.sum(value.detach()) / world.size).item()
    if math.isfinite(number):
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        # A finite loss can have a gradient that is not, and one such step spoils every weight.
        if not bool(torch.isfinite(_gradient_norm(optimizer))):
            return math.nan
        optimizer.step()
    return number


def queued_step(
    model: nn.Module,
    loss: nn.Module,
    optimizer: torch.optim.Optimizer,
    views: Views,
    precision: str,
    refused: Tensor,
    monitor: TailMonitor | None = None,
    world: World | None = None,
) -> Tensor:
    """:func:`train_step` without waiting for the device.

    Args:
        model: the network.
        loss: the loss; one that validates its input waits for the device by itself.
        optimizer: a fused one, which can skip a step on the device.
        views: the two views, on the device.
        precision: of the encoder.
        refused: 1 once a step was refused, else 0; shape ``()``, float32, written to. The steps
            after a refused one are refused too.
        monitor: takes a WEINCE loss's evidence.
        world: the processes.

    Returns:
        The loss on the device, NaN if the step was refused.
    """
    world = world or World()
    z0, z1 = _embed(model, views, precision, refused.device)
    value = _loss(loss, z0, z1, monitor, world)
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    finite = torch.isfinite(z0).all() & torch.isfinite(z1).all() & torch.isfinite(value)
    finite &= torch.isfinite(_gradient_norm(optimizer))
    number, bad = world.sum(torch.stack([value.detach().float(), (~finite).float()])).unbind()
    refused.copy_(torch.maximum(refused, (bad > 0).float()))
    # What a gradient scaler sets; a fused step reads it on the device.
    optimizer.found_inf = refused  # type: ignore[attr-defined]
    optimizer.step()
    return torch.where(refused > 0, math.nan, number / world.size)


def _embed(model: nn.Module, views: Views, precision: str, device: torch.device) -> Views:
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        z0, z1 = (model(view.to(device)) for view in views)
    return z0, z1


def _loss(
    loss: nn.Module, z0: Tensor, z1: Tensor, monitor: TailMonitor | None, world: World
) -> Tensor:
    if monitor is None or not isinstance(loss, WEINCELoss):
        value: Tensor = loss(z0, z1)
        return value
    value, evidence = loss(z0, z1, return_evidence=True)
    monitor.update(world.everyones(evidence))
    return value


def _gradient_norm(optimizer: torch.optim.Optimizer) -> Tensor:
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    return torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
