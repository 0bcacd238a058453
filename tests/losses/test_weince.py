"""WEINCE: its two limits, its stopped gradient, its floor, ties, and its module."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import pytest
import torch
import transcribed_weince as transcribed
from loss_batches import two_views, value_and_gradients

from weince_lib.losses import (
    PRESETS,
    TailSettings,
    WEINCELoss,
    blended_logits,
    endpoint_coordinate,
    infonce_loss,
    weince_loss,
)
from weince_lib.losses.candidates import two_view_scores
from weince_lib.losses.dense import candidate_cross_entropy

each_preset = pytest.mark.parametrize("name", PRESETS)
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


# Limits --------------------------------------------------------------------------------------


@each_preset
@each_dtype
@pytest.mark.parametrize(("n", "margin"), [(24, 1e9), (2, 2.0)], ids=["gate shut", "2 negatives"])
def test_lambda_zero_is_infonce_bit_for_bit(
    name: str, dtype: torch.dtype, n: int, margin: float
) -> None:
    z0, z1 = two_views(n, 6, dtype=dtype, requires_grad=True)
    settings = dataclasses.replace(PRESETS[name], evidence_margin=margin)
    how = {"impl": "reference"}
    loss, evidence = weince_loss(z0, z1, 0.3, settings, return_evidence=True, **how)
    assert not evidence.lam.any()
    actual = value_and_gradients(loss, z0, z1)
    expected = value_and_gradients(infonce_loss(z0, z1, 0.3, **how), z0, z1)
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
    # The streaming implementation takes products near the cap in float64, InfoNCE's need not be.
    streamed = value_and_gradients(weince_loss(z0, z1, 0.3, settings), z0, z1)
    for a, b in zip(streamed, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-7)


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_lambda_one_is_the_weibull_link(beta: float) -> None:
    """p_j is proportional to (1 - s_j)^(-beta), whatever the temperature."""
    scores = torch.tensor([[0.9, 0.5, -0.2, -1.0]], dtype=torch.float64)
    ones = torch.ones(1, dtype=torch.float64)
    p = blended_logits(scores, ones, beta * ones, 0.05).softmax(dim=1)
    weights = [0.1**-beta, 0.5**-beta, 1.2**-beta, 2.0**-beta]
    assert p[0].tolist() == pytest.approx([w / sum(weights) for w in weights], rel=1e-12)


def test_the_blend_is_linear_in_lambda() -> None:
    scores = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    lam, beta = (torch.tensor([x], dtype=torch.float64) for x in (0.25, 3.0))
    expected = [0.75 * 0.5 / 0.2 + 0.25 * 3 * math.log(2), 0.0]
    assert blended_logits(scores, lam, beta, 0.2)[0].tolist() == pytest.approx(expected)


# Gradient ------------------------------------------------------------------------------------


@each_preset
def test_lambda_and_beta_are_constants_of_the_backward_pass(name: str) -> None:
    z0, z1 = two_views(16, 4, requires_grad=True)
    loss_fn = WEINCELoss.from_preset(name, 0.3, impl="reference")
    loss, evidence = loss_fn(z0, z1, return_evidence=True)
    assert not any(getattr(evidence, f.name).requires_grad for f in dataclasses.fields(evidence))
    assert evidence.lam.max() > 0.2
    actual = value_and_gradients(loss, z0, z1)
    scores, positives = two_view_scores(z0, z1)
    lam, beta = (
        torch.tensor(v.tolist(), dtype=torch.float64) for v in (evidence.lam, evidence.beta)
    )
    frozen = candidate_cross_entropy(blended_logits(scores, lam, beta, 0.3), positives)
    expected = value_and_gradients(frozen, z0, z1)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b.to(a.dtype), rtol=2e-5, atol=1e-7)
    # The whole derivative, lambda and beta moving with the batch, is another one.
    along, _ = two_views(16, 4, seed=1)
    with torch.no_grad():
        rise = loss_fn(z0 + 1e-6 * along, z1) - loss_fn(z0 - 1e-6 * along, z1)
    whole, stopped = rise.item() / 2e-6, (actual[1] * along).sum().item()
    assert abs(whole - stopped) > 1e-3 * abs(whole)


@each_dtype
@pytest.mark.parametrize("floor", [1e-6, 0.1])
def test_endpoint_coordinate_at_the_floor(dtype: torch.dtype, floor: float) -> None:
    """Value -log max(1 - s, floor), derivative 1 / max(1 - s, floor), also beyond the cap."""
    s = torch.tensor(
        [1.0 + 3e-7, 1.0, 1.0 - 3e-7, 0.99, 0.5, -1.0], dtype=dtype, requires_grad=True
    )
    g = endpoint_coordinate(s, floor)
    (slope,) = torch.autograd.grad(g.sum(), s)
    floored = [max(1 - x, floor) for x in s.double().tolist()]
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    assert g.tolist() == pytest.approx(
        [-math.log(x) for x in floored], rel=tolerance, abs=tolerance
    )
    assert slope.tolist() == pytest.approx([1 / x for x in floored], rel=tolerance)
    assert slope[:3].tolist() == pytest.approx([1 / floor] * 3, rel=tolerance)


@each_preset
def test_gradient_of_the_scores_at_the_floor(name: str) -> None:
    """Duplicates across pairs sit at the floor and still get the closed formula's gradient."""
    z0, z1 = two_views(10, 4)
    z0[1], z1[1] = z0[0], z0[0]
    scores, positives = two_view_scores(z0, z1)
    scores.requires_grad_()
    _, evidence = WEINCELoss.from_preset(name, 0.3)(z0, z1, return_evidence=True)
    logits = blended_logits(scores, evidence.lam, evidence.beta, 0.3)
    (actual,) = torch.autograd.grad(candidate_cross_entropy(logits, positives), scores)
    readings = transcribed.read_tail(scores.detach().numpy(), **dataclasses.asdict(PRESETS[name]))
    anchors = transcribed.two_view_anchors(len(scores))
    _, closed, _ = transcribed.scores_loss(scores.detach().numpy(), anchors, readings, 1 / 0.3)
    expected = torch.tensor(closed)
    assert evidence.rho[0] == pytest.approx(1e-6) and evidence.lam[0] > 0.5
    assert actual[0, 1] > 1.0  # 1/floor is at work: the duplicates repel
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-10)


# Module --------------------------------------------------------------------------------------


@each_preset
def test_module_equals_function(name: str) -> None:
    z0, z1 = two_views(24, 5)
    module = WEINCELoss.from_preset(name, 0.2)
    expected, expected_evidence = weince_loss(z0, z1, 0.2, PRESETS[name], return_evidence=True)
    loss, evidence = module(z0, z1, return_evidence=True)
    assert torch.equal(loss, expected) and torch.equal(module(z0, z1), expected)
    assert torch.equal(weince_loss(z0, z1, 0.2, PRESETS[name]), expected)
    for field in dataclasses.fields(evidence):
        assert torch.equal(getattr(evidence, field.name), getattr(expected_evidence, field.name))
    assert evidence.lam.shape == evidence.beta.shape == evidence.rho.shape == (48,)
    assert module.settings == PRESETS[name] and module.temperature == 0.2
    assert WEINCELoss().settings == TailSettings() == PRESETS["paper"]


def test_a_module_has_nothing_to_train_and_can_be_copied() -> None:
    module = WEINCELoss(0.2, tail_index="hill", cap_quantile=0.3)
    assert not list(module.parameters()) and not module.state_dict()
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert twin.settings == module.settings and twin.temperature == 0.2
