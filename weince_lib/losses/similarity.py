"""Unit rows of embeddings, and the cosines of two views.

Every loss starts from unit rows. Two views of N items are stacked, first all of ``z0`` and then all
of ``z1``, so that the positive of view ``i`` is view ``(i + N) mod 2N``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Rows shorter than this have no direction; it is the ``eps`` of ``torch.nn.functional.normalize``.
ZERO_NORM = 1e-12


def exact_dtype(device: torch.device) -> torch.dtype:
    """The dtype that similarities near 1 are taken in on ``device``."""
    return torch.float32 if device.type == "mps" else torch.float64


def loss_dtype(z: Tensor) -> torch.dtype:
    """The dtype of losses and evidence: float64 for float64 embeddings, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


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
    n = z0.shape[0]
    z = unit_rows(stack_views(z0, z1))
    with torch.autocast(z.device.type, enabled=False):
        scores = z @ z.T
    return scores, torch.arange(2 * n, device=z.device).roll(n)


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
