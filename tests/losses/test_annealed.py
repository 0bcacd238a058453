"""The loss whose temperature falls: its schedule, its count, its state, bad input."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from loss_batches import two_views

from weince_lib.losses import AnnealedLoss, EndpointLoss, sharpness


def test_each_step_is_the_decoupled_softmax_at_the_temperature_of_the_schedule() -> None:
    z = two_views(12, 5)
    loss = AnnealedLoss(5, start=0.4, end=0.1)
    # A straight line in log tau: 0.4 to 0.1 in four equal factors; from the fifth step on, 0.1.
    for tau in (0.4, 0.4 / math.sqrt(2), 0.2, 0.2 / math.sqrt(2), 0.1, 0.1, 0.1):
        expected = EndpointLoss(tau, curvature=0.0, decoupled=True)(*z)
        torch.testing.assert_close(loss(*z), expected, rtol=1e-6, atol=0)


def test_evaluation_counts_no_step() -> None:
    z = two_views(12, 5)
    loss = AnnealedLoss(3).eval()
    torch.testing.assert_close(loss(*z), loss(*z), rtol=0, atol=0)
    assert int(loss.seen) == 0


def test_one_step_has_the_first_temperature() -> None:
    assert float(AnnealedLoss(1).logit_scale()) == pytest.approx(1 / 0.3)


def test_a_resumed_run_goes_on_where_it_was() -> None:
    z = two_views(12, 5)
    whole, cut = AnnealedLoss(6), AnnealedLoss(6)
    for _ in range(3):
        whole(*z), cut(*z)
    resumed = AnnealedLoss(6)
    resumed.load_state_dict(cut.state_dict())
    for _ in range(3):
        torch.testing.assert_close(resumed(*z), whole(*z), rtol=0, atol=0)
    with pytest.raises(RuntimeError, match="no count of the steps"):
        AnnealedLoss(6).load_state_dict({})


def test_sharpness_is_that_of_the_temperature_reached() -> None:
    z = two_views(20, 6)
    loss = AnnealedLoss(2, start=0.5, end=0.05)
    loss(*z), loss(*z)
    reached = EndpointLoss(0.05, curvature=0.0, decoupled=True)
    assert sharpness(loss, *z).negative_entropy == pytest.approx(
        sharpness(reached, *z).negative_entropy, rel=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "got 2.5"),
        ({"start": 0.0}, "start must be positive"),
        ({"end": math.inf}, "end must be positive and finite"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AnnealedLoss(**{"steps": 5} | settings)


def test_without_a_length_it_does_not_train() -> None:
    with pytest.raises(ValueError, match="how long the run is"):
        AnnealedLoss()(*two_views(4, 3))
