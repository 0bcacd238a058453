"""From two batches of embeddings to unit rows, anchors, candidates and positives.

``"two-view"``: all 2N views of N items against each other (SimCLR). ``"bipartite"``: queries
against keys, one way (SimCSE) or both ways (CLIP). Either may have further negatives: explicit ones
with a gradient, or a queue of past batches. With ``gather_distributed`` the candidates are those of
all ranks, the anchors this rank's.

Each becomes one or two :class:`CandidateProblem`, which is all that the losses see of a batch. Two
views are stacked, first all of ``z0`` and then all of ``z1``, so that the positive of view ``i`` is
view ``(i + N) mod 2N``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import torch
import torch.distributed as dist
from torch import Tensor

from .arguments import (
    ZERO_NORM,
    CandidateSet,
    check_candidate_set,
    check_flag,
    check_further,
    check_pairs,
    exact_dtype,
    loss_dtype,
)
from .distributed import check_process_group, check_same_on_ranks, gather_constant, gather_rows

if TYPE_CHECKING:
    from .queue import NegativeQueue

#: Identity of rows that nobody named; equal to no anchor's.
UNKNOWN_ID = torch.iinfo(torch.int64).min

# Unit rows -----------------------------------------------------------------------------------


def stack_views(z0: Tensor, z1: Tensor) -> Tensor:
    """All of ``z0``, then all of ``z1``, shape ``(2N, d)``; autocast must not choose the dtype."""
    with torch.autocast(z0.device.type, enabled=False):
        return torch.cat([z0, z1])


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1 in float64, whatever autocast says; zero rows stay zero.

    A row of float32 numbers is a unit vector only to 6e-8, which is 1e-4 of the distance between
    two vectors of shortfall 1e-6; in float64 nothing is lost. The gradient of a zero row, which
    has no direction, is zero.

    Args:
        z: embeddings, shape ``(rows, d)``, any floating dtype.

    Returns:
        Shape ``(rows, d)``, float64 (float32 on Apple's GPUs, which have no float64).
    """
    with torch.autocast(z.device.type, enabled=False):
        return _unit_rows(z.to(exact_dtype(z.device)))[0]


def _unit_rows(z: Tensor) -> tuple[Tensor, Tensor]:
    norm = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    # The clamp keeps the unused branch finite: 0 times an infinite derivative is NaN.
    inverse = torch.where(norm < ZERO_NORM, 0.0, 1.0 / norm.clamp_min(ZERO_NORM))
    return z * inverse, inverse


class NormalizeRows(torch.autograd.Function):
    """:func:`unit_rows` with its first derivative in closed form, at a third of the cost.

    The derivative of z / |z| in direction g is (g - u (u . g)) / |z| with u the unit row.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Return the unit rows of ``z``."""
        unit, inverse = _unit_rows(z.to(exact_dtype(z.device)))
        ctx.save_for_backward(unit, inverse)
        ctx.dtype = z.dtype
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Project the gradient on the tangent space of each row."""
        unit, inverse = ctx.saved_tensors
        along = (unit * grad).sum(1, keepdim=True)
        return torch.addcmul(grad, unit, along, value=-1.0).mul_(inverse).to(ctx.dtype)


def two_view_cosines(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`two_view_scores`, but not yet rounded: float64 for every input."""
    z = unit_rows(stack_views(z0, z1))
    with torch.autocast(z.device.type, enabled=False):
        scores = z @ z.T
    return scores, torch.arange(len(z), device=z.device).roll(len(z0))


