"""What must not change a loss: the order of views and pairs, row lengths, rotation, autocast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from loss_batches import two_views
from torch import Tensor

from weince_lib.losses import (
    PRESETS,
    InfoNCELoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    tail_evidence,
)
from weince_lib.losses.candidates import two_view_scores

Loss = Callable[..., Tensor]

LOSSES: dict[str, Loss] = {
    "infonce": InfoNCELoss(0.3),
    **{name: WEINCELoss.from_preset(name, 0.3) for name in PRESETS},
}
each_loss = pytest.mark.parametrize("loss_fn", LOSSES.values(), ids=LOSSES.keys())
quick = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
sizes = st.tuples(st.integers(2, 12), st.integers(2, 9))


@each_loss
@quick
@given(seed=seeds, size=sizes)
def test_order_of_views_and_pairs(loss_fn: Loss, seed: int, size: tuple[int, int]) -> None:
    z0, z1 = two_views(*size, seed=seed)
    expected = loss_fn(z0, z1)
    torch.testing.assert_close(loss_fn(z1, z0), expected, rtol=1e-9, atol=0)
    order = torch.randperm(size[0], generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(loss_fn(z0[order], z1[order]), expected, rtol=1e-9, atol=0)
    half = order < size[0] // 2  # and swapping the views of some pairs only
    mixed = torch.where(half[:, None], z0, z1), torch.where(half[:, None], z1, z0)
    torch.testing.assert_close(loss_fn(*mixed), expected, rtol=1e-9, atol=0)


@each_loss
@quick
@given(seed=seeds, size=sizes, exponent=st.floats(-6, 6))
def test_length_of_rows_and_rotation(
    loss_fn: Loss, seed: int, size: tuple[int, int], exponent: float
) -> None:
    z0, z1 = two_views(*size, seed=seed)
    expected = loss_fn(z0, z1)
    lengths = torch.logspace(-exponent, exponent, size[0], dtype=torch.float64)[:, None]
    torch.testing.assert_close(loss_fn(z0 * lengths, z1 / lengths), expected, rtol=1e-9, atol=0)
    q, _ = torch.linalg.qr(two_views(size[1], size[1], seed=seed + 1)[0])
    torch.testing.assert_close(loss_fn(z0 @ q, z1 @ q), expected, rtol=1e-9, atol=0)


def test_evidence_moves_with_its_anchor() -> None:
    z0, z1 = two_views(12, 4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    for name in PRESETS:
        loss_fn = WEINCELoss.from_preset(name)
        _, plain = loss_fn(z0, z1, return_evidence=True)
        _, swapped = loss_fn(z1, z0, return_evidence=True)
        _, permuted = loss_fn(z0[order], z1[order], return_evidence=True)
        both = torch.cat([order, order + 12])
        for field in ("rho", "beta", "delta_aic", "lam"):
            value = getattr(plain, field)
            torch.testing.assert_close(
                getattr(swapped, field), value.roll(12), rtol=1e-9, atol=1e-12
            )
            torch.testing.assert_close(getattr(permuted, field), value[both], rtol=1e-9, atol=1e-12)


@each_loss
@pytest.mark.parametrize("exponent", [-10, 15, 25])
def test_length_of_float32_rows(loss_fn: Loss, exponent: int) -> None:
    """At 10^25 the squared length overflows; the row keeps its direction all the same."""
    z0, z1 = two_views(20, 6, dtype=torch.float32)
    unit0, unit1 = (torch.nn.functional.normalize(z, dim=1) for z in (z0, z1))
    scaled = loss_fn(unit0 * 10.0**exponent, unit1)
    torch.testing.assert_close(scaled, loss_fn(unit0, unit1), rtol=1e-4, atol=0)


# Any batch at all: values from a coarse grid, so that ties, duplicates and opposites are common.
any_batch = st.tuples(st.integers(2, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(
        np.float64, (2, *shape), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 3.0])
    )
)
any_settings = st.builds(
    TailSettings,
    tail_index=st.sampled_from(["line", "unit", "hill"]),
    evidence=st.sampled_from(["line-aic", "likelihood"]),
    cap_quantile=st.floats(0.01, 1.0),
    tail_fraction=st.floats(0.01, 1.0),
    min_tail=st.integers(1, 12),
    evidence_margin=st.floats(-5, 5),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(batch=any_batch, how=any_settings)
def test_any_batch_has_a_finite_loss(
    dtype: torch.dtype, batch: np.ndarray, how: TailSettings
) -> None:
    assume((np.abs(batch).sum(axis=-1) > 0).all())
    z0, z1 = torch.tensor(batch, dtype=dtype).requires_grad_().unbind()
    scores, positives = two_view_scores(z0, z1)
    evidence = tail_evidence(scores, positives, how)
    assert ((evidence.lam >= 0) & (evidence.lam <= 1)).all()
    assert (evidence.beta >= 0).all() and torch.isfinite(evidence.beta).all()
    assert (evidence.rho >= how.floor * 0.999).all() and (evidence.rho <= 2.001).all()
    assert torch.isfinite(evidence.delta_aic).all()
    loss = WEINCELoss(0.5, **vars(how))(z0, z1)
    gradients = torch.autograd.grad(loss, (z0, z1))
    assert torch.isfinite(loss) and loss >= 0
    assert all(torch.isfinite(g).all() for g in gradients)
    assert infonce_loss(z0, z1) >= 0
