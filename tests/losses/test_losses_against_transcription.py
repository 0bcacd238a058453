"""Values and gradients of both losses against the explicit loops of ``transcribed_weince``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transcribed_weince as transcribed
from loop_family import slopes
from loss_batches import numbers, two_views
from torch import Tensor

from weince_lib.losses import InfoNCELoss, WEINCELoss

#: (N, d, temperature): from the smallest batch, over odd sizes, to one with more than
#: min_tail negatives (40 pairs).
SHAPES = [(2, 3, 0.5), (3, 2, 0.5), (5, 3, 0.2), (9, 7, 0.05), (16, 64, 1.3), (40, 5, 0.1)]

OTHER_SETTINGS: list[dict[str, Any]] = [
    {"cap_quantile": 1.0, "cap_sharpness": 5.0},
    {"cap_quantile": 0.07, "cap_sharpness": 20.0},
    {"tail_fraction": 0.35, "min_tail": 1},
    {"tail_fraction": 0.9},  # 36 of the 40 negatives, more than min_tail
    {"tail_fraction": 1.0},  # 40 points, of which the line fits drop two
    {"tail_fraction": 1.0, "min_tail": 5, "tail_index": "hill"},
    {"min_tail": 4, "evidence": "likelihood"},
    {"min_tail": 2, "tail_fraction": 0.01, "evidence": "likelihood", "tail_index": "hill"},
    {"evidence": "likelihood", "evidence_sharpness": 0.5, "evidence_margin": -3.0},
    {"evidence": "likelihood", "evidence_sharpness": 2.0, "evidence_margin": 6.0},
    {"evidence": "likelihood", "tail_index": "line"},
    {"evidence": "likelihood", "tail_index": "unit", "min_tail": 12},
    {"evidence": "line-aic", "tail_index": "hill", "min_tail": 12},
    {"evidence_margin": 170.0, "evidence_sharpness": 0.1},
    {"cap_sharpness": 0.0, "evidence_sharpness": 0.0},
    {"floor": 0.05, "cap_quantile": 0.5},
]

PRESET_KEYWORDS: dict[str, dict[str, Any]] = {
    "paper": {},
    "release": {"tail_index": "unit"},
    "calibrated": {
        "tail_index": "hill",
        "evidence": "likelihood",
        "tail_fraction": 0.0005,
        "evidence_sharpness": 4.0,
        "evidence_margin": 3.5,
    },
}


def assert_agrees(
    loss_fn: WEINCELoss | InfoNCELoss, z0: Tensor, z1: Tensor, rtol: float, atol: float, **how: Any
) -> None:
    arrays = numbers(z0, z1)
    if isinstance(loss_fn, WEINCELoss):
        loss, evidence = loss_fn(z0, z1, return_evidence=True)
        value, *expected, readings = transcribed.weince(*arrays, loss_fn.temperature, **how)
        for name in ("rho", "beta", "delta_aic", "lam"):
            theirs = [getattr(reading, name) for reading in readings]
            mine = getattr(evidence, name).numpy()
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=atol, err_msg=name)
    else:
        loss = loss_fn(z0, z1)
        value, *expected = transcribed.infonce(*arrays, loss_fn.temperature)
    np.testing.assert_allclose(loss.item(), value, rtol=rtol)
    for mine, theirs in zip(torch.autograd.grad(loss, (z0, z1)), expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", ["infonce", *PRESET_KEYWORDS])
@pytest.mark.parametrize(("n", "d", "temperature"), SHAPES)
def test_value_and_gradient(name: str, n: int, d: int, temperature: float) -> None:
    z = two_views(n, d, seed=1, requires_grad=True)
    if name == "infonce":
        assert_agrees(InfoNCELoss(temperature), *z, 1e-10, 1e-12)
    else:
        loss_fn = WEINCELoss.from_preset(name, temperature)
        assert_agrees(loss_fn, *z, 1e-10, 1e-10, **PRESET_KEYWORDS[name])


@pytest.mark.parametrize("settings", OTHER_SETTINGS, ids=str)
def test_weince_with_other_settings(settings: dict[str, Any]) -> None:
    z = two_views(21, 4, seed=3, requires_grad=True)
    assert_agrees(WEINCELoss(0.3, **settings), *z, 1e-10, 1e-10, **settings)


@pytest.mark.parametrize("name", PRESET_KEYWORDS)
def test_float32_follows_the_float64_transcription(name: str) -> None:
    z = two_views(30, 6, seed=4, dtype=torch.float32, requires_grad=True)
    loss_fn = WEINCELoss.from_preset(name, 0.2)
    assert_agrees(loss_fn, *z, 2e-3, 2e-4, **PRESET_KEYWORDS[name])
    assert_agrees(InfoNCELoss(0.2), *z, 1e-3, 1e-6)


@pytest.mark.parametrize("name", PRESET_KEYWORDS)
def test_the_closed_gradient_is_the_slope_of_the_loss(name: str) -> None:
    """The transcription against itself: central differences with lambda and beta frozen."""
    z0, z1 = numbers(*two_views(5, 3, seed=5))
    _, g0, _, readings = transcribed.weince(z0, z1, 0.4, **PRESET_KEYWORDS[name])
    assert max(reading.lam for reading in readings) > 0.1  # the endpoint part takes part
    found = slopes(lambda a, b: transcribed.loss_of(a, b, readings, 0.4), z0, z1)
    np.testing.assert_allclose(found, g0, rtol=1e-6, atol=1e-8)
