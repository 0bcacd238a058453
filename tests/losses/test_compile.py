"""torch.compile(fullgraph=True): no graph breaks, the same numbers, other batch sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from weince_lib.losses import InfoNCELoss, WEINCELoss
from weince_lib.losses.arguments import Implementation
from weince_lib.losses.candidates import CandidateProblem
from weince_lib.losses.streaming import _candidate_nll_op, _read_tails_op

LOSSES: dict[str, Callable[[Implementation], nn.Module]] = {
    "infonce": lambda impl: InfoNCELoss(impl=impl),
    "paper": lambda impl: WEINCELoss(impl=impl),
    "calibrated": lambda impl: WEINCELoss.from_preset("calibrated", impl=impl),
}


def views(n: int) -> tuple[Tensor, Tensor]:
    z = torch.randn(2, n, 6, generator=torch.Generator().manual_seed(n))
    return z[0].clone().requires_grad_(), z[1].clone().requires_grad_()


@pytest.mark.parametrize(
    ("name", "impl", "sizes"),
    [
        *((name, "streaming", (16, 11)) for name in LOSSES),
        ("infonce", "reference", (16,)),
        ("calibrated", "reference", (16,)),
        pytest.param("paper", "reference", (16, 11), marks=pytest.mark.slow),
    ],
)
def test_fullgraph(name: str, impl: Implementation, sizes: tuple[int, ...]) -> None:
    torch._dynamo.reset()
    loss = LOSSES[name](impl)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for n in sizes:  # a second size is compiled once more, with symbolic shapes
        z = views(n)
        expected, value = loss(*z), compiled(*z)
        torch.testing.assert_close(value, expected)
        for mine, theirs in zip(
            torch.autograd.grad(value, z), torch.autograd.grad(expected, z), strict=True
        ):
            torch.testing.assert_close(mine, theirs)


def test_evidence_comes_out_of_a_compiled_module() -> None:
    torch._dynamo.reset()
    loss = WEINCELoss()
    z = views(9)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    _, evidence = compiled(*z, return_evidence=True)
    torch.testing.assert_close(evidence.lam, loss(*z, return_evidence=True)[1].lam)


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_operators_keep_their_word(rows: int) -> None:
    """Schema, shapes for tracing and autograd registration, by torch's own checks."""
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    z0, z1 = views(4)
    problem = CandidateProblem.two_view(z0, z1)
    z = problem.anchors.detach().requires_grad_()
    shared = (None, problem.positives, problem.own, None, None, problem.positive)
    slope, power = torch.full((8,), 2.0, requires_grad=True), torch.full((8,), 0.3)
    torch.library.opcheck(
        _read_tails_op,
        (z.detach(), *shared, 3, 6, "line", "line-aic", 1e-6, rows, rows == 5),
        test_utils=tests,
    )
    torch.library.opcheck(
        _candidate_nll_op,
        (
            *(z, *shared, slope, power, problem.positive, None, None, None, 1e-6, rows),
            *(False, False, False, 0, True, True),
        ),
        test_utils=tests,
    )
