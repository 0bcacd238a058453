"""What each rank runs for ``test_distributed``: importable, as spawned processes need it."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weince_lib.losses import (
    PRESETS,
    ArctanhLoss,
    EndpointLoss,
    HardNegativeLoss,
    InfoNCELoss,
    NegativeQueue,
    SelfSettingLoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    weince_loss,
)

N, D, QUEUED, EXTRA = 16, 5, 7, 4
#: Gates that are half open on the small batches of a test, so that lambda is neither 0 nor 1.
SETTINGS: dict[str, TailSettings | None] = {
    "infonce": None,
    **{
        name: dataclasses.replace(
            how, min_tail=8, cap_sharpness=1.0, evidence_sharpness=0.2, evidence_margin=0.0
        )
        for name, how in PRESETS.items()
    },
}
SETS: dict[str, dict[str, Any]] = {
    "two-view": {},
    "two-view, everything": {"ids": True, "queue": True, "negatives": True},
    "symmetric": {"candidates": "bipartite"},
    "symmetric, ids": {"candidates": "bipartite", "ids": True},
    "one-way, everything": {
        "candidates": "bipartite",
        "symmetric": False,
        "ids": True,
        "queue": True,
        "negatives": True,
    },
}
CASES = [
    (candidates, name, impl)
    for candidates in SETS
    for name in SETTINGS
    for impl in ("streaming", "reference")
]
#: The losses that have no case above.
FAMILY: dict[str, Any] = {
    "endpoint": lambda **o: EndpointLoss(0.3, decoupled=True, **o),
    **{
        rule: lambda rule=rule, **o: SelfSettingLoss(rule, **o)
        for rule in ("tail", "median", "hill-1.5")
    },
    "kl": lambda **o: SelfSettingLoss("kl", **o),
    "hard-negatives": HardNegativeLoss,
    "arctanh": ArctanhLoss,
}


def whole_batch(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """The batch that the ranks share, and the weights of a linear encoder."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    items = normal(N, D)
    return {
        "x0": items + 0.6 * normal(N, D),
        "x1": items + 0.6 * normal(N, D),
        "negatives": normal(EXTRA, D),
        "queue": normal(QUEUED, D),
        # Duplicates on the same and on different ranks, and one more in the queue.
        "ids": torch.tensor([0, 0, 1, 2, 3, 4, 5, 6, 1, 7, 8, 9, 10, 11, 12, 4]),
        "weight": normal(D, D),
    }


def one_case(
    candidates: str, name: str, impl: str, rank: int = 0, world: int = 1, *, gather: bool = False
) -> dict[str, Tensor]:
    """Loss, lambda, and gradients of a rank's embeddings and of the encoder's weight."""
    data = whole_batch()
    how = dict(SETS[candidates])
    n, few = N // world, EXTRA // world
    mine = slice(rank * n, (rank + 1) * n)
    weight = data["weight"].requires_grad_()
    z0, z1 = (data[x][mine] @ weight for x in ("x0", "x1"))
    z0.retain_grad()
    z1.retain_grad()
    how["ids"] = data["ids"][mine] if how.get("ids") else None
    if how.get("negatives"):
        how["negatives"] = data["negatives"][rank * few : (rank + 1) * few] @ weight
    if how.get("queue"):
        how["queue"] = NegativeQueue(QUEUED, D, dtype=torch.float64)
        how["queue"].enqueue(data["queue"], torch.arange(5, 5 + QUEUED))
    scale = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    how |= {"impl": impl, "logit_scale": scale, "gather_distributed": gather}
    settings = SETTINGS[name]
    lam = torch.zeros(0)
    if settings is None:
        loss = infonce_loss(z0, z1, **how)
    else:
        loss, evidence = weince_loss(z0, z1, settings=settings, return_evidence=True, **how)
        lam = evidence.lam
    loss.backward()
    found = {"loss": loss.detach(), "lam": lam, "z0": z0.grad, "z1": z1.grad}
    return {**found, "weight": weight.grad, "scale": scale.grad}


def family_case(name: str, rank: int = 0, world: int = 1) -> dict[str, Tensor]:
    """Loss, gradients of a rank's embeddings and the loss's state after two steps."""
    data, loss_fn = whole_batch(), FAMILY[name](gather_distributed=world > 1)
    mine = slice(rank * N // world, (rank + 1) * N // world)
    for shift in (0.0, 0.5):
        z = [(data[x] + shift)[mine].requires_grad_() for x in ("x0", "x1")]
        loss = loss_fn(*z)
    z0, z1 = torch.autograd.grad(loss, z)
    return {"loss": loss.detach(), "z0": z0, "z1": z1, **loss_fn.state_dict()}


def message(function: Any, *args: Any, **options: Any) -> str:
    """The error that a call raises, or what it returned instead."""
    try:
        return f"no error: {function(*args, **options)}"
    except (ValueError, RuntimeError) as error:
        return str(error)


def errors(rank: int, world: int) -> dict[str, str]:
    """What a rank says to batches that do not fit together; no call may hang."""
    data = whole_batch()
    z0, z1 = data["x0"], data["x1"]
    gathered = WEINCELoss(gather_distributed=True)
    last = rank == world - 1
    fewer = 3 if last else 4
    bad = z0[:4].clone()
    if last:
        bad[2] = torch.nan
    return {
        "unequal": message(gathered, z0[:fewer], z1[:fewer]),
        "infonce": message(infonce_loss, z0[:fewer], z1[:fewer], gather_distributed=True),
        "width": message(gathered, z0[:4, : D - last], z1[:4, : D - last]),
        "bad row": message(gathered, bad, z1[:4]),
        "ids": message(gathered, z0[:4], z1[:4], ids=None if last else data["ids"][:4]),
    }


def run(rank: int, world: int) -> dict[str, Any]:
    """Everything that one rank of ``world`` finds."""
    found: dict[str, Any] = {}
    for case in CASES:
        found[case] = one_case(*case, rank, world, gather=True)
        for shared in ("weight", "scale"):  # as DistributedDataParallel does
            dist.all_reduce(found[case][shared])
            found[case][shared] /= world
    found |= {name: family_case(name, rank, world) for name in FAMILY}
    found["errors"] = errors(rank, world)
    # Without gathering, a rank's loss is that of its own batch and nothing else.
    found["apart"] = one_case("two-view", "paper", "streaming", rank, world)
    data = whole_batch()
    mine = slice(rank * (N // world), (rank + 1) * (N // world))
    loss = InfoNCELoss(queue=NegativeQueue(N, D, dtype=torch.float64), gather_distributed=True)
    loss(data["x0"][mine], data["x1"][mine], ids=data["ids"][mine])
    found["queue"] = (loss.queue.rows(), loss.queue.row_ids())
    half = [data[x][mine].half().requires_grad_() for x in ("x0", "x1")]
    weince_loss(*half, gather_distributed=True).backward()
    found["half"] = half[0].grad
    return found


def worker(rank: int, folder: str) -> None:
    """Four ranks, then the first two of them, each leaving what it found in a file."""
    torch.set_num_threads(1)
    for world in (4, 2):
        if rank >= world:
            continue
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/meet-{world}",
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=60),
        )
        torch.save(run(rank, world), Path(folder) / f"{world}-{rank}.pt")
        dist.destroy_process_group()
