"""The streaming implementation against the reference: value, gradient, evidence, memory."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import two_views, value_and_gradients
from torch import Tensor

from weince_lib.losses import (
    PRESETS,
    InfoNCELoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    preset,
    weince_loss,
)
from weince_lib.losses.candidates import CandidateProblem, unit_rows
from weince_lib.losses.evidence import read_tails

TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
#: Budgets of one anchor to a block, of a few (which do not divide their number), and of all.
BUDGETS = (1, 8_000, None)
SETTINGS = {
    **PRESETS,
    "unit-likelihood": TailSettings(tail_index="unit", evidence="likelihood"),
    "hill-lines": TailSettings(tail_index="hill", evidence="line-aic"),
    "other numbers": TailSettings(
        cap_quantile=0.5,
        tail_fraction=0.3,
        min_tail=5,
        cap_sharpness=2.0,
        evidence_sharpness=0.5,
        evidence_margin=-1.0,
        floor=0.05,
    ),
}


def assert_same(
    loss: Callable[..., Tensor], truth: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    """Compare with the truth evaluated on the same numbers in float64."""
    dtype = inputs[0].dtype
    exact = tuple(x.detach().double().requires_grad_() for x in inputs)
    value, *gradient = value_and_gradients(loss(*inputs), *inputs)
    expected, *expected_gradient = value_and_gradients(truth(*exact), *exact)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    value_tolerance = 1e-11 if dtype == torch.float64 else 3e-6
    torch.testing.assert_close(value.double(), expected, rtol=value_tolerance, atol=value_tolerance)
    scale = max(float(g.abs().max()) for g in expected_gradient)
    # A saturated softmax has a gradient that is itself a difference of numbers near 1.
    rounding = torch.finfo(value.dtype).eps
    for mine, theirs in zip(gradient, expected_gradient, strict=True):
        atol = TOLERANCE[dtype] * scale + rounding
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", [(2, 3), (7, 5), (41, 9)])
@pytest.mark.parametrize("name", ["infonce", "sharp infonce", *SETTINGS])
def test_value_and_gradient(
    name: str, shape: tuple[int, int], dtype: torch.dtype, budget: int | None
) -> None:
    def make(**how: Any) -> torch.nn.Module:
        if name in SETTINGS:
            return WEINCELoss(0.3, **dataclasses.asdict(SETTINGS[name]), **how)
        return InfoNCELoss(0.5 if name == "infonce" else 0.05, **how)

    assert_same(
        make(impl="streaming", memory_budget=budget),
        make(impl="reference"),
        two_views(*shape, dtype=dtype, requires_grad=True),
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_evidence(name: str, budget: int | None) -> None:
    z0, z1 = two_views(41, 9, dtype=torch.float32, requires_grad=True)
    how = SETTINGS[name]
    _, mine = weince_loss(z0, z1, settings=how, memory_budget=budget, return_evidence=True)
    _, exact = weince_loss(
        z0.double(), z1.double(), settings=how, impl="reference", return_evidence=True
    )
    for field in dataclasses.fields(mine):
        value = getattr(mine, field.name)
        assert value.dtype == torch.float32 and not value.requires_grad
        torch.testing.assert_close(
            value.double(), getattr(exact, field.name), rtol=2e-4, atol=2e-4, msg=field.name
        )


def test_auto_is_streaming_and_a_module_is_its_function() -> None:
    z0, z1 = two_views(9, 4, dtype=torch.float32)
    expected = infonce_loss(z0, z1)
    assert torch.equal(expected, infonce_loss(z0, z1, impl="streaming"))
    assert torch.equal(expected, InfoNCELoss()(z0, z1))


def test_gradient_scales_with_what_comes_after_the_loss() -> None:
    z0, z1 = two_views(9, 4, dtype=torch.float64, requires_grad=True)
    (single,) = torch.autograd.grad(weince_loss(z0, z1), z0)
    (scaled,) = torch.autograd.grad(-2.5 * weince_loss(z0, z1).exp(), z0)
    factor = -2.5 * float(weince_loss(z0, z1).detach().exp())
    torch.testing.assert_close(scaled, factor * single)


def test_second_derivative_is_refused() -> None:
    z0, z1 = two_views(5, 4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(infonce_loss(z0, z1), z0, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative; use impl='reference'"):
        torch.autograd.grad(first.square().sum(), z0)


def test_reference_has_a_second_derivative() -> None:
    z0, z1 = two_views(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda a, b: infonce_loss(a, b, impl="reference"), (z0, z1))


def test_masked_tail_shorter_than_the_tail_size_shuts_the_gate() -> None:
    z = unit_rows(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)))
    ids = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    problem = CandidateProblem(
        z, None, torch.arange(8).roll(1), torch.arange(8), anchor_ids=ids, candidate_ids=ids
    )
    reading, _ = read_tails(problem, preset("calibrated"))
    # The tail is all 6 negatives; only the last anchor, whose one namesake is its positive, has 6.
    assert reading.usable.tolist() == 7 * [False] + [True]
    assert all(bool(torch.isfinite(x).all()) for x in (reading.beta, reading.delta_aic))


@pytest.mark.parametrize(
    "loss", [InfoNCELoss(memory_budget=50_000), WEINCELoss(memory_budget=50_000)]
)
def test_no_matrix_of_all_scores(loss: torch.nn.Module) -> None:
    """No tensor of the order of M x M is made, forward or backward."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        size = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            for t in torch.utils._pytree.tree_leaves(out):
                if isinstance(t, Tensor):
                    self.size = max(self.size, t.untyped_storage().nbytes())
            return out

    sizes = []

    def run() -> None:
        z0, z1 = two_views(300, 4, dtype=torch.float32, requires_grad=True)
        with Largest() as largest:
            loss(z0, z1).backward()
        sizes.append(largest.size)

    thread = threading.Thread(target=run)  # a new one has no memory of a larger batch
    thread.start()
    thread.join()
    assert 0 < sizes[0] <= 50_000 < 600 * 600 * 4


# Memory lent for blocks of scores ------------------------------------------------------------


def test_memory_first_lent_in_inference_mode_serves_outside_of_it() -> None:
    def run() -> None:
        z = two_views(9, 4, dtype=torch.float32, requires_grad=True)
        with torch.inference_mode():
            weince_loss(*z)
        weince_loss(*z).backward()
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=run)  # a new one has no memory lent before
    thread.start()
    thread.join()
    assert done == [True]


def test_a_result_does_not_change_with_the_next_call() -> None:
    z0, z1 = two_views(40, 8, dtype=torch.float32, requires_grad=True)
    loss, evidence = weince_loss(z0, z1, return_evidence=True)
    kept = [x.clone() for x in (loss.detach(), evidence.beta, evidence.lam, evidence.rho)]
    (gradient,) = torch.autograd.grad(loss, z0, retain_graph=True)
    weince_loss(*two_views(40, 8, dtype=torch.float32, requires_grad=True, seed=1))
    torch.testing.assert_close([loss.detach(), evidence.beta, evidence.lam, evidence.rho], kept)
    torch.testing.assert_close(torch.autograd.grad(loss, z0)[0], gradient, rtol=0, atol=0)