def two_view_scores(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines of all ``M = 2N`` views by one matrix product, and each anchor's positive.

    The product runs in float64, which neither autocast nor TensorFloat-32 touches: half precision
    is wrong in the third digit of a cosine, which near the cap is the whole signal.

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape.

    Returns:
        ``scores``, shape ``(2N, 2N)``, float32 (float64 for float64 input), and ``positives``,
        shape ``(2N,)``, the column of each anchor's positive. The diagonal holds
        self-similarities, which are no candidates.
    """
    scores, positives = two_view_cosines(z0, z1)
    return scores.to(loss_dtype(z0)), positives


# Candidate problems --------------------------------------------------------------------------


@dataclass(eq=False)
class CandidateProblem:
    """One contrastive problem: which candidates each anchor is scored against.

    Attributes:
        anchors: unit rows, shape ``(A, d)``, from :func:`unit_rows`.
        candidates: unit rows, shape ``(C, d)``; None if they are the anchors themselves, which
            saves a product in the gradient.
        positives: column of each anchor's positive, shape ``(A,)``.
        own: column of each anchor itself, left out of its candidates, shape ``(A,)``; None if the
            anchors are not among the candidates.
        anchor_ids: identity of each anchor, integer, shape ``(A,)``. Candidates of the same
            identity are left out, all but the positive. Goes with ``candidate_ids``.
        candidate_ids: identity of each candidate, shape ``(C,)``.
        dtype: precision of the arithmetic wherever float64 is not needed.
        differentiable: how many of the candidates, counted from the first, take a gradient; the
            rest (a queue of past batches, say) cost none. None: all.
        fewest_negatives: number of negatives of the anchor that has fewest. The tail is sized by
            it, so that every anchor has one. None: all columns but the anchor and its positive.
        positive: shortfall 1 - s of each anchor's positive, in the precision of the unit rows,
            shape ``(A,)``; ``positive_shortfalls`` where that is given.
    """

    anchors: Tensor
    candidates: Tensor | None
    positives: Tensor
    own: Tensor | None = None
    anchor_ids: Tensor | None = None
    candidate_ids: Tensor | None = None
    dtype: torch.dtype = torch.float32
    differentiable: int | None = None
    fewest_negatives: int | None = None
    positive_shortfalls: InitVar[Tensor | None] = None
    positive: Tensor = field(init=False)

    @classmethod
    def two_view(cls, z0: Tensor, z1: Tensor) -> Self:
        """All 2N views of N items against each other, shape ``(N, d)`` each."""
        n = z0.shape[0]
        columns = torch.arange(2 * n, device=z0.device)
        anchors = NormalizeRows.apply(stack_views(z0, z1))
        return cls(
            anchors=anchors,
            candidates=None,
            positives=columns.roll(n),
            own=columns,
            dtype=loss_dtype(z0),
            positive_shortfalls=_two_view_shortfalls(anchors),
        )

    def __post_init__(self, positive_shortfalls: Tensor | None) -> None:
        if positive_shortfalls is not None:
            self.positive = positive_shortfalls.to(self.dtype)
            return
        with torch.no_grad(), torch.autocast(self.anchors.device.type, enabled=False):
            paired = self.rows.index_select(0, self.positives)
            self.positive = (1.0 - (self.anchors * paired).sum(1)).to(self.dtype)

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """Everything of the problem that is a tensor, as the streamed passes take it."""
        pairs = (self.anchors, self.candidates, self.positives, self.own)
        return (*pairs, self.anchor_ids, self.candidate_ids, self.positive)

    @property
    def rows(self) -> Tensor:
        """The candidates' unit rows, shape ``(C, d)``, also where they are the anchors."""
        return self.anchors if self.candidates is None else self.candidates

    @property
    def columns(self) -> int:
        """Number of candidates C, the anchor itself included where it is one of them."""
        return self.rows.shape[0]

    @property
    def negatives(self) -> int:
        """Number of negatives of an anchor, before any are left out by identity."""
        if self.fewest_negatives is not None:
            return self.fewest_negatives
        return self.columns - (1 if self.own is None else 2)


@dataclass(eq=False)
class Batch:
    """N pairs and what they are scored against, checked when it is made.

    The attributes are keywords of :func:`weince_lib.losses.infonce_loss`, with its defaults.

    Raises:
        ValueError: naming what does not fit; on every rank if ranks differ.
        RuntimeError: if there is no process group to gather from.
    """

    z0: Tensor
    z1: Tensor
    candidates: CandidateSet = "two-view"
    symmetric: bool = True
    ids: Tensor | None = None
    negatives: Tensor | None = None
    queue: NegativeQueue | None = None
    gather_distributed: bool = False
    validate: bool = True

    def __post_init__(self) -> None:
        for name in ("symmetric", "gather_distributed", "validate"):
            check_flag(name, getattr(self, name))
        check_candidate_set(
            self.candidates,
            symmetric=self.symmetric,
            queue=self.queue,
            negatives=self.negatives is not None,
        )
        if self.gather_distributed:
            check_process_group()
        alone = self.negatives is None and self.queue is None and not self.gather_distributed
        error = None
        try:
            check_pairs(self.z0, self.z1, validate=self.validate, least=2 if alone else 1)
            check_further(self.z0, self.ids, self.negatives, self.queue, validate=self.validate)
        except ValueError as wrong:
            error = wrong
        if self.gather_distributed and self.validate and not torch.compiler.is_compiling():
            check_same_on_ranks(self._facts(), self.z0.device, error)
        elif error is not None:
            raise error

    def _facts(self) -> dict[str, int]:
        """What has to be equal on all ranks for the collectives of a step to match."""
        z0, z1, negatives, queue = self.z0, self.z1, self.negatives, self.queue
        return {
            "the number of pairs N": z0.shape[0] if z0.ndim else 0,
            "the width d": z0.shape[-1] if z0.ndim else 0,
            "the size of a number in bytes": loss_dtype(z0).itemsize,
            "whether embeddings take a gradient (z0, z1, as bits)": z0.requires_grad
            + 2 * z1.requires_grad,
            "whether ids are given": self.ids is not None,
            "the number of explicit negatives": -1 if negatives is None else negatives.shape[0],
            "the number of queued rows": -1 if queue is None else queue.filled,
        }

    def problems(self, *, twice_differentiable: bool = False) -> list[CandidateProblem]:
        """One problem, or two of equally many anchors for the symmetric bipartite set.

        Args:
            twice_differentiable: normalise by plain operations, at three times the cost.

        Raises:
            ValueError: if an anchor has no negatives.
        """
        unit: Callable[[Tensor], Tensor]
        unit = unit_rows if twice_differentiable else NormalizeRows.apply
        n = self.z0.shape[0]
        if self.candidates == "two-view":
            views = unit(self._gathered(stack_views(self.z0, self.z1)))
            problems = [self._problem(self._own(views, 2 * n), views, unit, two_view=True)]
        elif self.symmetric:
            queries, keys = unit(self._gathered(self.z0)), unit(self._gathered(self.z1))
            problems = [
                self._problem(self._own(queries, n), keys, unit),
                self._problem(self._own(keys, n), queries, unit),
            ]
        else:
            keys = unit(self._gathered(self.z1))
            problems = [self._problem(unit(self.z0), keys, unit)]
        if problems[0].negatives < 1:
            raise ValueError(
                f"a batch of N = {n} pairs has no negatives; N must be 2 or more, "
                "or there must be other candidates"
            )
        return problems

    def _gathered(self, rows: Tensor) -> Tensor:
        """All ranks' rows; sums of half-precision gradients are taken in float32."""
        return gather_rows(rows.to(loss_dtype(self.z0))) if self.gather_distributed else rows

    def _own(self, rows: Tensor, count: int) -> Tensor:
        """This rank's part of gathered rows."""
        if not self.gather_distributed:
            return rows
        return rows[dist.get_rank() * count : (dist.get_rank() + 1) * count]

    def _problem(
        self,
        anchors: Tensor,
        candidates: Tensor,
        unit: Callable[[Tensor], Tensor],
        *,
        two_view: bool = False,
    ) -> CandidateProblem:
        """This rank's anchors against candidates of all ranks, then negatives and queue.

        Args:
            anchors: unit rows of this rank, shape ``(A, d)``.
            candidates: unit rows of all ranks, shape ``(W A, d)``.
            unit: normalises rows.
            two_view: whether the anchors are candidates too, the positive of each being the one
                A / 2 away. If not, the positive of anchor i is candidate i.
        """
        count, device = anchors.shape[0], anchors.device
        # Taken from the tensors' own sizes, so that no rank can be off by another's batch.
        first = dist.get_rank() * count if self.gather_distributed else 0
        itself = torch.arange(first, first + count, device=device)
        parts, part_ids = [candidates], []
        if self.negatives is not None:
            parts.append(unit(self._gathered(self.negatives)))
            part_ids.append(torch.full(parts[-1].shape[:1], UNKNOWN_ID, device=device))
        differentiable = sum(part.shape[0] for part in parts)
        if self.queue is not None and self.queue.filled:
            with torch.no_grad():
                parts.append(unit_rows(self.queue.rows().to(device)))
            part_ids.append(self.queue.row_ids().to(device))
        ids = candidate_ids = None
        if self.ids is not None:
            ids = self.ids.to(device, torch.int64).repeat(2 if two_view else 1)
            everyone = gather_constant(ids) if self.gather_distributed else ids
            candidate_ids = torch.cat([everyone, *part_ids])
        alone = two_view and len(parts) == 1 and not self.gather_distributed
        if len(parts) > 1:
            with torch.autocast(device.type, enabled=False):
                candidates = torch.cat(parts)
        return CandidateProblem(
            anchors=anchors,
            candidates=None if alone else candidates,
            positives=itself.roll(-(count // 2)) if two_view else itself,
            own=itself if two_view else None,
            anchor_ids=ids,
            candidate_ids=candidate_ids,
            dtype=loss_dtype(self.z0),
            differentiable=differentiable,
            positive_shortfalls=_two_view_shortfalls(anchors) if two_view else None,
        )


@torch.no_grad()
def _two_view_shortfalls(rows: Tensor) -> Tensor:
    """Shortfall of each of 2N unit rows from its partner, row i's being ``(i + N) mod 2N``."""
    first, second = rows.detach().chunk(2)
    return (1.0 - (first * second).sum(1)).repeat(2)
