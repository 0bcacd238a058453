"""What the integrations share: one loss over a candidate problem, corrected or not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from weince_lib.losses.blocks import CandidateProblem
from weince_lib.losses.evidence import TailEvidence, TailSettings, weigh
from weince_lib.losses.presets import preset
from weince_lib.losses.similarity import check_kind
from weince_lib.losses.streaming import candidate_nll
from weince_lib.losses.tail_pass import read_tails

#: Tail settings, the name of a preset, or None for InfoNCE.
Correction = TailSettings | str | None


def resolve_correction(correction: Correction) -> TailSettings | None:
    """The settings behind ``correction``; None stays None, which is InfoNCE.

    Raises:
        ValueError: for an unknown preset, or what is neither settings nor a name.
    """
    if correction is None or isinstance(correction, TailSettings):
        return correction
    if isinstance(correction, str):
        return preset(correction)
    raise ValueError(
        f"correction must be TailSettings, the name of a preset or None, got {correction!r}"
    )


def check_rows(z: Tensor, name: str) -> None:
    """Raise one clear error for what cannot be embeddings.

    Zero rows pass: the libraries give them cosine 0 and train on, and so do we.

    Args:
        z: embeddings, shape ``(rows, d)``.
        name: what the error calls them.

    Raises:
        ValueError: if ``z`` is no floating-point matrix, has no rows or, on the CPU where looking
            costs no synchronisation, holds NaN or infinity.
    """
    if z.ndim != 2 or z.shape[0] == 0:
        raise ValueError(f"{name} must have shape (rows, d) with rows, got {tuple(z.shape)}")
    check_kind(z, name)
    if z.device.type == "cpu" and not torch.compiler.is_compiling():
        finite = torch.isfinite(z).all(dim=1)
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            raise ValueError(f"{name}: row {row} holds NaN or infinity")


@dataclass(eq=False)
class CountedProblem(CandidateProblem):
    """A candidate problem whose anchors have fewer negatives than its columns suggest.

    Attributes:
        fewest_negatives: number of negatives of the anchor that has fewest; the tail is sized by
            it, so that every anchor has one. None: all columns count.
    """

    fewest_negatives: int | None = None

    @property
    def negatives(self) -> int:
        """Number of negatives that every anchor has."""
        if self.fewest_negatives is None:
            return super().negatives
        return self.fewest_negatives


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all processes in the order of their ranks, with a gradient back to each.

    The gradient is the sum of what every process asks for, so that after the averaging of
    ``DistributedDataParallel`` it is the whole batch's. All processes must hold equally many rows.

    Args:
        rows: shape ``(n, ...)``.

    Returns:
        Shape ``(world size * n, ...)``.
    """
    # Not every build of torch has it.
    from torch.distributed.nn.functional import all_gather

    return torch.cat(all_gather(rows.contiguous()))


def world() -> tuple[int, int]:
    """Rank and number of processes; ``(0, 1)`` without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def evidence_of(
    problem: CandidateProblem, settings: TailSettings, *, all_ranks: bool = False
) -> tuple[TailEvidence, Tensor | None]:
    """Tail evidence of a problem's anchors, and their shortfalls where few enough to keep.

    Args:
        problem: anchors and candidates, at least one negative each.
        settings: how the tails are read.
        all_ranks: take rho_0 over the anchors of all processes, because each holds a part only.
    """
    reading, shortfalls = read_tails(problem, settings)
    batch_rho = gather_rows(reading.rho) if all_ranks else None
    return weigh(reading, settings, batch_rho), shortfalls


def contrastive_loss(
    problem: CandidateProblem,
    scale: float | Tensor,
    settings: TailSettings | None,
    *,
    evidence: TailEvidence | None = None,
    all_ranks: bool = False,
) -> Tensor:
    """InfoNCE or WEINCE of one candidate problem.

    Args:
        problem: anchors and candidates.
        scale: 1 / tau, a number or a tensor of one element, which then has a gradient.
        settings: how the tails are read; None is InfoNCE. So is a problem without negatives.
        evidence: of the problem's anchors, if it has been taken elsewhere.
        all_ranks: as for :func:`evidence_of`.

    Returns:
        Scalar, in nats per anchor.
    """
    anchors = problem.anchors
    if isinstance(scale, Tensor):
        scale = scale.reshape(()).to(anchors.device)
    one = anchors.new_ones(anchors.shape[0], dtype=problem.dtype)
    if settings is None or problem.negatives < 1:
        return candidate_nll(problem, slope=one * scale)
    shortfalls = None
    if evidence is None:
        evidence, shortfalls = evidence_of(problem, settings, all_ranks=all_ranks)
    return candidate_nll(
        problem,
        slope=(one - evidence.lam) * scale,
        power=evidence.lam * evidence.beta,
        floor=settings.floor,
        rho=evidence.rho,
        shortfalls=shortfalls,
    )
