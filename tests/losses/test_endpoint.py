"""The endpoint family: closed forms, both ends, every path of the driver, the cap, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from loop_family import family_logit, mean_nll, slopes, two_view_problem
from loss_batches import numbers, two_views, value_and_gradients

from weince_lib.losses import (
    AblationLoss,
    AblationSettings,
    EndpointLink,
    EndpointLoss,
    InfoNCELoss,
    NegativeQueue,
    endpoint_from_scores,
    endpoint_loss,
    infonce_from_scores,
)

CURVATURES = (0.0, 1e-6, 0.05, 0.3, 0.9, 0.97, 1.0)
each_curvature = pytest.mark.parametrize("g", CURVATURES)
coupled_or_not = pytest.mark.parametrize("decoupled", [False, True])


@each_curvature
@coupled_or_not
@pytest.mark.parametrize("ids", [None, [0, 0, 1, 2, 3, 1, 4, 5]])
def test_value_and_gradient(g: float, decoupled: bool, ids: list[int] | None) -> None:
    z0, z1 = two_views(8, 3, seed=2, requires_grad=True)
    named = None if ids is None else torch.tensor(ids)

    def truth(a: np.ndarray, b: np.ndarray) -> float:
        problem = two_view_problem(a, b, ids)
        return mean_nll(problem, lambda s: family_logit(s, 0.3, g), decoupled=decoupled)

    loss = EndpointLoss(0.3, curvature=g, decoupled=decoupled)(z0, z1, ids=named)
    tolerance = 1e-9 if g > 0.01 or g == 0 else 1e-7  # the loops' own digits at a tiny g
    np.testing.assert_allclose(loss.item(), truth(*numbers(z0, z1)), rtol=tolerance)
    (gradient,) = torch.autograd.grad(loss, z0)
    expected = slopes(truth, *numbers(z0, z1))
    atol = 2e-8 if tolerance == 1e-9 else 2e-4
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_both_ends_are_losses_that_were_there(dtype: torch.dtype) -> None:
    z = two_views(40, 6, dtype=dtype, requires_grad=True)
    weibit = AblationLoss(0.5, AblationSettings(link="weibit", fixed_beta=4.0))
    for mine, other, rtol in (
        (EndpointLoss(0.25, curvature=0.0), InfoNCELoss(0.25), 0),
        (EndpointLoss(0.25, curvature=1.0), weibit, 1e-6),
    ):
        found, expected = (value_and_gradients(loss(*z), *z) for loss in (mine, other))
        torch.testing.assert_close(found[0], expected[0], rtol=rtol, atol=0)
        for a, b in zip(found[1:], expected[1:], strict=True):
            coarse = 2e-3 if dtype == torch.float16 else 1e-5
            torch.testing.assert_close(a, b, rtol=coarse if rtol else 0, atol=1e-6 if rtol else 0)


def test_decoupled_softmax_is_infonce_without_the_positive_in_the_denominator() -> None:
    """n equal negatives at cosine 0 and a positive at 1: log n - 1 / tau."""
    z = torch.eye(6, dtype=torch.float64)
    loss = endpoint_loss(z, z, 0.2, 0.0, decoupled=True)
    assert loss.item() == pytest.approx(math.log(10) - 5.0, rel=1e-12)


def test_translation_to_power_and_offset() -> None:
    z = two_views(9, 4)
    loss = EndpointLoss.from_power(5.0, 0.1, decoupled=True)
    expected = mean_nll(
        two_view_problem(*numbers(*z)), lambda s: -5.0 * math.log(1.1 - s), decoupled=True
    )
    assert loss(*z).item() == pytest.approx(expected, rel=1e-11)
    assert loss.link.curvature == pytest.approx(1 / 1.1) and loss.temperature == pytest.approx(0.22)


SETS: dict[str, dict[str, Any]] = {
    "two-view": {},
    "symmetric": {"candidates": "bipartite"},
    "one-way": {"candidates": "bipartite", "symmetric": False},
    "queue": {"candidates": "bipartite", "symmetric": False, "queue": True},
    "two-view, queue": {"queue": True},
}


@each_curvature
@coupled_or_not
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("shift", [0.0, 6.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_streaming_is_the_reference(
    g: float, decoupled: bool, name: str, shift: float, dtype: torch.dtype
) -> None:
    """With ids, further negatives, a queue and a learnable scale; in one block and in many."""
    z = [(x + shift).detach() for x in two_views(24, 5, dtype=dtype)]
    more = (two_views(3, 5, seed=7, dtype=dtype)[0] + shift).detach()
    options = dict(SETS[name])
    if options.get("queue"):
        options["queue"] = NegativeQueue(5, 5, dtype=torch.float64)
        options["queue"].enqueue(two_views(5, 5, seed=8)[0] + shift, torch.arange(5))
    results = []
    for impl, budget, kind in (
        ("reference", None, torch.float64),
        ("streaming", None, dtype),
        ("streaming", 3000, dtype),
    ):
        leaves = [x.to(kind).requires_grad_() for x in (*z, more)]
        scale = torch.tensor(4.0, dtype=torch.float64, requires_grad=True)
        loss = EndpointLoss(
            curvature=g, decoupled=decoupled, impl=impl, memory_budget=budget, **options
        ).eval()(
            *leaves[:2],
            ids=torch.arange(24) // 2,
            negatives=None if name == "symmetric" else leaves[2],
            logit_scale=scale,
        )
        wanted = [*leaves[:2], scale] if name == "symmetric" else [*leaves, scale]
        results.append(value_and_gradients(loss, *wanted))
    rtol = 1e-9 if dtype == torch.float64 else 1e-4
    for streamed in results[1:]:
        for exact, mine in zip(results[0], streamed, strict=True):
            atol = rtol * max(float(exact.abs().max()), 0.1)
            torch.testing.assert_close(mine.double(), exact.double(), rtol=rtol, atol=atol)


@coupled_or_not
@pytest.mark.parametrize("g", [0.5, 0.99, 1.0])
@pytest.mark.parametrize("distance", [5e-3, 0.1])
def test_float32_near_the_cap(g: float, decoupled: bool, distance: float) -> None:
    """Two items next to each other: float32 products would lose the shortfall."""
    z0, z1 = two_views(30, 16, seed=3, dtype=torch.float32)
    z0[1] = z0[0] + distance * z0[0].norm() * torch.nn.functional.normalize(z0[2], dim=0)
    losses = []
    for z in ((z0, z1), (z0.double(), z1.double())):
        leaves = [x.clone().requires_grad_() for x in z]
        loss = EndpointLoss(0.3, curvature=g, decoupled=decoupled)(*leaves)
        losses.append(value_and_gradients(loss, *leaves))
    for mine, exact in zip(*losses, strict=True):
        scale = float(exact.abs().max())
        torch.testing.assert_close(mine.double(), exact.double(), rtol=0, atol=5e-5 * scale)
    assert losses[0][0].item() == pytest.approx(losses[1][0].item(), rel=3e-6)


@each_curvature
@coupled_or_not
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_duplicates_zero_rows_and_lone_anchors_are_finite(
    g: float, decoupled: bool, dtype: torch.dtype
) -> None:
    z0, z1 = two_views(8, 4, dtype=dtype)
    z0[1], z1[1], z1[0] = z0[0], z0[0], z0[0]
    z0[3] = 0.0
    for ids in (None, torch.zeros(8, dtype=torch.int64)):
        leaves = [x.clone().requires_grad_() for x in (z0, z1)]
        loss = EndpointLoss(0.1, curvature=g, decoupled=decoupled, validate=False)(*leaves, ids=ids)
        gradients = torch.autograd.grad(loss, leaves)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(x).all() for x in gradients)
        assert not gradients[0][3].any()
        if ids is not None:
            assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
            assert not decoupled or not gradients[1].any()


@coupled_or_not
def test_explicit_scores(decoupled: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(5, 7, generator=generator, dtype=torch.float64) * 2 - 1
    scores[0, 3] = 1.05  # beyond a cosine, short of the endpoint
    positives, mask = torch.tensor([0, 2, 1, 6, 3]), torch.rand(5, 7, generator=generator) > 0.3
    mask[4] = False
    problem = [
        (
            float(scores[i, p]),
            [float(scores[i, j]) for j in range(7) if mask[i, j] and j != p],
        )
        for i, p in enumerate(positives.tolist())
    ]
    leaf = scores.requires_grad_()
    loss = endpoint_from_scores(leaf, positives, mask, 0.4, EndpointLink(0.9, decoupled))
    expected = mean_nll(problem, lambda s: family_logit(s, 0.4, 0.9), decoupled=decoupled)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.isfinite(gradient).all() and not gradient[4].any()
    straight = endpoint_from_scores(leaf, positives, mask, 0.4, EndpointLink(0.0))
    assert torch.equal(straight, infonce_from_scores(leaf, positives, mask, 0.4))


def test_second_derivative_of_the_reference() -> None:
    z = two_views(4, 3, requires_grad=True)
    loss = EndpointLoss(0.3, decoupled=True, impl="reference")
    assert torch.autograd.gradgradcheck(loss, z)


@pytest.mark.parametrize("g", [-0.1, 1.01, math.nan, math.inf])
def test_curvature_outside_its_range(g: float) -> None:
    for build in (EndpointLink, lambda g: EndpointLoss(curvature=g)):
        with pytest.raises(ValueError, match=rf"curvature must lie in \[0, 1\], got {g}"):
            build(g)


def test_scores_beyond_the_endpoint_and_bad_powers() -> None:
    scores, positives = torch.tensor([[0.2, 1.3]]), torch.tensor([0])
    with pytest.raises(ValueError, match=r"1 / curvature = 1.11111, got 1.3; .* \[0, 0.7692\]"):
        endpoint_from_scores(scores, positives)
    assert torch.isfinite(endpoint_from_scores(scores, positives, link=EndpointLink(0.7)))
    with pytest.raises(ValueError, match=r"offset must lie in \[0, infinity\), got -0.1"):
        EndpointLoss.from_power(5, -0.1)
    with pytest.raises(ValueError, match="power must be positive and finite, got 0"):
        EndpointLoss.from_power(0, 0.1)
    with pytest.raises(ValueError, match="decoupled must be True or False"):
        EndpointLink(0.5, "yes")  # type: ignore[arg-type]
