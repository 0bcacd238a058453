"""Numbers near the cosine cap: small shortfalls, duplicates, half precision, rounded products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from loss_batches import value_and_gradients
from torch import Tensor

from weince_lib.losses import PRESETS, infonce_loss, preset, weince_loss
from weince_lib.losses.candidates import CandidateProblem, NormalizeRows, unit_rows

IMPLEMENTATIONS = ("reference", "streaming")
LOSSES: dict[str, Callable[..., Any]] = {
    "infonce": infonce_loss,
    **{
        name: lambda *a, how=how, **k: weince_loss(*a, settings=how, **k)
        for name, how in PRESETS.items()
    },
}


def pair_at(shortfall: float, d: int) -> tuple[Tensor, Tensor]:
    """Two batches of 6 items; items 0 and 1 of the first view are ``shortfall`` apart.

    So are item 2 and its positive. The rest are far from everything.
    """
    generator = torch.Generator().manual_seed(d)
    z0, z1 = torch.randn(2, 6, d, generator=generator, dtype=torch.float64)
    sine = (shortfall * (2.0 - shortfall)) ** 0.5

    def near(x: Tensor) -> Tensor:
        x = x / x.norm()
        across = torch.randn(d, generator=generator, dtype=torch.float64)
        across -= (across @ x) * x
        return (1.0 - shortfall) * x + sine * across / across.norm()

    z0[1], z1[2] = near(z0[0]), near(z0[2])
    lengths = torch.rand(2, 6, 1, generator=generator, dtype=torch.float64) + 0.5
    return (z0 * lengths[0]).float(), (z1 * lengths[1]).float()


def exact_shortfall(x: Tensor, y: Tensor) -> float:
    """Half the squared distance of the two unit vectors, of the numbers as they were rounded."""
    x, y = (v.double() / v.double().norm() for v in (x, y))
    return float(0.5 * (x - y).square().sum())


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("d", [16, 128, 768])
@pytest.mark.parametrize("shortfall", [1.1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.09, 0.2])
def test_smallest_negative_and_positive_to_six_digits(shortfall: float, d: int, impl: str) -> None:
    z0, z1 = pair_at(shortfall, d)
    _, evidence = weince_loss(z0, z1, impl=impl, return_evidence=True)
    assert float(evidence.rho[0]) == pytest.approx(exact_shortfall(z0[0], z0[1]), rel=1e-6)
    positive = CandidateProblem.two_view(z0, z1).positive[2]
    assert float(positive) == pytest.approx(exact_shortfall(z0[2], z1[2]), rel=1e-6)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(LOSSES))
def test_close_pairs_follow_float64(name: str, impl: str) -> None:
    z = tuple(x.requires_grad_() for x in pair_at(1e-5, 32))
    exact = tuple(x.detach().double().requires_grad_() for x in z)
    mine = value_and_gradients(LOSSES[name](*z, impl=impl), *z)
    truth = value_and_gradients(LOSSES[name](*exact, impl="reference"), *exact)
    assert mine[0].item() == pytest.approx(truth[0].item(), rel=3e-6)
    scale = max(float(g.abs().max()) for g in truth[1:])
    for g, t in zip(mine[1:], truth[1:], strict=True):
        torch.testing.assert_close(g.double(), t, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_duplicates_are_finite(name: str, dtype: torch.dtype, impl: str) -> None:
    generator = torch.Generator().manual_seed(0)
    z0 = torch.randn(12, 24, generator=generator).to(dtype)
    z0[3] = z0[7]  # a duplicate among the negatives
    z1 = torch.randn(12, 24, generator=generator).to(dtype)
    z1[5] = z0[5]  # a positive pair at cosine 1, maybe a rounding above
    z = z0.requires_grad_(), z1.requires_grad_()
    value, *gradients = value_and_gradients(LOSSES[name](*z, impl=impl), *z)
    assert torch.isfinite(value)
    assert all(torch.isfinite(g).all() and g.abs().max() > 0 for g in gradients)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(LOSSES))
def test_whole_batch_collapsed(name: str, impl: str) -> None:
    z0 = torch.ones(8, 5, requires_grad=True)
    z1 = torch.full((8, 5), 3.0, requires_grad=True)
    loss = LOSSES[name](z0, z1, impl=impl)
    assert loss.item() == pytest.approx(math.log(15.0), abs=1e-5)
    assert all(bool(torch.isfinite(g).all()) for g in torch.autograd.grad(loss, (z0, z1)))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("autocast", [False, True])
def test_zero_row_takes_no_gradient(
    name: str, dtype: torch.dtype, impl: str, autocast: bool
) -> None:
    generator = torch.Generator().manual_seed(1)
    z = [torch.randn(10, 16, generator=generator).to(dtype) for _ in range(2)]
    z[0][4] = 0.0
    z[0].requires_grad_(), z[1].requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        loss = LOSSES[name](*z, validate=False, impl=impl)
    assert torch.isfinite(loss)
    g0, g1 = torch.autograd.grad(loss, z)
    assert torch.isfinite(g0).all() and torch.isfinite(g1).all()
    assert not g0[4].any() and g0[5].any()


@pytest.fixture
def rounded_products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


def test_products_are_exact_where_float32_ones_would_be_rounded(
    monkeypatch: pytest.MonkeyPatch, rounded_products: None
) -> None:
    """Stand in for TF32 hardware: any float32 product of scores is an error."""
    product = torch.mm

    def refuse(a: Tensor, b: Tensor, **keywords: Tensor) -> Tensor:
        assert a.dtype == torch.float64 or a.shape[1] != 64, "float32 scores"
        return product(a, b, **keywords)

    monkeypatch.setattr(torch, "mm", refuse)
    z0, z1 = (torch.randn(40, 64, generator=torch.Generator().manual_seed(i)) for i in range(2))
    infonce_loss(z0, z1, impl="streaming")
    weince_loss(z0, z1, impl="streaming")
    # Nothing of the user's choice was changed on the way.
    assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", list(LOSSES))
def test_autocast_changes_nothing(name: str, impl: str) -> None:
    z = tuple(torch.randn(12, 8, generator=torch.Generator().manual_seed(i)) for i in range(2))
    plain = tuple(x.clone().requires_grad_() for x in z)
    cast = tuple(x.clone().requires_grad_() for x in z)
    expected = value_and_gradients(LOSSES[name](*plain, impl=impl), *plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = LOSSES[name](*cast, impl=impl)
    found = value_and_gradients(loss, *cast)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_closed_form_normalisation() -> None:
    z = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(NormalizeRows.apply, z)
    assert torch.equal(NormalizeRows.apply(z), unit_rows(z))


def test_hard_tail_is_exact_beyond_its_first_point() -> None:
    """A cluster of near negatives: beta is a function of many small shortfalls."""
    generator = torch.Generator().manual_seed(5)
    centre = torch.randn(1, 64, generator=generator)
    z0, z1 = (centre + 0.003 * torch.randn(40, 64, generator=generator) for _ in range(2))
    for how in (preset("calibrated"), preset("paper")):
        _, mine = weince_loss(z0, z1, settings=how, impl="streaming", return_evidence=True)
        _, truth = weince_loss(
            z0.double(), z1.double(), settings=how, impl="reference", return_evidence=True
        )
        assert float(truth.rho.max()) < 1e-3
        torch.testing.assert_close(mine.rho.double(), truth.rho, rtol=1e-6, atol=0)
        torch.testing.assert_close(mine.beta.double(), truth.beta, rtol=2e-5, atol=0)
