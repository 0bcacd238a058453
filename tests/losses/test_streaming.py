"""The streaming implementation against the reference: value, gradient, evidence, memory."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
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
from weince_lib.losses.candidates import CandidateProblem
from weince_lib.losses.similarity import unit_rows
from weince_lib.losses.streaming import candidate_nll, read_tails, rows_per_block, scratch

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


def views(n: int, d: int, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(n, d, generator=generator, dtype=torch.float64)
    noise = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    z0, z1 = ((items + 0.5 * noise[i]).to(dtype).requires_grad_() for i in range(2))
    return z0, z1


def value_and_gradient(loss: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    value = loss(*inputs)
    return value.detach(), [g.double() for g in torch.autograd.grad(value, inputs)]


def assert_same(
    loss: Callable[..., Tensor], truth: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    """Compare with the truth evaluated on the same numbers in float64."""
    dtype = inputs[0].dtype
    exact = tuple(x.detach().double().requires_grad_() for x in inputs)
    value, gradient = value_and_gradient(loss, *inputs)
    expected, expected_gradient = value_and_gradient(truth, *exact)
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    value_tolerance = 1e-11 if dtype == torch.float64 else 3e-6
    torch.testing.assert_close(value.double(), expected, rtol=value_tolerance, atol=value_tolerance)
    scale = max(float(g.abs().max()) for g in expected_gradient)
    # A saturated softmax has a gradient that is itself a difference of numbers near 1.
    rounding = torch.finfo(value.dtype).eps
    for mine, theirs in zip(gradient, expected_gradient, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=TOLERANCE[dtype] * scale + rounding)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", [(2, 3), (7, 5), (41, 9)])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_infonce(
    shape: tuple[int, int], dtype: torch.dtype, budget: int | None, temperature: float
) -> None:
    assert_same(
        InfoNCELoss(temperature, impl="streaming", memory_budget=budget),
        InfoNCELoss(temperature, impl="reference"),
        views(*shape, dtype),
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("shape", [(2, 3), (7, 5), (41, 9)])
@pytest.mark.parametrize("name", list(SETTINGS))
def test_weince(name: str, shape: tuple[int, int], dtype: torch.dtype, budget: int | None) -> None:
    options = dataclasses.asdict(SETTINGS[name])
    assert_same(
        WEINCELoss(0.3, impl="streaming", memory_budget=budget, **options),
        WEINCELoss(0.3, impl="reference", **options),
        views(*shape, dtype),
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", list(SETTINGS))
def test_evidence(name: str, budget: int | None) -> None:
    z0, z1 = views(41, 9, torch.float32)
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
    z0, z1 = views(9, 4, torch.float32)
    assert torch.equal(infonce_loss(z0, z1), infonce_loss(z0, z1, impl="streaming"))
    assert torch.equal(InfoNCELoss()(z0, z1), infonce_loss(z0, z1))
    assert torch.equal(
        WEINCELoss.from_preset("calibrated", impl="streaming")(z0, z1),
        weince_loss(z0, z1, settings=preset("calibrated")),
    )


def test_gradient_scales_with_what_comes_after_the_loss() -> None:
    z0, z1 = views(9, 4, torch.float64)
    (single,) = torch.autograd.grad(weince_loss(z0, z1), z0)
    (scaled,) = torch.autograd.grad(-2.5 * weince_loss(z0, z1).exp(), z0)
    factor = -2.5 * float(weince_loss(z0, z1).detach().exp())
    torch.testing.assert_close(scaled, factor * single)


def test_only_one_view_takes_a_gradient() -> None:
    z0, z1 = views(9, 4, torch.float64)
    (both, _) = torch.autograd.grad(weince_loss(z0, z1), (z0, z1))
    (one,) = torch.autograd.grad(weince_loss(z0, z1.detach()), z0)
    assert torch.equal(one, both)
    assert not weince_loss(z0.detach(), z1.detach()).requires_grad


def test_second_derivative_is_refused() -> None:
    z0, z1 = views(5, 4, torch.float64)
    (first,) = torch.autograd.grad(infonce_loss(z0, z1), z0, create_graph=True)
    with pytest.raises(RuntimeError, match=r"no second derivative; use impl='reference'"):
        torch.autograd.grad(first.square().sum(), z0)


def test_reference_has_a_second_derivative() -> None:
    z0, z1 = views(3, 3, torch.float64)
    assert torch.autograd.gradgradcheck(lambda a, b: infonce_loss(a, b, impl="reference"), (z0, z1))


@pytest.mark.parametrize("budget", [1, None])
def test_derivative_against_differences(budget: int | None) -> None:
    # Constant evidence: gradcheck differentiates through lambda, which the loss holds fixed.
    z0, z1 = views(5, 4, torch.float64)
    assert torch.autograd.gradcheck(
        lambda a, b: infonce_loss(a, b, 0.2, memory_budget=budget), (z0, z1)
    )


def dense_nll(
    problem: CandidateProblem, slope: Tensor, power: Tensor | None, floor: float
) -> Tensor:
    """The mean negative log-likelihood of any candidate problem, by plain autograd."""
    candidates = problem.anchors if problem.candidates is None else problem.candidates
    cosine = problem.anchors @ candidates.T
    logits = slope[:, None] * cosine
    if power is not None:
        logits = logits - power[:, None] * (1.0 - cosine).clamp_min(floor).log()
    for i in range(len(cosine)):
        for j in range(cosine.shape[1]):
            itself = problem.own is not None and j == problem.own[i]
            same = problem.anchor_ids is not None and (
                problem.anchor_ids[i] == problem.candidate_ids[j]  # type: ignore[index]
            )
            if itself or (same and j != problem.positives[i]):
                logits[i, j] = -torch.inf
    return torch.nn.functional.cross_entropy(logits, problem.positives)


@pytest.mark.parametrize("with_power", [False, True])
@pytest.mark.parametrize("budget", [1, 3000, None])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("queue", [0, 6])
def test_rectangular_problem(
    with_power: bool, budget: int | None, own: bool, ids: bool, queue: int
) -> None:
    """Anchors, other candidates, masks, a queue without gradient, a learnable slope."""
    generator = torch.Generator().manual_seed(3)
    rows, columns = 11, 17

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    a, c = draw(rows, 6).requires_grad_(), draw(columns, 6).requires_grad_()
    slope, power = (draw(rows).exp().requires_grad_() for _ in range(2))
    fixed = draw(queue, 6)
    problem_options: dict[str, Any] = {
        "positives": torch.arange(rows),
        "own": torch.arange(rows) + 3 if own else None,
        "anchor_ids": torch.arange(rows) % 4 if ids else None,
        "candidate_ids": torch.arange(columns + queue) % 5 if ids else None,
        "dtype": torch.float64,
        "differentiable": columns,
    }

    def run(dense: bool) -> list[Tensor]:
        problem = CandidateProblem(
            unit_rows(a), torch.cat([unit_rows(c), unit_rows(fixed)]), **problem_options
        )
        b = power.detach() if with_power else None
        loss = (
            dense_nll(problem, slope, b, 1e-6)
            if dense
            else candidate_nll(problem, slope, b, memory=budget)
        )
        return [loss, *torch.autograd.grad(loss, (a, c, slope))]

    for mine, theirs in zip(run(False), run(True), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-11, atol=1e-12)


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
        z0, z1 = views(300, 4, torch.float32)
        with Largest() as largest:
            loss(z0, z1).backward()
        sizes.append(largest.size)

    thread = threading.Thread(target=run)  # a new one has no memory of a larger batch
    thread.start()
    thread.join()
    assert 0 < sizes[0] <= 50_000 < 600 * 600 * 4


@pytest.mark.parametrize("anchors", [1, 7, 64, 1000])
@pytest.mark.parametrize("memory", [1, 10_000, 10**9])
def test_rows_per_block(anchors: int, memory: int) -> None:
    z = torch.zeros(anchors, 2, dtype=torch.float64)
    problem = CandidateProblem(z, torch.zeros(50, 2).double(), torch.arange(anchors) % 50)
    rows = rows_per_block(problem, memory)
    assert 1 <= rows <= anchors
    assert rows == 1 or rows * 50 * 4 * 4 <= memory
    assert rows <= 512
    blocks = -(-anchors // rows)
    assert rows * blocks - anchors < blocks  # the blocks differ by no more than the rounding


@pytest.mark.parametrize("make", [InfoNCELoss, WEINCELoss])
def test_unknown_implementation_and_budget(make: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown impl 'triton'; known: auto, reference, stream"):
        make(impl="triton")
    with pytest.raises(ValueError, match=r"memory_budget must be a positive number.*got 0"):
        make(memory_budget=0)
    z0, z1 = views(3, 2, torch.float32)
    with pytest.raises(ValueError, match="unknown impl 'fast'"):
        (infonce_loss if make is InfoNCELoss else weince_loss)(z0, z1, impl="fast")


# Memory lent for blocks of scores ------------------------------------------------------------


def test_lent_matrices_have_their_shape_and_do_not_overlap() -> None:
    with scratch(3, (4, 6), torch.empty(0, dtype=torch.float64)) as lent:
        for i, matrix in enumerate(lent):
            assert (matrix.shape, matrix.dtype) == ((4, 6), torch.float64)
            matrix.fill_(i)
        assert [float(matrix.mean()) for matrix in lent] == [0.0, 1.0, 2.0]


def test_a_call_inside_a_call_and_another_thread_get_memory_of_their_own() -> None:
    def overwrite(value: float) -> None:
        with scratch(1, (3, 5), torch.empty(0)) as (other,):
            other.fill_(value)

    overwrite(0.0)
    with scratch(1, (3, 5), torch.empty(0)) as (mine,):
        mine.fill_(1.0)
        overwrite(2.0)
        thread = threading.Thread(target=overwrite, args=(3.0,))
        thread.start()
        thread.join()
        assert torch.equal(mine, torch.ones(3, 5))


def test_memory_first_lent_in_inference_mode_serves_outside_of_it() -> None:
    def run() -> None:
        with torch.inference_mode():
            weince_loss(*views(9, 4, torch.float32))
        weince_loss(*views(9, 4, torch.float32)).backward()
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=run)  # a new one has no memory lent before
    thread.start()
    thread.join()
    assert done == [True]


def test_a_loss_works_after_one_that_failed_inside_its_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    z = views(9, 4, torch.float32)
    expected = weince_loss(*z)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "softmax", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            weince_loss(*z)
    assert torch.equal(weince_loss(*z), expected)


def test_a_result_does_not_change_with_the_next_call() -> None:
    z0, z1 = views(40, 8, torch.float32)
    loss, evidence = weince_loss(z0, z1, return_evidence=True)
    kept = [x.clone() for x in (loss.detach(), evidence.beta, evidence.lam, evidence.rho)]
    (gradient,) = torch.autograd.grad(loss, z0, retain_graph=True)
    weince_loss(*views(40, 8, torch.float32, seed=1))
    torch.testing.assert_close([loss.detach(), evidence.beta, evidence.lam, evidence.rho], kept)
    torch.testing.assert_close(torch.autograd.grad(loss, z0)[0], gradient, rtol=0, atol=0)
