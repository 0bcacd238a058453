"""InfoNCE (NT-Xent), the top-1 Plackett-Luce likelihood of paper section 2.1.

L_i = -log( exp(s_ii+ / tau) / sum_{j != i} exp(s_ij / tau) ), averaged over the 2N anchors.

van den Oord et al. (2018), arXiv:1807.03748; in the two-view form of SimCLR, arXiv:2002.05709.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .blocks import CandidateProblem, check_memory
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


def infonce_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = 0.5,
    *,
    validate: bool = True,
    impl: Implementation = "auto",
    memory_budget: int | None = None,
) -> Tensor:
    """InfoNCE of two views of one batch.

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape. Row ``k`` of both is the same item.
        temperature: tau. 0.5 is SimCLR's choice for batches of 256 and the paper's for images;
            sentence encoders use 0.05.
        validate: look for zero and non-finite rows (CPU only, where it is free). Without it a zero
            row has cosine 0 with everything and takes no gradient.
        impl: ``"reference"`` is the equation in plain operations, in float64 and with the whole
            score matrix; ``"streaming"`` the same to rounding, in blocks of anchors and with the
            gradient in closed form; ``"auto"`` is streaming.
        memory_budget: bytes the streaming implementation may use for blocks of scores; by default
            32 MiB on a CPU (a last-level cache) and 512 MiB on an accelerator.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input).

    Raises:
        ValueError: for shapes that differ, fewer than two pairs, a temperature or a budget that is
            not positive, an unknown ``impl``, and rows that are zero or not finite.
    """
    check_temperature(temperature)
    check_memory(memory_budget)
    check_pairs(z0, z1, validate=validate)
    if resolve_impl(impl) == "reference":
        cosines, positives = two_view_cosines(z0, z1)
        return candidate_cross_entropy(cosines / temperature, positives).to(loss_dtype(z0))
    problem = CandidateProblem.two_view(z0, z1)
    slope = torch.full_like(problem.positives, 1.0 / temperature, dtype=problem.dtype)
    return candidate_nll(problem, slope, memory=memory_budget)


class InfoNCELoss(nn.Module):
    """Module form of :func:`infonce_loss`: ``InfoNCELoss(temperature=0.5)(z0, z1)``."""

    def __init__(
        self,
        temperature: float = 0.5,
        *,
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

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches of embeddings."""
        return infonce_loss(
            z0,
            z1,
            self.temperature,
            validate=self.validate,
            impl=self.impl,
            memory_budget=self.memory_budget,
        )

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        return f"temperature={self.temperature}, impl={self.impl!r}"
