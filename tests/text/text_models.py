"""Small corpora, encoders and runs for the tests of training; importable by spawned processes."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from weince_lib.losses import InfoNCELoss, WEINCELoss
from weince_lib.text.encoders import StaticEncoder, TinyTransformer
from weince_lib.text.simcse import SimCSE, seeded
from weince_lib.text.steps import ChunkPlan, SimCSEStep
from weince_lib.text.tokens import TokenisedCorpus
from weince_lib.text.training import SimCSESettings, train_simcse
from weince_lib.training.processes import current_world
from weince_lib.training.steps import GuardedOptimizer

WORDS, COUNT, LENGTH = 40, 50, 7
LOSSES = {"infonce": InfoNCELoss, "weince": WEINCELoss}
SETTINGS = {
    "epochs": 2,
    "batch_size": 16,
    "chunk_size": 4,
    "learning_rate": 1e-2,
    "warm_up": 0.25,
    "clip_norm": 1.0,
    "evaluate_every": 4,
}


@dataclass(frozen=True)
class Lines:
    """A corpus in memory."""

    lines: tuple[str, ...]
    name: str = "lines"

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self):
        return iter(self.lines)

    def content_hash(self) -> str:
        return str(hash(self.lines))


def corpus(count: int = COUNT) -> TokenisedCorpus:
    draw = np.random.default_rng(0)
    table = np.zeros((count, 1 + LENGTH), dtype=np.uint16)
    for row in table:
        row[0] = draw.integers(2, LENGTH + 1)
        row[1 : 1 + row[0]] = draw.integers(1, WORDS, row[0])
    return TokenisedCorpus(table, "random")


def model(kind: str = "tiny", seed: int = 0) -> SimCSE:
    def build() -> SimCSE:
        if kind == "static":
            return SimCSE(StaticEncoder(torch.randn(WORDS, 6), 0.3))
        return SimCSE(TinyTransformer(WORDS, width=8, heads=2, max_length=LENGTH), "mlp")

    return seeded(build, seed).double()


def loss(name: str = "weince", **options: Any) -> Any:
    return LOSSES[name](0.05, candidates="bipartite", symmetric=False, validate=False, **options)


def step_gradients(kind: str, name: str, chunk: int = 4) -> dict[str, Any]:
    """Loss and gradients of one step, with this process's share of the batch."""
    world = current_world()
    made = model(kind).train()
    plan = ChunkPlan(16, chunk, world)
    optimizer = torch.optim.SGD(made.parameters(), 0.0)
    step = SimCSEStep(
        made,
        loss(name, gather_distributed=world.size > 1),
        GuardedOptimizer(optimizer, torch.device("cpu"), world=world),
        plan,
        seed=3,
    )
    tokens, rows = corpus(), np.arange(16)
    value = step([tokens.batch(rows[plan.rows(c)]) for c in plan.own], 5)
    return {"loss": value} | {n: p.grad for n, p in made.named_parameters()}


def dev_score(trained: torch.nn.Module) -> float:
    """A number that depends on the weights and goes up and down."""
    total = sum(p.detach().sum() for p in trained.parameters())
    return float(torch.sin(50 * total))


def train(name: str = "weince", kind: str = "tiny", evaluate: Any = dev_score, **more: Any) -> Any:
    """Train the small model; returns it and the history."""
    made = model(kind)
    places = {n: more.pop(n) for n in ("checkpoint", "snapshots", "save_minutes") if n in more}
    gather = current_world().size > 1
    history = train_simcse(
        made,
        loss(name, gather_distributed=gather),
        corpus(),
        SimCSESettings(**SETTINGS | more),
        evaluate,
        **places,
    )
    return made, history


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    found: dict[Any, Any] = {}
    for name in LOSSES:
        found[name, "step"] = step_gradients("tiny", name)
        made, history = train(name, checkpoint=Path(folder) / name / "checkpoint.safetensors")
        found[name] = {"model": made.state_dict(), "history": history}
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
