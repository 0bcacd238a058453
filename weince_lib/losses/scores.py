"""InfoNCE and WEINCE of scores that come from elsewhere: retrieval, recommendation, re-ranking.

Here a row may have any number of candidates, so nothing is streamed: plain operations in float64 on
a matrix that the caller holds anyway.
"""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from .evidence import TailEvidence, TailReading, TailSettings, read_tail, weigh
from .reference import masked_cross_entropy
from .similarity import exact_dtype, logit_slope, loss_dtype
from .weince import blended_logits

#: How far above 1 a score may be by rounding, in half precision too.
ABOVE_ONE = 0.01


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
    scale = logit_slope(temperature, logit_scale, scores, validate=validate)
    exact, counts = _candidate_scores(scores, positives, mask, validate)
    return masked_cross_entropy(exact * scale, counts, positives).to(loss_dtype(scores))


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
        scores: shape ``(A, C)``, at most 1; row i holds anchor i's scores, with gradient.
        positives: column of each anchor's positive, integer, shape ``(A,)``.
        mask: as for :func:`infonce_from_scores`.
        temperature: tau of the softmax part.
        settings: how the tail is read; the paper's by default.
        logit_scale: 1 / tau as a learnable tensor of one element, in place of ``temperature``.
        validate: look at the values of ``scores`` and ``positives``, on the CPU only.
        return_evidence: also return the :class:`TailEvidence` of each row; ``rho`` is infinite in
            a row without negatives.

    Returns:
        Scalar, the mean over rows in nats, float32 (float64 for float64 scores), or
        ``(loss, evidence)``.

    Raises:
        ValueError: as :func:`infonce_from_scores`, and for scores above 1.
    """
    settings = settings or TailSettings()
    scale = logit_slope(temperature, logit_scale, scores, validate=validate)
    exact, counts = _candidate_scores(scores, positives, mask, validate)
    if _may_look(scores, validate) and bool((exact > 1.0 + ABOVE_ONE).any()):
        raise ValueError(
            f"scores must not exceed 1, where the endpoint tail ends; got {float(exact.max()):.6g} "
            "(use cosines, or subtract the scores' upper bound and add 1)"
        )
    reading = _read_ragged(exact.detach(), counts, positives, settings)
    evidence = weigh(reading, settings, _with_negatives(reading.rho))
    logits = blended_logits(exact, evidence.lam, evidence.beta, 1.0 / scale, settings.floor)
    loss = masked_cross_entropy(logits, counts, positives).to(loss_dtype(scores))
    return (loss, evidence.to(loss.dtype)) if return_evidence else loss


def _may_look(scores: Tensor, validate: bool) -> bool:
    return validate and scores.device.type == "cpu" and not torch.compiler.is_compiling()


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
    look = _may_look(scores, validate)
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


@torch.no_grad()
def _read_ragged(
    scores: Tensor, counts: Tensor, positives: Tensor, settings: TailSettings
) -> TailReading:
    """Read each row's tail, rows of equally many negatives together."""
    negative = counts.scatter(1, positives[:, None], value=False)
    delta = (1.0 - scores).clamp_min(settings.floor).masked_fill(~negative, torch.inf)
    numbers = negative.sum(1)
    most = int(numbers.max())
    reach = max(1, min(settings.tail_size(most) + 1, scores.shape[1]))
    ascending = delta.topk(reach, dim=1, largest=False, sorted=True).values
    rho = ascending[:, 0].clone()
    beta, delta_aic = torch.zeros_like(rho), torch.zeros_like(rho)
    usable = torch.zeros_like(rho, dtype=torch.bool)
    for number in numbers.unique().tolist():
        if number == 0:
            continue
        rows = (numbers == number).nonzero()[:, 0]
        k = settings.tail_size(number)
        part = read_tail(ascending[rows, : min(k + 1, number)], k, settings)
        beta[rows], delta_aic[rows], usable[rows] = part.beta, part.delta_aic, part.usable
    return TailReading(rho, beta, delta_aic, usable)


def _with_negatives(rho: Tensor) -> Tensor:
    """The rho of the rows that have a negative; a single infinity if none has."""
    finite = rho[torch.isfinite(rho)]
    return finite if finite.numel() else rho[:1]
