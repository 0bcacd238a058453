"""Anchors against candidates, a block of rows at a time.

Every candidate set of the contrastive losses is one rectangular problem: ``A`` anchors, ``C``
candidates, the column of each anchor's positive, and the candidates that do not count (the anchor
itself, or others of the same identity). :class:`CandidateProblem` states it;
:class:`ShortfallBlocks` hands out rows of its matrix of shortfalls 1 - s, which is never whole in
memory unless it is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Self

import torch
from torch import Tensor

from .similarity import UnitRowsOnce, loss_dtype, stack_views
from .workspace import scratch

#: A float32 product of unit vectors is off by up to about 5e-7 and typically by 2e-8; from this
#: shortfall on, that is no more than about 1e-6 of it. A block that reaches below is taken in
#: float64.
NEAR = 0.1
#: Working memory in bytes when the caller gives none. On a CPU, what a last-level cache may hold.
CPU_MEMORY = 32 * 2**20
#: More rows to a block make its products no faster on a CPU, and its memory dearer to touch.
CPU_ROWS = 512
ACCELERATOR_MEMORY = 512 * 2**20
#: Matrices of one block's size alive at a time.
BUFFERS = 4


@torch.no_grad()
def swapped_shortfalls(rows: Tensor) -> Tensor:
    """Shortfall of each of 2N unit rows from its partner, row i's being ``(i + N) mod 2N``."""
    first, second = rows.detach().chunk(2)
    return (1.0 - (first * second).sum(1)).repeat(2)


@dataclass(eq=False)
class CandidateProblem:
    """One contrastive problem: which candidates each anchor is scored against.

    Attributes:
        anchors: unit rows, shape ``(A, d)``, from :func:`~weince_lib.losses.similarity.unit_rows`.
        candidates: unit rows, shape ``(C, d)``; None if they are the anchors themselves, which
            saves a product in the gradient.
        positives: column of each anchor's positive, shape ``(A,)``.
        own: column of each anchor itself, left out of its candidates, shape ``(A,)``; None if the
            anchors are not among the candidates.
        anchor_ids: identity of each anchor, integer, shape ``(A,)``. Candidates of the same
            identity are left out, all but the positive. Goes with ``candidate_ids``.
        candidate_ids: identity of each candidate, shape ``(C,)``.
        dtype: precision of the arithmetic that is not about being near the cap.
        differentiable: how many of the candidates, counted from the first, take a gradient; the
            rest (a queue of past batches, say) cost none. None: all.
        positive: shortfall of each anchor's positive, exact wherever float64 is, shape ``(A,)``;
            ``positive_shortfalls`` where that is given.
    """

    anchors: Tensor
    candidates: Tensor | None
    positives: Tensor
    own: Tensor | None = None
    anchor_ids: Tensor | None = None
    candidate_ids: Tensor | None = None
    dtype: torch.dtype = torch.float32
    differentiable: int | None = None
    positive_shortfalls: InitVar[Tensor | None] = None
    positive: Tensor = field(init=False)

    @classmethod
    def two_view(cls, z0: Tensor, z1: Tensor) -> Self:
        """All 2N views of N items against each other, shape ``(N, d)`` each."""
        n = z0.shape[0]
        columns = torch.arange(2 * n, device=z0.device)
        anchors = UnitRowsOnce.apply(stack_views(z0, z1))
        return cls(
            anchors=anchors,
            candidates=None,
            positives=columns.roll(n),
            own=columns,
            dtype=loss_dtype(z0),
            positive_shortfalls=swapped_shortfalls(anchors),
        )

    def __post_init__(self, positive_shortfalls: Tensor | None) -> None:
        if positive_shortfalls is not None:
            self.positive = positive_shortfalls.to(self.dtype)
            return
        with torch.no_grad(), torch.autocast(self.anchors.device.type, enabled=False):
            candidates = self.anchors if self.candidates is None else self.candidates
            paired = candidates.index_select(0, self.positives)
            self.positive = (1.0 - (self.anchors * paired).sum(1)).to(self.dtype)

    @property
    def columns(self) -> int:
        """Number of candidates C, the anchor itself included where it is one of them."""
        return (self.anchors if self.candidates is None else self.candidates).shape[0]

    @property
    def negatives(self) -> int:
        """Number of negatives of an anchor, before any are left out by identity."""
        return self.columns - (1 if self.own is None else 2)

    def rows_per_block(self, memory: int | None = None) -> int:
        """How many anchors to take at a time; see :func:`rows_per_block`."""
        return rows_per_block(
            self.anchors.shape[0], self.columns, self.dtype, self.anchors.device, memory
        )

    def fits(self, memory: int | None = None) -> bool:
        """Whether the whole matrix of shortfalls may be kept between two passes over it."""
        size = self.anchors.shape[0] * self.columns * self.dtype.itemsize
        return size <= working_memory(self.anchors.device, memory)


