"""The release's objective against loops in float64: value, running beta, gradients."""

from __future__ import annotations

import pytest
import torch
import transcribed_release as transcribed
import transcribed_weince
from loss_batches import numbers, two_views, value_and_gradients

from weince_lib.losses import RELEASED, AblationLoss, ReleasedLoss
from weince_lib.losses.ablation import BatchTailIndex, only_negatives, tail_slope


@pytest.mark.parametrize(("n", "d", "temperature"), [(30, 6, 0.5), (36, 3, 0.2), (12, 8, 0.1)])
def test_value_and_running_beta_over_three_batches(n: int, d: int, temperature: float) -> None:
    """More and fewer than 50 negatives; the running beta moves between the batches."""
    loss, beta = ReleasedLoss(temperature), 4.0
    for seed in range(3):
        z0, z1 = two_views(n, d, seed=seed, noise=0.3)
        slope, r2 = transcribed.fitted_beta(transcribed.cosines(*numbers(z0, z1)))
        beta = transcribed.running_beta(beta, slope, r2)
        expected = transcribed.released(*numbers(z0, z1), temperature, beta)
        # The running mean is kept in float32, which is 1e-7 of it.
        assert loss(z0, z1).item() == pytest.approx(expected, rel=1e-6)
        assert loss.weibit_beta == pytest.approx(beta, rel=1e-6)
    assert abs(loss.weibit_beta - 4.0) > 0.01


def test_gradient_is_the_slope_of_the_transcription() -> None:
    """Central differences along random directions, with lambda and beta frozen."""
    z0, z1 = two_views(30, 4, seed=3, noise=0.3, requires_grad=True)
    loss = ReleasedLoss(0.3).eval()
    d0, d1 = torch.autograd.grad(loss(z0, z1), (z0, z1))
    a0, a1 = numbers(z0, z1)
    _, _, _, readings = transcribed_weince.weince(a0, a1, 0.3, tail_index="unit")

    def value(b0, b1):
        blend = transcribed_weince.loss_of(b0, b1, readings, 0.3)
        extra = transcribed.top_weibit(b0, b1, 4.0) + transcribed.top_softmax(b0, b1, 0.3)
        return blend + 0.5 * extra

    for seed in range(4):
        e0, e1 = numbers(*two_views(30, 4, seed=10 + seed))
        step = 1e-6
        rise = value(a0 + step * e0, a1 + step * e1) - value(a0 - step * e0, a1 - step * e1)
        found = float((d0 * torch.from_numpy(e0)).sum() + (d1 * torch.from_numpy(e1)).sum())
        assert found == pytest.approx(rise / (2 * step), rel=1e-5)


def test_float32_follows_float64() -> None:
    z0, z1 = two_views(40, 8, seed=1, dtype=torch.float32, requires_grad=True)
    w0, w1 = (z.detach().double().requires_grad_() for z in (z0, z1))
    mine = value_and_gradients(ReleasedLoss(0.3)(z0, z1), z0, z1)
    exact = value_and_gradients(ReleasedLoss(0.3)(w0, w1), w0, w1)
    assert mine[0].dtype == torch.float32
    assert mine[0].item() == pytest.approx(exact[0].item(), rel=1e-5)
    for g, w in zip(mine, exact, strict=True):
        torch.testing.assert_close(g.double(), w, rtol=2e-3, atol=2e-5)


def test_the_tail_of_a_large_batch_is_five_percent() -> None:
    """160 views have 25,280 negatives: 1,264 in the tail, more than 1,024."""
    z0, z1 = two_views(80, 6, seed=4)
    scores = transcribed.cosines(*numbers(z0, z1))
    negatives = only_negatives(torch.from_numpy(1.0 - scores), torch.arange(160).roll(80))
    slope, r2 = tail_slope(negatives, 160 * 158)
    assert (slope.item(), r2.item()) == pytest.approx(transcribed.fitted_beta(scores), rel=1e-8)


def test_beta_is_clamped_and_kept_where_the_fit_is_bad() -> None:
    steep = torch.full((40, 40), 1.0, dtype=torch.float64)
    steep += 1e-3 * torch.linspace(0, 1, 1600, dtype=torch.float64).reshape(40, 40).sqrt()
    index = BatchTailIndex()
    assert tail_slope(steep, 1520)[0] > 16  # far from the cap
    assert float(index(steep, 1e-6)) == pytest.approx(0.9 * 4 + 0.1 * 16)
    two = torch.where(torch.arange(1600).reshape(40, 40) < 300, 1e-6, 1.0).double()
    two += 1e-4 * torch.linspace(0, 1, 1600).double().reshape(40, 40)
    before = float(index.beta)
    assert tail_slope(two, 1520)[1] < 0.85
    assert float(index(two, 1e-6)) == before
    ties = torch.full((40, 40), 0.5, dtype=torch.float64)
    assert float(index(ties, 1e-6)) == before


def test_evaluation_and_state() -> None:
    z0, z1 = two_views(40, 5, seed=5)
    loss = ReleasedLoss()
    loss(z0, z1)
    kept = loss.weibit_beta
    loss.eval()(z0, z1)
    assert loss.weibit_beta == kept != 4.0
    other = AblationLoss(0.5, RELEASED)
    other.load_state_dict(loss.state_dict())
    assert other.eval()(z0, z1) == loss(z0, z1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_leaves_the_running_beta_in_float32(dtype: torch.dtype) -> None:
    loss = ReleasedLoss()
    loss(*two_views(40, 5, seed=5))
    kept = loss.weibit_beta
    assert kept != float(torch.tensor(kept).to(dtype))
    cast = torch.nn.Sequential(loss).to(dtype)
    assert (loss.weibit_beta, loss.tail_index.beta.dtype) == (kept, torch.float32)
    loss(*two_views(40, 5, seed=6, dtype=torch.float32))
    assert loss.tail_index.beta.dtype == torch.float32
    assert cast.double()[0].tail_index.beta.dtype == torch.float64
    loss.load_state_dict({"tail_index.beta": torch.tensor(3.0, dtype=dtype)})  # an older checkpoint
    assert loss.to(dtype).weibit_beta == 3.0
    assert loss.tail_index.beta.dtype == torch.float32
