"""What each rank runs for ``test_self_setting``: importable, as spawned processes need it."""

from __future__ import annotations

import datetime
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from weince_lib.losses import ArctanhLoss, ContrastiveLoss, EndpointLoss, HardNegativeLoss
from weince_lib.losses import SelfSettingLoss as Own

N, D, WORLD = 16, 5, 2
MAKE = {
    "endpoint": lambda **o: EndpointLoss(0.3, decoupled=True, **o),
    "tail": lambda **o: Own("tail", **o),
    "median": lambda **o: Own("median", **o),
    "kl": lambda **o: Own("kl", **o),
    "hill": lambda **o: Own("hill-1.5", **o),
    "hard-negatives": lambda **o: HardNegativeLoss(**o),
    "arctanh": lambda **o: ArctanhLoss(**o),
}


def one_case(name: str, rank: int = 0, world: int = 1) -> dict[str, Tensor]:
    """Loss, gradients of a rank's embeddings and state after two steps."""
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(N, D, generator=generator, dtype=torch.float64)
    loss_fn: ContrastiveLoss = MAKE[name](gather_distributed=world > 1)
    mine = slice(rank * N // world, (rank + 1) * N // world)
    for noise in (0.3, 0.6):
        more = torch.randn(2, N, D, generator=generator, dtype=torch.float64)
        z = [(items + noise * m)[mine].requires_grad_() for m in more]
        loss = loss_fn(*z)
    z0, z1 = torch.autograd.grad(loss, z)
    return {"loss": loss.detach(), "z0": z0, "z1": z1, **loss_fn.state_dict()}


def worker(rank: int, folder: str) -> None:
    """Leave what this rank found in a file."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=WORLD,
        timeout=datetime.timedelta(seconds=60),
    )
    torch.save({name: one_case(name, rank, WORLD) for name in MAKE}, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
