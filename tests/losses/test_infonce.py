"""InfoNCE at the values it has in closed form, and as a module."""

from __future__ import annotations

import math

import pytest
import torch
from loss_batches import two_views

from weince_lib.losses import infonce_loss


@pytest.mark.parametrize("n", [2, 5, 33])
def test_equal_embeddings_are_a_uniform_guess(n: int) -> None:
    """With all scores equal each of the 2N - 1 candidates is as likely as the positive."""
    z = torch.ones(n, 4, dtype=torch.float64)
    assert infonce_loss(z, z).item() == pytest.approx(math.log(2 * n - 1), rel=1e-12)


@pytest.mark.parametrize("temperature", [0.05, 0.5, 2.0])
def test_orthonormal_items_with_equal_views(temperature: float) -> None:
    """Positive at cosine 1 and 2N - 2 negatives at 0: log(1 + (2N - 2) exp(-1/tau))."""
    z = torch.eye(6, dtype=torch.float64)
    expected = math.log1p(10 * math.exp(-1 / temperature))
    assert infonce_loss(z, z, temperature).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_loss_is_float32_or_better(dtype: torch.dtype) -> None:
    z0, z1 = two_views(9, 5, dtype=dtype, requires_grad=True)
    loss = infonce_loss(z0, z1)
    (gradient,) = torch.autograd.grad(loss, z0)
    assert loss.shape == ()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert gradient.dtype == dtype
