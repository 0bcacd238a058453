"""torch.compile(fullgraph=True): no graph breaks, the same numbers, other batch sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import two_views, value_and_gradients
from torch import Tensor, nn

from weince_lib.losses import (
    AnnealedLoss,
    ArctanhLoss,
    EndpointLoss,
    HardNegativeLoss,
    InfoNCELoss,
    NegativeQueue,
    SelfSettingLoss,
    WEINCELoss,
)
from weince_lib.losses.candidates import CandidateProblem
from weince_lib.losses.streaming import _candidate_nll_op, _read_blocks_op

WAYS: dict[str, dict[str, Any]] = {
    "dense": {"impl": "reference"},
    "symmetric": {"candidates": "bipartite"},
}
LOSSES: dict[str, Callable[..., nn.Module]] = {
    "infonce": InfoNCELoss,
    "paper": WEINCELoss,
    "calibrated": lambda **o: WEINCELoss.from_preset("calibrated", **o),
    **{
        f"endpoint {g}": lambda g=g, **o: EndpointLoss(curvature=g, decoupled=True, **o)
        for g in (0.0, 0.9, 1.0)
    },
    **{rule: lambda rule=rule, **o: SelfSettingLoss(rule, **o) for rule in ("tail", "median")},
    "kl": lambda **o: SelfSettingLoss("kl", **o),
    "annealed": lambda **o: AnnealedLoss(3, **o),
    "hard-negatives": HardNegativeLoss,
    "arctanh": ArctanhLoss,
}


def assert_compiles(make: Callable[[], nn.Module], z: Any, *more: Tensor, **options: Any) -> None:
    torch._dynamo.reset()
    plain, loss = make(), make()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for pair in z:  # a second size is compiled once more, with symbolic shapes
        found = value_and_gradients(compiled(*pair, **options), *pair, *more)
        expected = value_and_gradients(plain(*pair, **options), *pair, *more)
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(loss.state_dict(), plain.state_dict())


@pytest.mark.parametrize(
    ("name", "way", "sizes"),
    [
        *((name, {}, (16, 11)) for name in LOSSES),
        ("infonce", WAYS["dense"], (16,)),
        ("calibrated", WAYS["dense"], (16,)),
        pytest.param("paper", WAYS["dense"], (16, 11), marks=pytest.mark.slow),
        ("calibrated", WAYS["symmetric"], (16,)),
    ],
    ids=str,
)
def test_fullgraph(name: str, way: dict[str, Any], sizes: tuple[int, ...]) -> None:
    z = [two_views(n, 6, seed=n, dtype=torch.float32, requires_grad=True) for n in sizes]
    assert_compiles(lambda: LOSSES[name](**way), z)


def test_with_everything_that_a_call_may_have() -> None:
    def make() -> nn.Module:
        queue = NegativeQueue(9, 6, dtype=torch.float64)
        queue.enqueue(two_views(9, 6, seed=50)[0], torch.arange(9))
        return WEINCELoss.from_preset("calibrated", queue=queue).eval()

    scale = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    options = {"ids": torch.arange(15) // 2, "negatives": two_views(4, 6, seed=40)[0]}
    z = [two_views(15, 6, requires_grad=True)]
    assert_compiles(make, z, scale, logit_scale=scale, **options)


def test_evidence_comes_out_of_a_compiled_module() -> None:
    torch._dynamo.reset()
    loss, z = WEINCELoss(), two_views(9, 6, dtype=torch.float32)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    _, evidence = compiled(*z, return_evidence=True)
    torch.testing.assert_close(evidence.lam, loss(*z, return_evidence=True)[1].lam)


@pytest.mark.parametrize("rows", [1, 5, 8])
def test_operators_keep_their_word(rows: int) -> None:
    """Schema, shapes for tracing and autograd registration, by torch's own checks."""
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    problem = CandidateProblem.two_view(*two_views(4, 6, dtype=torch.float32))
    z = problem.anchors.detach().requires_grad_()
    shared = (None, problem.positives, problem.own, None, None, problem.positive)
    slope, power = torch.full((8,), 2.0, requires_grad=True), torch.full((8,), 0.3)
    for reader, numbers, width in (("tail line line-aic", [1e-6, 3.0], 4), ("rule tail", [], 2)):
        torch.library.opcheck(
            _read_blocks_op,
            (z.detach(), *shared, reader, numbers, width, 6, rows, rows == 5),
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
