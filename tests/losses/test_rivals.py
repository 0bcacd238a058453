"""The rivals against loops in float64, and the shapes in which they are other losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from loop_family import hard_negatives, mean_nll, slopes, two_view_problem
from loss_batches import numbers, two_views

from weince_lib.losses import ArctanhLoss, HardNegativeLoss, InfoNCELoss, NegativeQueue


@pytest.mark.parametrize("ids", [None, [0, 0, 1, 2, 3, 1, 4, 5]])
@pytest.mark.parametrize(
    ("temperature", "beta", "tau_plus"),
    [(0.5, 1.0, 0.1), (0.2, 0.0, 0.0), (0.1, 2.0, 0.3), (1.0, 0.5, 0.9)],
)
def test_hard_negatives(
    temperature: float, beta: float, tau_plus: float, ids: list[int] | None
) -> None:
    """The last settings are at the lower bound for most anchors."""
    z0, z1 = two_views(8, 3, requires_grad=True)
    loss_fn = HardNegativeLoss(temperature, beta=beta, tau_plus=tau_plus)
    loss = loss_fn(z0, z1, ids=None if ids is None else torch.tensor(ids))

    def truth(a: np.ndarray, b: np.ndarray) -> float:
        return hard_negatives(two_view_problem(a, b, ids), temperature, beta, tau_plus)

    assert loss.item() == pytest.approx(truth(*numbers(z0, z1)), rel=1e-11)
    (gradient,) = torch.autograd.grad(loss, z0)
    np.testing.assert_allclose(
        gradient.numpy(), slopes(truth, *numbers(z0, z1)), rtol=1e-5, atol=1e-8
    )


def test_without_concentration_and_debiasing_it_is_infonce() -> None:
    z = two_views(20, 6, dtype=torch.float32)
    loss = HardNegativeLoss(0.05, beta=0.0, tau_plus=0.0)(*z)
    torch.testing.assert_close(loss, InfoNCELoss(0.05)(*z), rtol=1e-6, atol=0)


def test_arctanh() -> None:
    z0, z1 = two_views(8, 3, requires_grad=True)

    def truth(a: np.ndarray, b: np.ndarray) -> float:
        return mean_nll(two_view_problem(a, b), lambda s: math.atanh(s) / 0.3)

    loss = ArctanhLoss(0.3)(z0, z1)
    assert loss.item() == pytest.approx(truth(*numbers(z0, z1)), rel=1e-11)
    (gradient,) = torch.autograd.grad(loss, z0)
    np.testing.assert_allclose(
        gradient.numpy(), slopes(truth, *numbers(z0, z1)), rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("loss_fn", [HardNegativeLoss(1e-3, validate=False), ArctanhLoss(1e-3)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_extremes_are_finite(loss_fn: Any, dtype: torch.dtype) -> None:
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    z0, z1 = (torch.cat([z, z, -z]).requires_grad_() for _ in range(2))
    for ids in (None, torch.zeros(18, dtype=torch.int64)):
        loss = loss_fn(z0, z1, ids=ids)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (z0, z1)))


def test_queue_and_bipartite_candidates() -> None:
    """A queue's rows are negatives like any other."""
    z0, z1 = two_views(6, 4)
    more = two_views(5, 4, seed=3)[0]
    queue = NegativeQueue(5, 4, dtype=torch.float64)
    queue.enqueue(more)
    options: dict[str, Any] = {"candidates": "bipartite", "symmetric": False}
    for make in (HardNegativeLoss, ArctanhLoss):
        queued = make(0.3, queue=queue, **options).eval()(z0, z1)
        torch.testing.assert_close(queued, make(0.3, **options)(z0, z1, negatives=more))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": -1.0}, "beta must be finite and not negative, got -1.0"),
        ({"tau_plus": 1.0}, r"tau_plus must lie in \[0, 1\), got 1.0"),
    ],
)
def test_bad_numbers(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HardNegativeLoss(**options)
