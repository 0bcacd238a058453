"""A process's part in a step: its share of the views, and gradients averaged over all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .augment import TwoViewAugment, apply_parameters
from .processes import World

Augment = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
#: Two forward passes a step: to send buffers before the second would write to what the backward
#: pass of the first still needs, and running statistics agree anyway. torch 2.14 renamed it.
_SYNC_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)


def shared_forward(
    model: nn.Module, world: World, device: torch.device, *, compiled: bool
) -> nn.Module:
    """The model as steps call it: with averaged gradients if there are several processes."""
    forward = model
    if world.size > 1:
        how: dict[str, Any] = {_SYNC_BUFFERS: False}
        own = [device] if device.type == "cuda" else None
        forward = DistributedDataParallel(model, device_ids=own, **how)
    return torch.compile(forward) if compiled else forward  # type: ignore[return-value]


def shared_views(augment: Augment, world: World, share: int, *, compiled: bool) -> Augment:
    """The augmentation as steps call it: it makes this process's views.

    Args:
        augment: a :class:`TwoViewAugment`, which then takes this process's images and draws for
            all; any other takes the whole batch, and its views are cut.
        world: the processes.
        share: images of each.
        compiled: run a :class:`TwoViewAugment` through ``torch.compile``.
    """
    if isinstance(augment, TwoViewAugment):
        apply = torch.compile(apply_parameters) if compiled else None
        return partial(augment.share, part=world.rank, parts=world.size, apply=apply)
    if world.size == 1:
        return augment
    own = slice(world.rank * share, (world.rank + 1) * share)

    def cut(batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        view0, view1 = augment(batch, generator)
        return view0[own], view1[own]

    return cut
