"""The losses in plain operations, with the whole matrix of scores.

For scores that come from elsewhere (retrieval, recommendation, re-ranking), where a row may have
any number of candidates, and as the ``"reference"`` that the streamed losses are compared with. All
in float64.
"""

from __future__ import annotations

from typing import Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from .arguments import exact_dtype, logit_slope, loss_dtype, may_look
from .candidates import CandidateProblem
from .evidence import TailEvidence, TailSettings, blend_weights, read_score_tails
from .link import EndpointLink, endpoint_coordinate

#: How far above 1 a score may be by rounding, in half precision too.
ABOVE_ONE = 0.01


def blended_logits(
    scores: Tensor, lam: Tensor, beta: Tensor, temperature: float | Tensor, floor: float = 1e-6
) -> Tensor:
    """Eq. (3.1) for every anchor (row) and candidate (column).

    Args:
        scores: cosines, shape ``(M, C)``.
        lam: blend weight of each anchor, shape ``(M,)``; 0 gives exactly ``scores / temperature``.
        beta: tail index of each anchor, shape ``(M,)``.
        temperature: tau; a scalar tensor takes a gradient.
        floor: least shortfall.

    Returns:
        Logits, shape ``(M, C)``.
    """
    lam, beta = lam[:, None], beta[:, None]
    softmax = scores / temperature
    return (1.0 - lam) * softmax + lam * beta * endpoint_coordinate(scores, floor)


