"""Every batch and setting that makes no sense gets one clear error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import two_views
from torch import Tensor

from weince_lib.losses import (
    PRESETS,
    InfoNCELoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    preset,
    tail_evidence,
    weince_loss,
)

CALLS: dict[str, Callable[..., Tensor]] = {
    "infonce_loss": infonce_loss,
    "weince_loss": weince_loss,
    "InfoNCELoss": InfoNCELoss(),
    "WEINCELoss": WEINCELoss(),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


def with_row(row: int, value: float) -> Tensor:
    z = torch.ones(4, 3)
    z[row] = value
    return z


@each_call
@pytest.mark.parametrize(
    ("z0", "z1", "message"),
    [
        (
            torch.ones(1, 3),
            torch.ones(1, 3),
            "a batch of N = 1 pairs has no negatives; N must be 2",
        ),
        (torch.ones(0, 3), torch.ones(0, 3), "a batch of N = 0 pairs has no negatives"),
        (torch.ones(4, 3), torch.ones(5, 3), r"both \(N, d\); got \(4, 3\) and \(5, 3\)"),
        (torch.ones(4, 3), torch.ones(4, 2), r"both \(N, d\); got \(4, 3\) and \(4, 2\)"),
        (torch.ones(4), torch.ones(4), r"both \(N, d\); got \(4,\) and \(4,\)"),
        (torch.ones(2, 4, 3), torch.ones(2, 4, 3), r"both \(N, d\); got \(2, 4, 3\)"),
        (with_row(2, math.nan), torch.ones(4, 3), "z0: row 2 holds NaN or infinity; 1 of 4"),
        (torch.ones(4, 3), with_row(1, math.inf), "z1: row 1 holds NaN or infinity; 1 of 4"),
        (torch.ones(4, 3), with_row(1, -math.inf), "z1: row 1 holds NaN or infinity; 1 of 4"),
        (with_row(3, 0.0), torch.ones(4, 3), "z0: row 3 is zero, so it has no cosine; 1 of 4"),
        (torch.ones(4, 3), with_row(0, 0.0), "z1: row 0 is zero, so it has no cosine; 1 of 4"),
        (with_row(3, 1e-15), torch.ones(4, 3), "z0: row 3 has norm 1.73e-15, below 1e-12.* 1 of 4"),
        (torch.ones(4, 3).int(), torch.ones(4, 3).int(), "must be floating point, got torch.int32"),
        (
            torch.ones(4, 3).to(torch.float8_e4m3fn),
            torch.ones(4, 3),
            r"z0 must be .*16 bits or more, got torch.float8_e4m3fn; call .float\(\)",
        ),
        (torch.ones(4, 3), torch.ones(4, 3).to_sparse(), r"z1 must be a dense .*to_dense\(\)"),
        (torch.ones(4, 3), torch.ones(4, 3).long(), "z1 must be floating point, got torch.int64"),
    ],
)
def test_bad_batches(call: Callable[..., Tensor], z0: Tensor, z1: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(z0, z1)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_bad_temperature(temperature: float) -> None:
    z0, z1 = two_views(4, 3)
    message = rf"temperature must be positive and finite, got {temperature}"
    for call in (
        lambda: infonce_loss(z0, z1, temperature),
        lambda: weince_loss(z0, z1, temperature),
        lambda: InfoNCELoss(temperature),
        lambda: WEINCELoss(temperature),
        lambda: WEINCELoss.from_preset("paper", temperature),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"tail_index": "slope"}, r"unknown tail_index 'slope'; known: line, unit, hill"),
        ({"evidence": "aic"}, r"unknown evidence 'aic'; known: line-aic, likelihood"),
        ({"cap_quantile": 0.0}, r"cap_quantile must lie in \(0, 1\], got 0.0"),
        ({"cap_quantile": 1.5}, r"cap_quantile must lie in \(0, 1\], got 1.5"),
        ({"cap_quantile": math.nan}, r"cap_quantile must lie in \(0, 1\], got nan"),
        ({"tail_fraction": -0.1}, r"tail_fraction must lie in \(0, 1\], got -0.1"),
        ({"tail_fraction": 1.01}, r"tail_fraction must lie in \(0, 1\], got 1.01"),
        ({"min_tail": 0}, r"min_tail must be at least 1, got 0"),
        ({"cap_sharpness": -1.0}, r"cap_sharpness must be finite and not negative"),
        ({"cap_sharpness": math.inf}, r"cap_sharpness must be finite and not negative"),
        ({"evidence_sharpness": -0.1}, r"evidence_sharpness must be finite and not negative"),
        ({"evidence_sharpness": math.nan}, r"evidence_sharpness must be finite and not negative"),
        ({"evidence_margin": math.inf}, r"evidence_margin must be finite, got inf"),
        ({"floor": 0.0}, r"floor must lie in \(0, 1\), got 0.0"),
        ({"floor": 1.0}, r"floor must lie in \(0, 1\), got 1.0"),
    ],
    ids=str,
)
def test_bad_settings(setting: dict[str, Any], message: str) -> None:
    for build in (TailSettings, WEINCELoss):
        with pytest.raises(ValueError, match=message):
            build(**setting)


def test_unknown_preset_lists_the_known_ones() -> None:
    message = r"unknown preset 'papers'; known: paper, release, calibrated"
    assert list(PRESETS) == ["paper", "release", "calibrated"]
    with pytest.raises(ValueError, match=message):
        WEINCELoss.from_preset("papers")
    with pytest.raises(ValueError, match=message):
        preset("papers")


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        (torch.zeros(4, 5), torch.arange(4), r"scores must be square, \(M, M\), got \(4, 5\)"),
        (torch.zeros(4), torch.arange(4), r"scores must be square, \(M, M\), got \(4,\)"),
        (torch.zeros(4, 4), torch.arange(3), r"positives must have shape \(4,\), got \(3,\)"),
        (torch.zeros(2, 2), torch.tensor([1, 0]), r"2 views have no negatives; at least 4"),
    ],
)
def test_bad_scores(scores: Tensor, positives: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tail_evidence(scores, positives)


@each_call
def test_the_rows_are_looked_at_unless_told_not_to(call: Callable[..., Tensor]) -> None:
    z0, z1 = two_views(8, 3)
    z0[5] = 0.0
    with pytest.raises(ValueError, match="z0: row 5 is zero"):
        call(z0, z1)


@pytest.mark.parametrize("name", ["infonce", *PRESETS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_row_without_validation(name: str, dtype: torch.dtype) -> None:
    """A zero row then has cosine 0 with everything, and nothing is infinite."""
    if name == "infonce":
        loss_fn: Callable[..., Tensor] = InfoNCELoss(validate=False)
    else:
        loss_fn = WEINCELoss.from_preset(name, validate=False)
    z0, z1 = two_views(8, 3, dtype=dtype)
    z0[5] = 0.0
    z0.requires_grad_()
    z1.requires_grad_()
    loss = loss_fn(z0, z1)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (z0, z1)))
    # In one dimension more, a row orthogonal to all the others has the same cosines.
    wider0, wider1 = (torch.nn.functional.pad(z.detach(), (0, 1)) for z in (z0, z1))
    wider0[5, -1] = 1.0
    torch.testing.assert_close(loss, loss_fn(wider0, wider1), rtol=1e-5, atol=0)
