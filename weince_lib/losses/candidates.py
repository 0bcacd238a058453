"""Candidate sets: from two batches of embeddings to anchors, candidates and positives.

``"two-view"``: all 2N views of N items against each other (SimCLR). ``"bipartite"``: queries
against keys, one way (SimCSE) or both ways (CLIP). Either may have further negatives: explicit ones
with a gradient, or a queue of past batches. With ``gather_distributed`` the candidates are those of
all ranks, the anchors this rank's.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from .arguments import check_flag
from .blocks import CandidateProblem, swapped_shortfalls
from .distributed import agree, check_process_group, gather_constant, gather_rows
from .negative_queue import UNKNOWN_ID, NegativeQueue
from .similarity import (
    UnitRowsOnce,
    check_embeddings,
    check_kind,
    check_pairs,
    loss_dtype,
    stack_views,
    unit_rows,
)

CandidateSet = Literal["two-view", "bipartite"]


def check_candidate_set(
    candidates: str, *, symmetric: bool, queue: NegativeQueue | None, negatives: bool = False
) -> None:
    """Raise ``ValueError`` for an unknown candidate set or one that has no place for the rest."""
    if candidates not in get_args(CandidateSet):
        known = ", ".join(get_args(CandidateSet))
        raise ValueError(f"unknown candidates {candidates!r}; known: {known}")
    if candidates == "bipartite" and symmetric and (queue is not None or negatives):
        raise ValueError(
            "a queue or explicit negatives are keys, so they serve the queries only; "
            "pass symmetric=False for the one-way loss"
        )


def candidate_problems(
    z0: Tensor,
    z1: Tensor,
    *,
    candidates: CandidateSet = "two-view",
    symmetric: bool = True,
    ids: Tensor | None = None,
    negatives: Tensor | None = None,
    queue: NegativeQueue | None = None,
    gather_distributed: bool = False,
    validate: bool = True,
    twice_differentiable: bool = False,
) -> list[CandidateProblem]:
    """One problem, or two of equally many anchors for the symmetric bipartite set.

    Args:
        z0: first views or queries, shape ``(N, d)``.
        z1: second views or keys, shape ``(N, d)``; row ``k`` goes with row ``k`` of ``z0``.
        candidates: ``"two-view"`` or ``"bipartite"``.
        symmetric: for ``"bipartite"``, whether keys are anchors too.
        ids: identity of each pair, integer, shape ``(N,)``. Candidates of an anchor's own identity
            are left out, all but its positive.
        negatives: further candidates, shape ``(K, d)``, of no identity.
        queue: past embeddings, further candidates without a gradient.
        gather_distributed: take the candidates of all ranks.
        validate: look for bad rows where that is free, and compare batch sizes between ranks.
        twice_differentiable: normalise by plain operations.

    Raises:
        ValueError: naming what does not fit; on every rank if ranks differ.
        RuntimeError: if there is no process group to gather from.
    """
    check_flag("symmetric", symmetric)
    check_flag("gather_distributed", gather_distributed)
    check_candidate_set(
        candidates, symmetric=symmetric, queue=queue, negatives=negatives is not None
    )
    if gather_distributed:
        check_process_group()
    error = None
    try:
        _check_batch(z0, z1, ids, negatives, queue, gather_distributed, validate)
    except ValueError as wrong:
        error = wrong
    if gather_distributed and validate and not torch.compiler.is_compiling():
        agree(_facts(z0, z1, ids, negatives, queue), z0.device, error)
    elif error is not None:
        raise error
    build = _Builder(z0, ids, negatives, queue, gather_distributed, twice_differentiable)
    if candidates == "two-view":
        problems = [build.two_view(z0, z1)]
    elif symmetric:
        problems = build.both_ways(z0, z1)
    else:
        problems = [build.one_way(z0, z1)]
    if problems[0].negatives < 1:
        raise ValueError(
            f"a batch of N = {z0.shape[0]} pairs has no negatives; N must be 2 or more, "
            "or there must be other candidates"
        )
    return problems


def _check_batch(
    z0: Tensor,
    z1: Tensor,
    ids: Tensor | None,
    negatives: Tensor | None,
    queue: NegativeQueue | None,
    gather: bool,
    validate: bool,
) -> None:
    alone = negatives is None and queue is None and not gather
    check_pairs(z0, z1, validate=validate, least=2 if alone else 1)
    if ids is not None:
        if ids.shape != z0.shape[:1]:
            raise ValueError(
                f"ids must name each of the {z0.shape[0]} pairs once, shape ({z0.shape[0]},); "
                f"got {tuple(ids.shape)}"
            )
        if ids.is_floating_point() or ids.is_complex():
            raise ValueError(f"ids must be integers, got {ids.dtype}")
    if negatives is not None:
        if negatives.ndim != 2 or negatives.shape[1] != z0.shape[1]:
            raise ValueError(
                f"negatives must have shape (K, {z0.shape[1]}), got {tuple(negatives.shape)}"
            )
        check_kind(negatives, "negatives")
        if validate and z0.device.type == "cpu" and not torch.compiler.is_compiling():
            check_embeddings(negatives, "negatives")
    if queue is not None and queue.dim != z0.shape[1]:
        raise ValueError(f"the queue holds rows of width {queue.dim}, the batch {z0.shape[1]}")


def _facts(
    z0: Tensor,
    z1: Tensor,
    ids: Tensor | None,
    negatives: Tensor | None,
    queue: NegativeQueue | None,
) -> dict[str, int]:
    """What has to be equal on all ranks for the collectives of a step to match."""
    return {
        "the number of pairs N": z0.shape[0] if z0.ndim else 0,
        "the width d": z0.shape[-1] if z0.ndim else 0,
        "the size of a number in bytes": loss_dtype(z0).itemsize,
        "whether embeddings take a gradient (z0, z1, as bits)": z0.requires_grad
        + 2 * z1.requires_grad,
        "whether ids are given": ids is not None,
        "the number of explicit negatives": -1 if negatives is None else negatives.shape[0],
        "the number of queued rows": -1 if queue is None else queue.filled,
    }


class _Builder:
    """What all candidate sets of one call have in common."""

    def __init__(
        self,
        z0: Tensor,
        ids: Tensor | None,
        negatives: Tensor | None,
        queue: NegativeQueue | None,
        gather: bool,
        twice_differentiable: bool,
    ) -> None:
        self.dtype, self.gathers = loss_dtype(z0), gather
        self.ids = None if ids is None else ids.to(z0.device, torch.int64)
        self.rank = dist.get_rank() if gather else 0
        self.unit = unit_rows if twice_differentiable else UnitRowsOnce.apply
        self.learning = [] if negatives is None else [self.unit(self.gather(negatives))]
        self.fixed = []
        self.further_ids = [
            torch.full(part.shape[:1], UNKNOWN_ID, device=z0.device) for part in self.learning
        ]
        if queue is not None and queue.filled:
            with torch.no_grad():
                self.fixed = [unit_rows(queue.rows().to(z0.device))]
            self.further_ids.append(queue.row_ids().to(z0.device))

    def gather(self, rows: Tensor) -> Tensor:
        """All ranks' rows; sums of half-precision gradients are taken in float32."""
        return gather_rows(rows.to(self.dtype)) if self.gathers else rows

    def problem(
        self, anchors: Tensor, candidates: Tensor, ids: Tensor | None, shift: int, own: bool
    ) -> CandidateProblem:
        """The anchors against candidates among which theirs start at their rank's share.

        Args:
            anchors: unit rows of this rank, shape ``(A, d)``.
            candidates: unit rows of all ranks, ``A`` from each, shape ``(W A, d)``.
            ids: identity of each anchor, shape ``(A,)``.
            shift: the positive of anchor i is candidate ``(i + shift) mod A`` of this rank; 0 or,
                for two views, half of A.
            own: whether anchor i is itself candidate i of this rank.
        """
        total = anchors.shape[0]
        # Taken from the tensors' own sizes, so that no rank can be off by another's batch.
        itself = torch.arange(self.rank * total, (self.rank + 1) * total, device=anchors.device)
        candidate_ids = None
        if ids is not None:
            everyone = gather_constant(ids) if self.gathers else ids
            candidate_ids = torch.cat([everyone, *self.further_ids])
        alone = own and not (self.gathers or self.learning or self.fixed)
        differentiable = candidates.shape[0] + sum(part.shape[0] for part in self.learning)
        with torch.autocast(anchors.device.type, enabled=False):
            candidates = torch.cat([candidates, *self.learning, *self.fixed])
        return CandidateProblem(
            anchors=anchors,
            candidates=None if alone else candidates,
            positives=itself.roll(-shift),
            own=itself if own else None,
            anchor_ids=ids,
            candidate_ids=candidate_ids,
            dtype=self.dtype,
            differentiable=differentiable,
            positive_shortfalls=swapped_shortfalls(anchors) if shift else None,
        )

    def share(self, rows: Tensor, count: int) -> Tensor:
        """This rank's part of gathered rows."""
        return rows[self.rank * count : (self.rank + 1) * count] if self.gathers else rows

    def two_view(self, z0: Tensor, z1: Tensor) -> CandidateProblem:
        """All views of all ranks."""
        everyone = self.unit(self.gather(stack_views(z0, z1)))
        anchors = self.share(everyone, 2 * z0.shape[0])
        ids = None if self.ids is None else self.ids.repeat(2)
        return self.problem(anchors, everyone, ids, shift=z0.shape[0], own=True)

    def one_way(self, queries: Tensor, keys: Tensor) -> CandidateProblem:
        """Queries of this rank against keys of all."""
        candidates = self.unit(self.gather(keys))
        return self.problem(self.unit(queries), candidates, self.ids, shift=0, own=False)

    def both_ways(self, queries: Tensor, keys: Tensor) -> list[CandidateProblem]:
        """Queries against keys and keys against queries."""
        n = queries.shape[0]
        q, k = self.unit(self.gather(queries)), self.unit(self.gather(keys))
        return [
            self.problem(self.share(q, n), k, self.ids, shift=0, own=False),
            self.problem(self.share(k, n), q, self.ids, shift=0, own=False),
        ]
