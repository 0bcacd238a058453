"""WEINCE: InfoNCE with an endpoint (Weibull) correction near the cosine cap (paper Eq. 3.1).

    l_ij = (1 - lambda_i) s_ij / tau + lambda_i (-beta_i log(1 - s_ij)),

then the same cross-entropy over the same candidates as InfoNCE. lambda_i and beta_i are read from
the batch's own tail (:mod:`weince_lib.losses.evidence`) and are constants in the backward pass.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Self, Unpack, overload

from torch import Tensor

from .evidence import Evidence, TailEvidence, TailIndex, TailSettings, preset
from .infonce import CallOptions, ContrastiveLoss, LossOptions, batch_loss


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
    return_evidence: bool = False,
    **options: Unpack[CallOptions],
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
        return_evidence: also return the :class:`TailEvidence` of this rank's anchors: the 2N
            views; or the N queries, then, in the symmetric set, the N keys.
        **options: the keywords of :func:`weince_lib.losses.infonce_loss`, which mean the same here.
            ``gather_distributed`` also takes rho_0 over all ranks. On a CPU, ``validate`` also
            warns, once, if more than 1 % of the anchors have a negative at cosine 1, as items that
            are in the batch twice do; :class:`weince_lib.losses.TailMonitor` tells the share on
            every device.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input), or
        ``(loss, evidence)``.

    Raises:
        ValueError: as :func:`weince_lib.losses.infonce_loss`.
        RuntimeError: as :func:`weince_lib.losses.infonce_loss`.
    """
    loss, evidence = batch_loss(z0, z1, temperature, settings or TailSettings(), **options)
    return (loss, evidence) if return_evidence and evidence is not None else loss


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

    def forward(  # type: ignore[override]  # it may return the evidence too
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
        loss, evidence = self._loss_and_evidence(z0, z1, ids, negatives, logit_scale)
        return (loss, evidence) if return_evidence and evidence is not None else loss

    def own_settings(self) -> dict[str, Any]:
        """The settings of the tail, for ``print(loss)``."""
        return dataclasses.asdict(self.settings)
