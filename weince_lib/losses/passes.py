"""The loss of candidate problems: two streamed passes, or plain operations.

The first pass reads every anchor's tail (:func:`~weince_lib.losses.evidence.read_tails`). From the
tails of all anchors come the blend weights, so several processes can share a batch. The second pass
(:func:`~weince_lib.losses.streaming.candidate_nll`) forms loss and gradient with these weights,
which carry no gradient. InfoNCE and the endpoint link have the second pass alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .candidates import CandidateProblem
from .dense import blended_logits, candidate_cross_entropy, cosines
from .distributed import gather_constant
from .evidence import (
    TailEvidence,
    TailReading,
    TailSettings,
    blend_weights,
    read_score_tails,
    read_tails,
)
from .link import EndpointLink
from .streaming import candidate_nll


def problem_loss(
    problems: Sequence[CandidateProblem],
    scale: Tensor,
    settings: TailSettings | EndpointLink | None,
    *,
    evidence: TailEvidence | None = None,
    all_ranks: bool = False,
    dense: bool = False,
    memory: int | None = None,
) -> tuple[Tensor, TailEvidence | None]:
    """InfoNCE, WEINCE or an endpoint link's loss of candidate problems that make one batch.

    Args:
        problems: of equally many anchors each.
        scale: 1 / tau, shape ``()``; may take a gradient.
        settings: how the tails are read, or the link; None is InfoNCE.
        evidence: of all the problems' anchors, where it has been taken already.
        all_ranks: whether rho_0 is taken over the anchors of all processes.
        dense: plain operations with the whole matrix of scores.
        memory: budget in bytes of the streamed passes; None is the device's default.

    Returns:
        The loss in nats per anchor, shape ``()``, and the evidence, None but for WEINCE.
    """
    scored = [cosines(problem) for problem in problems] if dense else []
    tails = settings if isinstance(settings, TailSettings) else None
    link = settings if isinstance(settings, EndpointLink) else EndpointLink(curvature=0.0)
    shortfalls: list[Tensor | None] = [None] * len(problems)
    if tails is not None and evidence is None:
        readings = []
        for i, problem in enumerate(problems):
            if dense:
                scores, counts = scored[i]
                is_negative = counts.scatter(1, problem.positives[:, None], value=False)
                reading = read_score_tails(scores.detach(), is_negative, tails, problem.negatives)
            else:
                reading, shortfalls[i] = read_tails(problem, tails, memory)
            readings.append(reading)
        reading = TailReading.join(readings)
        batch_rho = gather_constant(reading.rho) if all_ranks else None
        evidence = blend_weights(reading, tails, batch_rho)
    losses = []
    for i, problem in enumerate(problems):
        anchors = problem.positives.shape[0]
        part = slice(i * anchors, (i + 1) * anchors)
        if dense:
            scores, counts = scored[i]
            if tails is None or evidence is None:
                logits = link.coordinate(scores) * scale
            else:
                lam, beta = evidence.lam[part], evidence.beta[part]
                logits = blended_logits(scores, lam, beta, 1.0 / scale, tails.floor)
            loss = candidate_cross_entropy(
                logits, problem.positives, counts, decoupled=tails is None and link.decoupled
            )
        elif tails is None or evidence is None:
            loss = candidate_nll(
                problem,
                scale.to(problem.dtype).expand(problem.positives.shape),
                memory=memory,
                offset=link.offset,
                decoupled=link.decoupled,
            )
        else:
            lam, beta = evidence.lam[part], evidence.beta[part]
            loss = candidate_nll(
                problem,
                slope=(1.0 - lam) * scale.to(lam.dtype),
                power=lam * beta,
                floor=tails.floor,
                rho=evidence.rho[part],
                shortfalls=shortfalls[i],
                memory=memory,
            )
        losses.append(loss)
    return losses[0] if len(losses) == 1 else torch.stack(losses).mean(), evidence
