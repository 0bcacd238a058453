"""WEINCE: InfoNCE with an endpoint (Weibull) correction near the cosine cap (paper Eq. 3.1).

    l_ij = (1 - lambda_i) s_ij / tau + lambda_i (-beta_i log(1 - s_ij)),

then the same cross-entropy over the same candidates as InfoNCE. lambda_i and beta_i are read from
the batch's own tail (:mod:`weince_lib.losses.evidence`) and are constants in the backward pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, Self, Unpack, overload

import torch
from torch import Tensor

from .blocks import check_memory
from .candidates import CandidateSet, candidate_problems
from .distributed import gather_constant
from .evidence import (
    Evidence,
    TailEvidence,
    TailIndex,
    TailReading,
    TailSettings,
    weigh,
)
from .infonce import mean_of
from .module import CallOptions, ContrastiveLoss, LossOptions
from .monitor import look_for_duplicates
from .negative_queue import NegativeQueue
from .presets import preset
from .reference import cosines, masked_cross_entropy, read_score_tails
from .similarity import Implementation, logit_slope, loss_dtype, resolve_impl
from .streaming import candidate_nll
from .tail_pass import read_tails


def endpoint_coordinate(scores: Tensor, floor: float = 1e-6) -> Tensor:
    """The shortfall coordinate -log(1 - s), with the shortfall floored.

    The derivative is 1 / max(1 - s, floor) everywhere: where the floor is active it is the
    derivative at the floor and not zero, so that the closest pairs still repel each other.

    Args:
        scores: cosines, any shape.
        floor: least shortfall 1 - s.
    """
    delta = 1.0 - scores
    floored = delta + (delta.clamp_min(floor) - delta).detach()
    return -floored.log()


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


@overload
def weince_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = ...,
    settings: TailSettings | None = ...,
    *,
    return_evidence: Literal[False] = ...,
    **options: Unpack[CallOptions],
) -> Tensor: ...
@overload
def weince_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = ...,
    settings: TailSettings | None = ...,
    *,
    return_evidence: Literal[True],
    **options: Unpack[CallOptions],
) -> tuple[Tensor, TailEvidence]: ...
def weince_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = 0.5,
    settings: TailSettings | None = None,
    *,
    candidates: CandidateSet = "two-view",
    symmetric: bool = True,
    ids: Tensor | None = None,
    negatives: Tensor | None = None,
    queue: NegativeQueue | None = None,
    logit_scale: Tensor | None = None,
    gather_distributed: bool = False,
    validate: bool = True,
    impl: Implementation = "auto",
    memory_budget: int | None = None,
    return_evidence: bool = False,
) -> Tensor | tuple[Tensor, TailEvidence]:
    """WEINCE of one batch of pairs (paper section 3, Algorithm 1).

    The candidate sets are those of :func:`weince_lib.losses.infonce_loss`, with the same keywords.
    rho_0 is taken over all anchors: those of both directions of the symmetric bipartite set, and of
    all ranks under ``gather_distributed``, so that lambda does not depend on how many processes
    share a batch. The tail's size is a share of the candidates before any are left out by identity;
    an anchor with too few left has lambda 0.

    Args:
        z0: first views, or queries, shape ``(N, d)``; rows need not be normalised.
        z1: second views, or keys, same shape. Row ``k`` of both is the same item.
        temperature: tau of the softmax part: 0.5 for images, 0.05 for sentences in the paper.
        settings: how the tail is read; the paper's by default.
        candidates: ``"two-view"`` or ``"bipartite"``.
        symmetric: of the bipartite set, whether keys are anchors too.
        ids: identity of each pair, integer, shape ``(N,)``.
        negatives: further candidates with gradient, shape ``(K, d)``.
        queue: past embeddings as further candidates.
        logit_scale: 1 / tau as a learnable tensor of one element, in place of ``temperature``; no
            upper bound is applied, see :func:`weince_lib.losses.infonce_loss`.
        gather_distributed: take the candidates and rho_0 of all ranks.
        validate: look for zero and non-finite rows (CPU only, where it is free), and compare the
            ranks' batches before gathering them. What a zero row does without it is told at
            :func:`weince_lib.losses.infonce_loss`. On a CPU also warn, once, if more than 1 % of
            the anchors have a negative at cosine 1, as items that are in the batch twice do;
            :class:`weince_lib.losses.TailMonitor` tells the share on every device.
        impl: ``"auto"``, ``"reference"`` or ``"streaming"``.
        memory_budget: bytes the streaming implementation may use for blocks of scores.
        return_evidence: also return the :class:`TailEvidence` of this rank's anchors: the 2N
            views; or the N queries, then, in the symmetric set, the N keys.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input), or
        ``(loss, evidence)``.

    Raises:
        ValueError: as :func:`weince_lib.losses.infonce_loss`.
        RuntimeError: as :func:`weince_lib.losses.infonce_loss`.
    """
    scale = logit_slope(temperature, logit_scale, z0, validate=validate)
    check_memory(memory_budget)
    settings = settings or TailSettings()
    reference = resolve_impl(impl) == "reference"
    problems = candidate_problems(
        z0,
        z1,
        candidates=candidates,
        symmetric=symmetric,
        ids=ids,
        negatives=negatives,
        queue=queue,
        gather_distributed=gather_distributed,
        validate=validate,
        twice_differentiable=reference,
    )
    readings: Sequence[TailReading]
    if reference:
        scored = [cosines(problem) for problem in problems]
        readings = [
            read_score_tails(scores.detach(), counts, p.positives, settings, p.negatives)
            for (scores, counts), p in zip(scored, problems, strict=True)
        ]
    else:
        readings, kept = zip(
            *(read_tails(problem, settings, memory_budget) for problem in problems), strict=True
        )
    reading = _join(readings)
    evidence = weigh(
        reading, settings, gather_constant(reading.rho) if gather_distributed else None
    )
    if validate and z0.device.type == "cpu" and not torch.compiler.is_compiling():
        look_for_duplicates(evidence.rho, settings.floor)
    losses = []
    for i, problem in enumerate(problems):
        anchors = problem.positives.shape[0]
        part = slice(i * anchors, (i + 1) * anchors)
        lam, beta = evidence.lam[part], evidence.beta[part]
        if reference:
            scores, counts = scored[i]
            logits = blended_logits(scores, lam, beta, 1.0 / scale, settings.floor)
            losses.append(masked_cross_entropy(logits, counts, problem.positives))
        else:
            losses.append(
                candidate_nll(
                    problem,
                    slope=(1.0 - lam) * scale.to(lam.dtype),
                    power=lam * beta,
                    floor=settings.floor,
                    rho=evidence.rho[part],
                    shortfalls=kept[i],
                    memory=memory_budget,
                )
            )
    dtype = loss_dtype(z0)
    loss = mean_of(losses).to(dtype)
    return (loss, evidence.to(dtype)) if return_evidence else loss


def _join(readings: Sequence[TailReading]) -> TailReading:
    """The readings of several problems as those of one batch."""
    if len(readings) == 1:
        return readings[0]
    parts = zip(*((r.rho, r.beta, r.delta_aic, r.usable) for r in readings), strict=True)
    return TailReading(*(torch.cat(part) for part in parts))


class WEINCELoss(ContrastiveLoss):
    """Module form of :func:`weince_loss`, with every setting of the tail as a keyword.

    ``WEINCELoss()`` is the paper's; :meth:`from_preset` has the others. See :class:`TailSettings`
    for what each keyword means and why its default is what it is; further keywords (``options``)
    are those of :class:`weince_lib.losses.InfoNCELoss`.
    """

    def __init__(
        self,
        temperature: float = 0.5,
        *,
        tail_index: TailIndex = "line",
        evidence: Evidence = "line-aic",
        cap_quantile: float = 0.2,
        tail_fraction: float = 0.10,
        min_tail: int = 32,
        cap_sharpness: float = 10.0,
        evidence_sharpness: float = 1.0,
        evidence_margin: float = 2.0,
        floor: float = 1e-6,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(temperature, **options)
        self.settings = TailSettings(
            tail_index=tail_index,
            evidence=evidence,
            cap_quantile=cap_quantile,
            tail_fraction=tail_fraction,
            min_tail=min_tail,
            cap_sharpness=cap_sharpness,
            evidence_sharpness=evidence_sharpness,
            evidence_margin=evidence_margin,
            floor=floor,
        )

    @classmethod
    def from_preset(
        cls, name: str, temperature: float = 0.5, **options: Unpack[LossOptions]
    ) -> Self:
        """Build from a preset: ``"paper"``, ``"release"`` or ``"calibrated"``.

        Raises:
            ValueError: for an unknown name, with the known ones listed.
        """
        return cls(temperature, **dataclasses.asdict(preset(name)), **options)

    @overload
    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *,
        ids: Tensor | None = ...,
        negatives: Tensor | None = ...,
        logit_scale: Tensor | None = ...,
        return_evidence: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *,
        ids: Tensor | None = ...,
        negatives: Tensor | None = ...,
        logit_scale: Tensor | None = ...,
        return_evidence: Literal[True],
    ) -> tuple[Tensor, TailEvidence]: ...
    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *,
        ids: Tensor | None = None,
        negatives: Tensor | None = None,
        logit_scale: Tensor | None = None,
        return_evidence: bool = False,
    ) -> Tensor | tuple[Tensor, TailEvidence]:
        """Return the scalar loss of two ``(N, d)`` batches, or ``(loss, evidence)``."""
        loss, evidence = weince_loss(
            z0,
            z1,
            self.temperature,
            self.settings,
            ids=ids,
            negatives=negatives,
            logit_scale=logit_scale,
            return_evidence=True,
            **self.options(),
        )
        self.enqueue(z1, ids)
        return (loss, evidence) if return_evidence else loss

    def own_settings(self) -> dict[str, Any]:
        """The settings of the tail, for ``print(loss)``."""
        return dataclasses.asdict(self.settings)