def working_memory(device: torch.device, memory: int | None = None) -> int:
    """The memory budget in bytes: the caller's, or the device's default."""
    check_memory(memory)
    if memory is None:
        return CPU_MEMORY if device.type == "cpu" else ACCELERATOR_MEMORY
    return memory


def check_memory(memory: int | None) -> None:
    """Raise ``ValueError`` unless a memory budget is None or a positive number of bytes."""
    if memory is not None and (not isinstance(memory, int) or memory < 1):
        raise ValueError(f"memory_budget must be a positive number of bytes, got {memory!r}")


def rows_per_block(
    anchors: int, columns: int, dtype: torch.dtype, device: torch.device, memory: int | None = None
) -> int:
    """Number of anchors whose block's buffers fit the budget, evened out over the blocks.

    Raises:
        ValueError: if ``memory`` is not positive.
    """
    most = working_memory(device, memory) // (BUFFERS * columns * dtype.itemsize)
    if device.type == "cpu":
        most = min(most, CPU_ROWS)
    blocks = -(-anchors // max(1, most))
    return -(-anchors // blocks)


def float32_products_are_rounded() -> bool:
    """Whether the user lets matrix products of float32 run in TF32 or bfloat16."""
    backends = (torch.backends.cuda, torch.backends.mkldnn)
    return any(backend.matmul.fp32_precision not in ("none", "ieee") for backend in backends)


class ShortfallBlocks:
    """Rows of the matrix of shortfalls 1 - s between unit vectors.

    Products are taken in float32 where that is enough and in float64 where it is not: near the
    cap, and wherever float32 products would be rounded to TF32 or bfloat16.

    Args:
        anchors: unit rows, shape ``(A, d)``, float64 where the device has it.
        candidates: unit rows, shape ``(C, d)``, or None for the anchors.
        positives: shape ``(A,)``.
        own: shape ``(A,)`` or None.
        anchor_ids: shape ``(A,)`` or None.
        candidate_ids: shape ``(C,)`` or None.
        positive: shortfall of each positive, shape ``(A,)``, of the dtype of the blocks.
        rows: anchors to a block.
    """

    def __init__(
        self,
        anchors: Tensor,
        candidates: Tensor | None,
        positives: Tensor,
        own: Tensor | None,
        anchor_ids: Tensor | None,
        candidate_ids: Tensor | None,
        positive: Tensor,
        rows: int,
    ) -> None:
        dtype = positive.dtype
        self.exact_anchors = anchors.detach()
        self.exact_candidates = (anchors if candidates is None else candidates).detach()
        self.anchors = self.exact_anchors.to(dtype)
        self.candidates = self.anchors if candidates is None else self.exact_candidates.to(dtype)
        self.positives, self.own = positives[:, None], None if own is None else own[:, None]
        self.anchor_ids, self.candidate_ids = anchor_ids, candidate_ids
        self.dtype, self.rows = dtype, rows
        self.one = torch.ones((), dtype=dtype)  # on the CPU: as good as a Python number
        self.exact_one = self.exact_anchors.new_ones(1)
        self.positive = positive[:, None]
        self.always_exact = dtype == torch.float64 or float32_products_are_rounded()

    def __iter__(self) -> Iterator[slice]:
        """The row ranges, in order."""
        total = self.anchors.shape[0]
        return (slice(i, min(i + self.rows, total)) for i in range(0, total, self.rows))

    def fill(self, rows: slice, out: Tensor, *, exact: bool = False) -> Tensor:
        """Write the shortfalls of ``rows`` to ``out``, shape ``(rows, C)``; nothing left out."""
        if exact or self.always_exact:
            with scratch(1, (out.shape[0], out.shape[1]), self.exact_anchors) as (wide,):
                others = self.exact_candidates.T
                torch.addmm(self.exact_one, self.exact_anchors[rows], others, alpha=-1, out=wide)
                out.copy_(wide)
        else:
            torch.mm(self.anchors[rows], self.candidates.T, out=out)
            torch.sub(self.one, out, out=out)
        return out.scatter_(1, self.positives[rows], self.positive[rows])

    def leave_out(self, rows: slice, block: Tensor, value: float) -> Tensor:
        """Set what is no candidate of ``rows`` to ``value`` in ``block``."""
        if self.own is not None:
            block.scatter_(1, self.own[rows], value)
        if self.anchor_ids is not None and self.candidate_ids is not None:
            same = self.anchor_ids[rows, None] == self.candidate_ids
            block.masked_fill_(same.scatter_(1, self.positives[rows], value=False), value)
        return block
