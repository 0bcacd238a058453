"""WEINCE: InfoNCE with an endpoint (Weibull) correction near the cosine cap (paper Eq. 3.1).

    l_ij = (1 - lambda_i) s_ij / tau + lambda_i (-beta_i log(1 - s_ij)),

then the same cross-entropy over the same candidates as InfoNCE. lambda_i and beta_i are read from
the batch's own tail (:mod:`weince_lib.losses.evidence`) and are constants in the backward pass.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, Self, overload

from torch import Tensor, nn

from .blocks import CandidateProblem, check_memory
from .evidence import (
    Evidence,
    TailEvidence,
    TailIndex,
    TailSettings,
    tail_evidence,
    weigh,
)
from .presets import preset
from .similarity import (
    Implementation,
    candidate_cross_entropy,
    check_pairs,
    check_temperature,
    loss_dtype,
    resolve_impl,
    two_view_cosines,
)
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
    scores: Tensor, lam: Tensor, beta: Tensor, temperature: float, floor: float = 1e-6
) -> Tensor:
    """Eq. (3.1) for every anchor (row) and candidate (column).

    Args:
        scores: cosines, shape ``(M, C)``.
        lam: blend weight of each anchor, shape ``(M,)``; 0 gives exactly ``scores / temperature``.
        beta: tail index of each anchor, shape ``(M,)``.
        temperature: tau.
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
    validate: bool = ...,
    impl: Implementation = ...,
    memory_budget: int | None = ...,
    return_evidence: Literal[False] = ...,
) -> Tensor: ...
@overload
def weince_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = ...,
    settings: TailSettings | None = ...,
    *,
    validate: bool = ...,
    impl: Implementation = ...,
    memory_budget: int | None = ...,
    return_evidence: Literal[True],
) -> tuple[Tensor, TailEvidence]: ...
def weince_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = 0.5,
    settings: TailSettings | None = None,
    *,
    validate: bool = True,
    impl: Implementation = "auto",
    memory_budget: int | None = None,
    return_evidence: bool = False,
) -> Tensor | tuple[Tensor, TailEvidence]:
    """WEINCE of two views of one batch (paper section 3, Algorithm 1).

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape. Row ``k`` of both is the same item.
        temperature: tau of the softmax part: 0.5 for images, 0.05 for sentences in the paper.
        settings: how the tail is read; the paper's by default.
        validate: look for zero and non-finite rows (CPU only, where it is free).
        impl: as for :func:`weince_lib.losses.infonce_loss`.
        memory_budget: as for :func:`weince_lib.losses.infonce_loss`.
        return_evidence: also return the per-anchor :class:`TailEvidence`.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input), or
        ``(loss, evidence)``.

    Raises:
        ValueError: as :func:`weince_lib.losses.infonce_loss`.
    """
    check_temperature(temperature)
    check_memory(memory_budget)
    check_pairs(z0, z1, validate=validate)
    settings = settings or TailSettings()
    dtype = loss_dtype(z0)
    if resolve_impl(impl) == "reference":
        cosines, positives = two_view_cosines(z0, z1)
        evidence = tail_evidence(cosines.detach(), positives, settings)
        logits = blended_logits(cosines, evidence.lam, evidence.beta, temperature, settings.floor)
        loss = candidate_cross_entropy(logits, positives).to(dtype)
        return (loss, evidence.to(dtype)) if return_evidence else loss
    problem = CandidateProblem.two_view(z0, z1)
    reading, shortfalls = read_tails(problem, settings, memory_budget)
    evidence = weigh(reading, settings)
    loss = candidate_nll(
        problem,
        slope=(1.0 - evidence.lam) / temperature,
        power=evidence.lam * evidence.beta,
        floor=settings.floor,
        rho=evidence.rho,
        shortfalls=shortfalls,
        memory=memory_budget,
    )
    return (loss, evidence) if return_evidence else loss


class WEINCELoss(nn.Module):
    """Module form of :func:`weince_loss`, with every setting of the tail as a keyword.

    ``WEINCELoss()`` is the paper's; :meth:`from_preset` has the others. See :class:`TailSettings`
    for what each keyword means and why its default is what it is.
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
        validate: bool = True,
        impl: Implementation = "auto",
        memory_budget: int | None = None,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        resolve_impl(impl)
        check_memory(memory_budget)
        self.temperature = temperature
        self.validate = validate
        self.impl: Implementation = impl
        self.memory_budget = memory_budget
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
        cls,
        name: str,
        temperature: float = 0.5,
        *,
        validate: bool = True,
        impl: Implementation = "auto",
        memory_budget: int | None = None,
    ) -> Self:
        """Build from a preset: ``"paper"``, ``"release"`` or ``"calibrated"``.

        Raises:
            ValueError: for an unknown name, with the known ones listed.
        """
        return cls(
            temperature,
            validate=validate,
            impl=impl,
            memory_budget=memory_budget,
            **dataclasses.asdict(preset(name)),
        )

    @overload
    def forward(
        self, z0: Tensor, z1: Tensor, *, return_evidence: Literal[False] = ...
    ) -> Tensor: ...
    @overload
    def forward(
        self, z0: Tensor, z1: Tensor, *, return_evidence: Literal[True]
    ) -> tuple[Tensor, TailEvidence]: ...
    def forward(
        self, z0: Tensor, z1: Tensor, *, return_evidence: bool = False
    ) -> Tensor | tuple[Tensor, TailEvidence]:
        """Return the scalar loss of two ``(N, d)`` batches, or ``(loss, evidence)``."""
        loss, evidence = weince_loss(
            z0,
            z1,
            self.temperature,
            self.settings,
            validate=self.validate,
            impl=self.impl,
            memory_budget=self.memory_budget,
            return_evidence=True,
        )
        return (loss, evidence) if return_evidence else loss

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        fields = dataclasses.asdict(self.settings)
        return ", ".join(
            [
                f"temperature={self.temperature}",
                *(f"{k}={v}" for k, v in fields.items()),
                f"impl={self.impl!r}",
            ]
        )
