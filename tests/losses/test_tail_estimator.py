"""Another estimator of the tail index is one function and one entry of the registry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import transcribed_weince as transcribed
from loss_batches import two_views
from torch import Tensor

from weince_lib.losses import TailSettings, WEINCELoss, tail_evidence
from weince_lib.losses.candidates import two_view_scores
from weince_lib.losses.evidence import TAIL_INDICES, TailEstimator, has_spread

#: The likelihood's evidence takes tails in any order, so only the new entry asks for sorted ones.
HOW = {"evidence": "likelihood", "tail_fraction": 0.4, "evidence_margin": -3.0}
#: More columns than a selection sorts on the way, as it does with short rows.
N, D, TEMPERATURE = 140, 5, 0.3


def half_tail(tail: Tensor, resolution: float | None = None) -> tuple[Tensor, None, Tensor]:
    """beta = log(K / h) / log(delta_K / delta_h) with h = K // 2: of F = (delta / c)^beta."""
    k = tail.shape[1]
    h = k // 2
    ok = has_spread(tail[:, h - 1], tail[:, -1], resolution)
    ratio = torch.where(ok, tail[:, -1] / tail[:, h - 1], 2.0)
    return torch.where(ok, math.log(k / h) / ratio.log(), 0.0), None, ok


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TAIL_INDICES, "half", TailEstimator(half_tail, needs_order=True))


def readings_by_loops(z0: Tensor, z1: Tensor) -> list[transcribed.Reading]:
    """The readings with beta by the formula above; the rest by the transcription."""
    scores = transcribed.cosines(
        transcribed.stacked_unit_rows(z0.detach().numpy(), z1.detach().numpy())[0]
    )
    found = transcribed.read_tail(scores, tail_index="hill", **HOW)
    size = max(32, round(0.4 * (2 * N - 2)))
    changed = []
    for i, reading in enumerate(found):
        deltas = sorted(1 - scores[i, j] for j in transcribed.negatives_of(i, 2 * N))
        ratio = deltas[size - 1] / deltas[size // 2 - 1]
        beta = math.log(size / (size // 2)) / math.log(ratio)
        changed.append(transcribed.Reading(reading.rho, beta, reading.delta_aic, reading.lam))
    return changed


@pytest.mark.parametrize(
    "how",
    [{"impl": "streaming"}, {"impl": "streaming", "memory_budget": 1}, {"impl": "reference"}],
    ids=["streaming", "blocks of one", "dense"],
)
def test_a_new_estimator_reaches_the_loss(how: dict[str, Any]) -> None:
    z0, z1 = two_views(N, D, seed=7, requires_grad=True)
    expected = readings_by_loops(z0, z1)
    loss, evidence = WEINCELoss(TEMPERATURE, tail_index="half", **HOW, **how)(
        z0, z1, return_evidence=True
    )
    for name in ("rho", "beta", "delta_aic", "lam"):
        theirs = [getattr(reading, name) for reading in expected]
        np.testing.assert_allclose(getattr(evidence, name).numpy(), theirs, rtol=1e-9, atol=1e-10)
    assert max(reading.lam for reading in expected) > 0.5  # beta has a part in the loss
    arrays = z0.detach().numpy(), z1.detach().numpy()
    value, *gradients = transcribed.frozen(*arrays, expected, TEMPERATURE)
    assert loss.item() == pytest.approx(value, rel=1e-10)
    for mine, theirs in zip(torch.autograd.grad(loss, (z0, z1)), gradients, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-8, atol=1e-11)


def test_a_new_estimator_reads_scores_too() -> None:
    z0, z1 = two_views(N, D, seed=7)
    found = tail_evidence(*two_view_scores(z0, z1), TailSettings(tail_index="half", **HOW))
    expected = [reading.beta for reading in readings_by_loops(z0, z1)]
    np.testing.assert_allclose(found.beta.numpy(), expected, rtol=1e-9)


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown tail_index 'third'; known: line, .*, half"):
        WEINCELoss(tail_index="third")