def candidate_cross_entropy(
    logits: Tensor,
    positives: Tensor,
    counts: Tensor | None = None,
    *,
    decoupled: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Mean negative log-likelihood of the positives among the candidates that count.

    Args:
        logits: shape ``(A, C)``.
        positives: column of each anchor's positive, shape ``(A,)``.
        counts: which candidates count, boolean, shape ``(A, C)``. None: all but the diagonal, of
            anchors that are their own candidates.
        decoupled: leave the positive out of the denominator; an anchor without negatives then has
            loss 0.
        weight: of each anchor in the mean, shape ``(A,)``; None is 1.

    Returns:
        Scalar, in nats per anchor.
    """
    if counts is None:
        counts = ~torch.eye(logits.shape[0], dtype=torch.bool, device=logits.device)
    if not decoupled and weight is None:
        return F.cross_entropy(logits.masked_fill(~counts, -torch.inf), positives)
    paired = positives[:, None]
    if decoupled:
        counts = counts.scatter(1, paired, value=False)
    alone = ~counts.any(1, keepdim=True)  # 0 in the place of its candidates keeps gradients finite
    competing = logits.masked_fill(~counts, -torch.inf).masked_fill(alone, 0.0).logsumexp(1)
    losses = (competing - logits.gather(1, paired)[:, 0]).masked_fill(alone[:, 0], 0.0)
    return (losses if weight is None else losses * weight).mean()


def cosines(problem: CandidateProblem) -> tuple[Tensor, Tensor]:
    """Cosines of all anchors with all candidates, float64, and which of them count, ``(A, C)``.

    Those of the anchor itself and of its identity do not, all but its positive.
    """
    with torch.autocast(problem.anchors.device.type, enabled=False):
        scores = problem.anchors @ problem.rows.T
    columns = torch.arange(problem.columns, device=scores.device)
    counts = torch.ones_like(scores, dtype=torch.bool)
    if problem.anchor_ids is not None and problem.candidate_ids is not None:
        counts = problem.anchor_ids[:, None] != problem.candidate_ids
        counts = counts | (columns == problem.positives[:, None])
    if problem.own is not None:
        counts = counts & (columns != problem.own[:, None])
    return scores, counts


def infonce_from_scores(
    scores: Tensor,
    positives: Tensor,
    mask: Tensor | None = None,
    temperature: float = 0.5,
    *,
    logit_scale: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """InfoNCE of a matrix of scores; any real scores will do.

    Args:
        scores: shape ``(A, C)``; row i holds anchor i's scores, with gradient.
        positives: column of each anchor's positive, integer, shape ``(A,)``.
        mask: boolean, shape ``(A, C)``: True where the column is a candidate of the row. The
            positive always is one. A score that is masked out may be anything, NaN included. None:
            all columns are candidates.
        temperature: tau.
        logit_scale: 1 / tau as a learnable tensor of one element, in place of ``temperature``.
        validate: look at the values of ``scores`` and ``positives``, on the CPU only.

    Returns:
        Scalar, the mean over rows in nats, float32 (float64 for float64 scores). A row with no
        candidate but its positive has loss 0.

    Raises:
        ValueError: for shapes or dtypes that do not fit, columns out of range, scores of candidates
            that are not finite, or a temperature that is not positive.
    """
    softmax = EndpointLink(curvature=0.0)
    return endpoint_from_scores(
        scores,
        positives,
        mask,
        temperature,
        softmax,
        logit_scale=logit_scale,
        validate=validate,
    )


@overload
def weince_from_scores(
    scores: Tensor,
    positives: Tensor,
    mask: Tensor | None = ...,
    temperature: float = ...,
    settings: TailSettings | None = ...,
    *,
    logit_scale: Tensor | None = ...,
    validate: bool = ...,
    return_evidence: Literal[False] = ...,
) -> Tensor: ...
@overload
def weince_from_scores(
    scores: Tensor,
    positives: Tensor,
    mask: Tensor | None = ...,
    temperature: float = ...,
    settings: TailSettings | None = ...,
    *,
    logit_scale: Tensor | None = ...,
    validate: bool = ...,
    return_evidence: Literal[True],
) -> tuple[Tensor, TailEvidence]: ...
def weince_from_scores(
    scores: Tensor,
    positives: Tensor,
    mask: Tensor | None = None,
    temperature: float = 0.5,
    settings: TailSettings | None = None,
    *,
    logit_scale: Tensor | None = None,
    validate: bool = True,
    return_evidence: bool = False,
) -> Tensor | tuple[Tensor, TailEvidence]:
    """WEINCE of a matrix of scores whose upper end is 1, as a cosine's is.

    Each row's tail has its own size, ``settings.tail_size`` of its own number of negatives. A row
    with too few negatives for a fit, or none, has lambda 0, hence the InfoNCE loss. rho_0 is the
    quantile over rows that have a negative.

    Args:
        scores: as for :func:`infonce_from_scores`, and at most 1.
        positives: as there, and so for the other keywords.
        mask: as there.
        temperature: tau of the softmax part.
        settings: how the tail is read; the paper's by default.
        logit_scale: as there.
        validate: as there.
        return_evidence: also return the :class:`TailEvidence` of each row; ``rho`` is infinite in
            a row without negatives.

    Returns:
        The loss as there, or ``(loss, evidence)``.

    Raises:
        ValueError: as :func:`infonce_from_scores`, and for scores above 1.
    """
    settings = settings or TailSettings()
    scale = logit_slope(temperature, logit_scale, scores, validate=validate)
    exact, counts = _candidate_scores(scores, positives, mask, validate)
    if may_look(scores, validate) and bool((exact > 1.0 + ABOVE_ONE).any()):
        raise ValueError(
            f"scores must not exceed 1, where the endpoint tail ends; got {float(exact.max()):.6g} "
            "(use cosines, or subtract the scores' upper bound and add 1)"
        )
    is_negative = counts.scatter(1, positives[:, None], value=False)
    reading = read_score_tails(exact.detach(), is_negative, settings)
    with_negatives = reading.rho[torch.isfinite(reading.rho)]
    evidence = blend_weights(
        reading, settings, with_negatives if with_negatives.numel() else reading.rho[:1]
    )
    logits = blended_logits(exact, evidence.lam, evidence.beta, 1.0 / scale, settings.floor)
    loss = candidate_cross_entropy(logits, positives, counts).to(loss_dtype(scores))
    return (loss, evidence.to(loss.dtype)) if return_evidence else loss


def endpoint_from_scores(
    scores: Tensor,
    positives: Tensor,
    mask: Tensor | None = None,
    temperature: float = 0.2,
    link: EndpointLink | None = None,
    *,
    logit_scale: Tensor | None = None,
    validate: bool = True,
) -> Tensor:
    """The loss of an endpoint link of a matrix of scores; see :mod:`weince_lib.losses.link`.

    Args:
        scores: as for :func:`infonce_from_scores`, and below the endpoint 1 / curvature.
        positives: as there, and so for the other keywords.
        mask: as there.
        temperature: as there.
        link: curvature, and whether the positive is left out of the denominator.
        logit_scale: as there.
        validate: as there.

    Returns:
        The loss as there.

    Raises:
        ValueError: as :func:`infonce_from_scores`, and for scores beyond the endpoint.
    """
    link = link or EndpointLink()
    scale = logit_slope(temperature, logit_scale, scores, validate=validate)
    exact, counts = _candidate_scores(scores, positives, mask, validate)
    if link.offset is not None and may_look(scores, validate):
        most = float(exact.detach().max())
        if most > 1.0 + link.offset + ABOVE_ONE:
            raise ValueError(
                f"scores must not exceed the endpoint 1 / curvature = {1 + link.offset:.6g}, got "
                f"{most:.6g}; with these scores curvature must lie in [0, {1 / most:.4g}]"
            )
    logits = link.coordinate(exact) * scale
    loss = candidate_cross_entropy(logits, positives, counts, decoupled=link.decoupled)
    return loss.to(loss_dtype(scores))


def _candidate_scores(
    scores: Tensor, positives: Tensor, mask: Tensor | None, validate: bool
) -> tuple[Tensor, Tensor]:
    """The scores in float64, 0 where they do not count, and which of them do."""
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(f"scores must have shape (A, C), not empty, got {tuple(scores.shape)}")
    if not scores.is_floating_point():
        raise ValueError(f"scores must be floating point, got {scores.dtype}")
    if positives.shape != scores.shape[:1] or positives.dtype != torch.int64:
        raise ValueError(
            f"positives must be int64 columns of shape ({scores.shape[0]},), "
            f"got {tuple(positives.shape)} of {positives.dtype}"
        )
    if mask is not None and (mask.shape != scores.shape or mask.dtype != torch.bool):
        raise ValueError(
            f"mask must be boolean of shape {tuple(scores.shape)}, "
            f"got {tuple(mask.shape)} of {mask.dtype}"
        )
    look = may_look(scores, validate)
    if look and not bool(((positives >= 0) & (positives < scores.shape[1])).all()):
        raise ValueError(
            f"positives must lie in 0 to {scores.shape[1] - 1}, got {int(positives.min())} "
            f"to {int(positives.max())}"
        )
    counts = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.clone()
    counts = counts.scatter(1, positives[:, None], value=True)
    exact = torch.where(counts, scores, 0.0).to(exact_dtype(scores.device))
    if look and not bool(torch.isfinite(exact).all()):
        row = int((~torch.isfinite(exact)).any(1).nonzero()[0, 0])
        raise ValueError(f"scores: row {row} holds NaN or infinity where the mask has a candidate")
    return exact, counts
