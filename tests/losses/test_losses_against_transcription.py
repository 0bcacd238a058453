"""Values and gradients of both losses against the explicit loops of ``transcribed_weince``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transcribed_weince as transcribed
from loss_batches import two_views
from torch import Tensor

from weince_lib.losses import PRESETS, WEINCELoss, infonce_loss

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
    "calibrated": {"tail_index": "hill", "evidence": "likelihood"},
}


def as_numpy(z0: Tensor, z1: Tensor) -> tuple[np.ndarray, np.ndarray]:
    return z0.detach().double().numpy(), z1.detach().double().numpy()


def assert_weince_agrees(
    loss_fn: WEINCELoss, z0: Tensor, z1: Tensor, rtol: float, atol: float, **keywords: Any
) -> None:
    loss, evidence = loss_fn(z0, z1, return_evidence=True)
    d0, d1 = torch.autograd.grad(loss, (z0, z1))
    value, g0, g1, readings = transcribed.weince(*as_numpy(z0, z1), loss_fn.temperature, **keywords)
    for name in ("rho", "beta", "delta_aic", "lam"):
        expected = [getattr(reading, name) for reading in readings]
        actual = getattr(evidence, name).numpy()
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, err_msg=name)
    np.testing.assert_allclose(loss.item(), value, rtol=rtol)
    np.testing.assert_allclose(d0.numpy(), g0, rtol=rtol, atol=atol)
    np.testing.assert_allclose(d1.numpy(), g1, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("n", "d", "temperature"), SHAPES)
def test_infonce_value_and_gradient(n: int, d: int, temperature: float) -> None:
    z0, z1 = two_views(n, d, requires_grad=True)
    loss = infonce_loss(z0, z1, temperature)
    d0, d1 = torch.autograd.grad(loss, (z0, z1))
    value, g0, g1 = transcribed.infonce(*as_numpy(z0, z1), temperature)
    np.testing.assert_allclose(loss.item(), value, rtol=1e-10)
    np.testing.assert_allclose(d0.numpy(), g0, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(d1.numpy(), g1, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PRESET_KEYWORDS)
@pytest.mark.parametrize(("n", "d", "temperature"), SHAPES)
def test_weince_value_and_gradient(name: str, n: int, d: int, temperature: float) -> None:
    z0, z1 = two_views(n, d, seed=1, requires_grad=True)
    loss_fn = WEINCELoss.from_preset(name, temperature)
    assert_weince_agrees(loss_fn, z0, z1, 1e-10, 1e-10, **PRESET_KEYWORDS[name])


@pytest.mark.parametrize("settings", OTHER_SETTINGS, ids=str)
def test_weince_with_other_settings(settings: dict[str, Any]) -> None:
    z0, z1 = two_views(21, 4, seed=3, requires_grad=True)
    assert_weince_agrees(WEINCELoss(0.3, **settings), z0, z1, 1e-10, 1e-10, **settings)


@pytest.mark.parametrize("name", PRESET_KEYWORDS)
def test_float32_follows_the_float64_transcription(name: str) -> None:
    z0, z1 = two_views(30, 6, seed=4, dtype=torch.float32, requires_grad=True)
    loss_fn = WEINCELoss.from_preset(name, 0.2)
    assert_weince_agrees(loss_fn, z0, z1, 2e-3, 2e-4, **PRESET_KEYWORDS[name])


def test_infonce_float32_follows_the_float64_transcription() -> None:
    z0, z1 = two_views(30, 6, seed=4, dtype=torch.float32, requires_grad=True)
    loss = infonce_loss(z0, z1, 0.2)
    d0, d1 = torch.autograd.grad(loss, (z0, z1))
    value, g0, g1 = transcribed.infonce(*as_numpy(z0, z1), 0.2)
    assert loss.dtype == torch.float32
    np.testing.assert_allclose(loss.item(), value, rtol=1e-5)
    np.testing.assert_allclose(d0.numpy(), g0, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(d1.numpy(), g1, rtol=1e-3, atol=1e-6)


def test_every_preset_is_compared() -> None:
    assert set(PRESET_KEYWORDS) == set(PRESETS)


@pytest.mark.parametrize("name", PRESET_KEYWORDS)
def test_the_closed_gradient_is_the_slope_of_the_loss(name: str) -> None:
    """The transcription against itself: central differences with lambda and beta frozen."""
    z0, z1 = as_numpy(*two_views(5, 3, seed=5))
    _, g0, _, readings = transcribed.weince(z0, z1, 0.4, **PRESET_KEYWORDS[name])
    assert max(reading.lam for reading in readings) > 0.1  # the endpoint part takes part
    step = 1e-6
    slopes = np.zeros_like(z0)
    for index in np.ndindex(*z0.shape):
        up, down = z0.copy(), z0.copy()
        up[index] += step
        down[index] -= step
        rise = transcribed.loss_of(up, z1, readings, 0.4)
        fall = transcribed.loss_of(down, z1, readings, 0.4)
        slopes[index] = (rise - fall) / (2 * step)
    np.testing.assert_allclose(slopes, g0, rtol=1e-6, atol=1e-8)
