"""What each process runs for ``test_processes``: importable, as spawned processes need it."""

from __future__ import annotations

import datetime
import itertools
import math
import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from training_runs import LOSSES, STEPS, Views, noisy, run

from weince_lib.training import (
    CheckpointError,
    NonFiniteLossError,
    ProcessError,
    TrainingInterrupted,
    steps,
)
from weince_lib.training.processes import GlobalBatchNorm, synchronised_batch_norm
from weince_lib.vision import TwoViewAugment, training

WORLD = 2
#: Kept from the whole run: two epochs of the small model.
EPOCHS = 2
STOP = STEPS + 1
AUGMENTS = {"share": TwoViewAugment(), "cut": noisy}


def norm_layers() -> tuple[nn.Module, Tensor, Tensor]:
    """A layer with weights of its own, its input, and the gradient of its output."""
    generator = torch.Generator().manual_seed(2)
    norm = nn.BatchNorm2d(3).double()
    with torch.no_grad():
        norm.weight.copy_(torch.randn(3, generator=generator))
        norm.bias.copy_(torch.randn(3, generator=generator))
    x, slope = (torch.randn(6, 3, 4, 5, generator=generator, dtype=torch.float64) for _ in "xy")
    return norm, 50.0 + x, slope


def normalised(model: nn.Module, x: Tensor, slope: Tensor) -> dict[str, Tensor]:
    """Output, gradients and running statistics of a layer after two batches."""
    x = x.clone().requires_grad_()
    for _ in range(2):
        y = model(x)
    y.backward(slope)
    gradients = {f"grad {name}": p.grad for name, p in model.named_parameters()}
    return {"y": y.detach(), "grad x": x.grad, **gradients, **dict(model.named_buffers())}


def batch_norm(rank: int, world: int) -> dict[str, Any]:
    norm, x, slope = norm_layers()
    model = nn.Sequential(norm)
    mine = slice(rank * 6 // world, (rank + 1) * 6 // world)
    with synchronised_batch_norm(model):
        assert isinstance(model[0], GlobalBatchNorm)
        found = normalised(model, x[mine], slope[mine])
        model.eval()
        found["evaluated"] = model(x).detach()
    assert model[0] is norm
    assert not norm.training
    return found


def trained(name: str, augment: Any, gather: bool = True, **more: Any) -> dict[str, Any]:
    # A loss that validates says itself which row is bad, and waits for the device to know it.
    loss = LOSSES[name](validate=more.pop("validate", True))
    loss.gather_distributed = gather
    model, history = run(loss=loss, augment=augment, epochs=EPOCHS, wide=True, **more)
    return {"model": model.state_dict(), "history": history}


def said(error: type[BaseException], **more: Any) -> str:
    try:
        trained("weince", **more)
    except error as caught:
        return str(caught)
    return "no error"


def breaking(rank: int) -> Any:
    """Views with NaN on one process only, at a step of the second epoch."""
    steps = itertools.count()

    def augment(batch: Tensor, generator: torch.Generator) -> Views:
        view0, view1 = noisy(batch, generator)
        return view0 * (math.nan if next(steps) == STOP and rank == 1 else 1.0), view1

    return augment


def stopping(rank: int) -> Any:
    """A signal to one process only."""
    steps = itertools.count()

    def augment(batch: Tensor, generator: torch.Generator) -> Views:
        if next(steps) == STOP and rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return noisy(batch, generator)

    return augment


def one_rank(rank: int, world: int, folder: Path) -> dict[str, Any]:
    """Everything that one process of ``world`` finds."""
    found: dict[str, Any] = {"norm": batch_norm(rank, world)}
    for name, how in itertools.product(LOSSES, AUGMENTS):
        found[name, how] = trained(name, AUGMENTS[how])
    stopped = folder / "stopped.safetensors"
    found["stopped"] = said(TrainingInterrupted, augment=stopping(rank), checkpoint=stopped)
    dist.barrier()
    if rank == 0:
        (folder / "kept.safetensors").write_bytes(stopped.read_bytes())
    found["resumed"] = trained("weince", noisy, checkpoint=stopped)
    found["from one"] = trained("weince", noisy, checkpoint=folder / "one.safetensors")
    found["bad"] = said(NonFiniteLossError, augment=breaking(rank))
    found["alone"] = said(ProcessError, augment=noisy, gather=False)
    found["uneven"] = said(ProcessError, augment=noisy, batch_size=9)
    full = "/dev/full/checkpoint"  # no folder, and so no file
    found["unwritten"] = said(CheckpointError, augment=noisy, checkpoint=Path(full))
    steps.runs_ahead = training.runs_ahead = lambda device: True
    found["ahead"] = trained("weince", noisy)
    found["bad ahead"] = said(NonFiniteLossError, augment=breaking(rank), validate=False)
    return found


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=WORLD,
        timeout=datetime.timedelta(seconds=120),
    )
    torch.save(one_rank(rank, WORLD, Path(folder)), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
