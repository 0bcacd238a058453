"""Batches of paired embeddings for the tests of the losses, and what is compared of a loss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def two_views(
    n: int,
    d: int,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    noise: float = 0.4,
    requires_grad: bool = False,
) -> tuple[Tensor, Tensor]:
    """Two noisy views of n random items, shape (n, d), with rows of unequal length."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    items = draw(n, d)
    views = [
        ((items + noise * draw(n, d)) * draw(n, 1).exp()).to(dtype).requires_grad_(requires_grad)
        for _ in range(2)
    ]
    return views[0], views[1]


def numbers(*tensors: Tensor) -> list[np.ndarray]:
    return [t.detach().double().numpy() for t in tensors]


def value_and_gradients(loss: Tensor, *inputs: Tensor) -> list[Tensor]:
    return [loss.detach(), *torch.autograd.grad(loss, inputs)]
