"""What the integrations share: one loss over a candidate problem, corrected or not."""

from __future__ import annotations

from typing import Literal, overload

import torch
import torch.distributed as dist
from torch import Tensor

from weince_lib.losses.arguments import check_kind, exact_dtype, may_look
from weince_lib.losses.candidates import CandidateProblem
from weince_lib.losses.evidence import TailEvidence, TailSettings, preset
from weince_lib.losses.link import EndpointLink
from weince_lib.losses.passes import problem_loss
from weince_lib.losses.self_setting import SelfSettingLoss

#: Tail settings, the name of a preset, an endpoint link, or None for InfoNCE.
Correction = TailSettings | EndpointLink | str | None


@overload
def resolve_correction(correction: Correction) -> TailSettings | EndpointLink | None: ...
@overload
def resolve_correction(
    correction: Correction | SelfSettingLoss, *, sets_itself: Literal[True]
) -> TailSettings | EndpointLink | SelfSettingLoss | None: ...
def resolve_correction(
    correction: Correction | SelfSettingLoss, *, sets_itself: bool = False
) -> TailSettings | EndpointLink | SelfSettingLoss | None:
    """The settings behind ``correction``; None stays None, which is InfoNCE.

    Args:
        correction: what the user gave.
        sets_itself: whether the integration takes a :class:`~weince_lib.losses.SelfSettingLoss`.

    Raises:
        ValueError: for an unknown preset, or what is neither settings nor a name.
    """
    if isinstance(correction, SelfSettingLoss):
        if not sets_itself:
            raise ValueError(
                f"correction = {correction!r}: this integration has a temperature of its own; the "
                "losses of lightly and sentence-transformers take a loss that sets itself"
            )
        return correction
    if correction is None or isinstance(correction, TailSettings | EndpointLink):
        return correction
    if isinstance(correction, str):
        return preset(correction)
    raise ValueError(
        "correction must be TailSettings, an EndpointLink, the name of a preset or None, got "
        f"{correction!r}"
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
    if may_look(z, validate=True):
        finite = torch.isfinite(z).all(dim=1)
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            raise ValueError(f"{name}: row {row} holds NaN or infinity")


def check_partners(**rows: Tensor) -> None:
    """Check embeddings that belong together row by row, each as :func:`check_rows` does.

    Raises:
        ValueError: also for shapes that differ.
    """
    for name, z in rows.items():
        check_rows(z, name)
    if len(shapes := {tuple(z.shape) for z in rows.values()}) > 1:
        raise ValueError(f"{', '.join(rows)} must have one shape (N, d), got {sorted(shapes)}")


def world() -> tuple[int, int]:
    """Rank and number of processes; ``(0, 1)`` without a process group."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def contrastive_loss(
    problem: CandidateProblem,
    scale: float | Tensor,
    settings: TailSettings | EndpointLink | SelfSettingLoss | None,
    *,
    evidence: TailEvidence | None = None,
    all_ranks: bool = False,
) -> Tensor:
    """InfoNCE or WEINCE of one candidate problem.

    Args:
        problem: anchors and candidates.
        scale: 1 / tau, a number or a tensor of one element, which then has a gradient.
        settings: how the tails are read, the link, or a loss that sets itself, which takes no
            ``scale``; None is InfoNCE. So is a problem without negatives.
        evidence: of the problem's anchors, if it has been taken elsewhere.
        all_ranks: take rho_0 over the anchors of all processes, because each holds a part only.

    Returns:
        Scalar, in nats per anchor.
    """
    device = problem.anchors.device
    if not isinstance(scale, Tensor):
        scale = torch.full((), scale, dtype=exact_dtype(device), device=device)
    if problem.negatives < 1:
        settings = None
    if isinstance(settings, SelfSettingLoss):
        return settings.problem_loss([problem], all_ranks=all_ranks)
    loss, _ = problem_loss(
        [problem], scale.reshape(()).to(device), settings, evidence=evidence, all_ranks=all_ranks
    )
    return loss
