"""Scores, positives, the cross-entropy over candidates, and the checks of a batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import transcribed_weince as transcribed
from loss_batches import two_views

from weince_lib.losses.arguments import check_embeddings, check_pairs, check_temperature
from weince_lib.losses.dense import candidate_cross_entropy
from weince_lib.losses.similarity import two_view_scores


def test_scores_are_the_cosines_of_all_views() -> None:
    z0, z1 = two_views(7, 5)
    scores, _ = two_view_scores(z0, z1)
    unit, _ = transcribed.stacked_unit_rows(z0.numpy(), z1.numpy())
    np.testing.assert_allclose(scores.numpy(), transcribed.cosines(unit), rtol=0, atol=1e-14)


def test_the_positive_of_a_view_is_the_other_view_of_its_item() -> None:
    _, positives = two_view_scores(*two_views(6, 3))
    assert positives.tolist() == [transcribed.positive_of(i, 12) for i in range(12)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_are_float32_or_better(dtype: torch.dtype) -> None:
    z0, z1 = two_views(8, 64, dtype=dtype)
    scores, _ = two_view_scores(z0, z1)
    assert scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exact, _ = two_view_scores(z0.double(), z1.double())
    torch.testing.assert_close(scores.double(), exact, rtol=0, atol=1e-6)


def test_autocast_leaves_the_scores_alone() -> None:
    z0, z1 = two_views(8, 64, dtype=torch.float32)
    expected, _ = two_view_scores(z0, z1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores, _ = two_view_scores(z0, z1)
    assert torch.equal(scores, expected)


def test_cross_entropy_counts_every_candidate_but_the_anchor() -> None:
    logits = torch.zeros(6, 6, dtype=torch.float64)
    logits.fill_diagonal_(1e9)  # would take the whole mass if it were a candidate
    positives = torch.arange(6).roll(3)
    assert candidate_cross_entropy(logits, positives).item() == pytest.approx(math.log(5))


@pytest.mark.parametrize("temperature", [0.0, -0.5, math.inf, -math.inf, math.nan])
def test_temperature_out_of_range(temperature: float) -> None:
    with pytest.raises(ValueError, match=rf"temperature must be positive .* got {temperature}"):
        check_temperature(temperature)


def test_temperature_in_range() -> None:
    for temperature in (1e-6, 0.05, 100.0):
        check_temperature(temperature)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (torch.ones(3), r"bank must have shape \(rows, d\), got \(3,\)"),
        (torch.ones(2, 3, 4), r"bank must have shape \(rows, d\), got \(2, 3, 4\)"),
        (
            torch.ones(2, 3, dtype=torch.int64),
            r"bank must be floating point, got torch.int64.*float",
        ),
        (
            torch.tensor([[1.0], [math.nan], [math.inf]]),
            r"bank: row 1 holds NaN .* 2 of 3 such rows",
        ),
        (torch.tensor([[1.0], [2.0], [0.0]]), r"bank: row 2 is zero.* 1 of 3 such rows.*drop them"),
        (torch.tensor([[1e-13, 1e-13]]), r"bank: row 0 has norm 1.41e-13, below 1e-12"),
        (torch.ones(4, 0), r"bank: row 0 is zero.* 4 of 4"),
    ],
)
def test_embeddings_without_a_cosine(z: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_embeddings(z, "bank")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_good_embeddings_pass(dtype: torch.dtype) -> None:
    z0, z1 = two_views(4, 3, dtype=dtype)
    check_embeddings(z0)
    check_pairs(z0, z1)


def test_pairs_on_two_devices() -> None:
    with pytest.raises(ValueError, match="z0 is on cpu and z1 on meta; move them together"):
        check_pairs(torch.ones(4, 2), torch.ones(4, 2, device="meta"))
