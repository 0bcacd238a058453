"""One optimiser step of SimCSE: two dropout passes, in chunks whose randomness can be replayed.

A batch is encoded in chunks. The dropout of chunk c of view v at step t comes from a seed made of
(run, t, v, c) alone, so that

- a run that was stopped continues at any step as if it had not been;
- processes that share a batch, each taking whole chunks, get the dropout of one that takes all;
- with several chunks the graph of none has to be kept: embeddings first without a graph, then the
  loss over the whole batch and its gradient for each embedding, then each chunk once more, with the
  same dropout, to carry that gradient on to the weights (Gao et al. 2021, arXiv:2101.06983,
  "Scaling deep contrastive learning batch size under memory limited setup"). Candidates are those
  of the whole batch, which accumulation of the loss over small batches would not give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..training.processes import ProcessError, World
from ..training.steps import GuardedOptimizer
from .tokens import Tokens

#: Multiplier of the hash that spreads seeds of neighbouring steps (Knuth's, modulo 2^63).
_SPREAD = 6364136223846793005


@dataclass(frozen=True)
class ChunkPlan:
    """How a batch is cut.

    Attributes:
        batch_size: sentences over all processes.
        chunk: sentences encoded at a time.
        world: the processes; each takes consecutive whole chunks.

    Raises:
        ValueError: if the batch is no multiple of the chunk.
        ProcessError: if the chunks cannot be dealt evenly to the processes.
    """

    batch_size: int
    chunk: int
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        if self.chunk < 1 or self.batch_size % self.chunk:
            raise InputError(
                f"a batch of {self.batch_size} is no multiple of chunk_size = {self.chunk}"
            )
        if (self.batch_size // self.chunk) % self.world.size:
            raise ProcessError(
                f"{self.batch_size // self.chunk} chunks cannot be dealt evenly to "
                f"{self.world.size} processes; lower chunk_size to "
                f"{math.gcd(self.chunk, self.batch_size // self.world.size)}"
            )

    @property
    def own(self) -> range:
        """Numbers of this process's chunks."""
        count = self.batch_size // self.chunk // self.world.size
        return range(self.world.rank * count, (self.world.rank + 1) * count)

    def rows(self, chunk: int) -> slice:
        """The sentences of a chunk within the batch."""
        return slice(chunk * self.chunk, (chunk + 1) * self.chunk)


def dropout_seed(seed: int, step: int, view: int, chunk: int) -> int:
    """Seed of one chunk's dropout."""
    state = seed
    for part in (step, view, chunk):
        state = (state * _SPREAD + part + 1) % 2**63
    return state


@contextmanager
def replayed(seed: int, device: torch.device) -> Iterator[None]:
    """Draw torch's global numbers from ``seed`` inside; afterwards they go on as before."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


class SimCSEStep:
    """Computes the gradient of one batch and takes the step if it is finite.

    Args:
        model: maps ids and mask to embeddings; in training mode.
        loss: of two batches of embeddings.
        optimizer: takes the step if its numbers are finite.
        plan: how the batch is cut.
        seed: of the dropout.
        precision: ``"bfloat16"`` runs the model under autocast; the loss is in float32.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: nn.Module,
        optimizer: GuardedOptimizer,
        plan: ChunkPlan,
        *,
        seed: int,
        precision: str = "float32",
    ) -> None:
        self.model, self.loss, self.optimizer, self.plan = model, loss, optimizer, plan
        self.seed, self.device, self.precision = seed, optimizer.device, precision

    def __call__(self, chunks: list[Tokens], step: int) -> Tensor:
        """Take a step, counted from 0, on ids and mask of this process's chunks.

        Returns:
            The loss over all processes, shape ``()``, NaN if the step was not taken because
            embeddings, loss or gradient were not finite. On a GPU nothing waits for it.
        """
        chunks = [(ids.to(self.device), mask.to(self.device)) for ids, mask in chunks]
        # A single chunk keeps its graph; of several each is encoded again, with the same dropout.
        replays = len(self.plan.own) > 1
        with torch.set_grad_enabled(not replays):
            z0, z1 = (self._view(chunks, step, view) for view in (0, 1))
        if replays:
            z0.requires_grad_()
            z1.requires_grad_()
        value = self.optimizer.loss(self.loss, z0, z1)
        value.backward()
        if replays:
            for view, leaf in enumerate((z0, z1)):
                self._carry_on(chunks, step, view, leaf)
        self.optimizer.average_gradients()
        return self.optimizer.step(value)

    def _embed(self, chunk: Tokens, step: int, view: int, number: int) -> Tensor:
        with (
            replayed(dropout_seed(self.seed, step, view, number), self.device),
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"),
        ):
            z: Tensor = self.model(*chunk)
        return z.to(torch.promote_types(z.dtype, torch.float32))

    def _view(self, chunks: list[Tokens], step: int, view: int) -> Tensor:
        numbered = zip(chunks, self.plan.own, strict=True)
        return torch.cat([self._embed(chunk, step, view, n) for chunk, n in numbered])

    def _carry_on(self, chunks: list[Tokens], step: int, view: int, leaf: Tensor) -> None:
        """Each chunk once more with a graph, and its part of the embeddings' gradient."""
        assert leaf.grad is not None
        parts = leaf.grad.split(self.plan.chunk)
        for chunk, number, grad in zip(chunks, self.plan.own, parts, strict=True):
            self._embed(chunk, step, view, number).backward(grad)
