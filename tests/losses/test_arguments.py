"""Arguments of the wrong kind are named in every loss; what a bound and a short row do."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from loss_batches import two_views
from torch import nn

from weince_lib.losses import (
    AblationLoss,
    InfoNCELoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    weince_loss,
)

LOSSES = [InfoNCELoss, WEINCELoss, AblationLoss]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_learnable_temperature_is_sent_to_logit_scale(loss: type[nn.Module]) -> None:
    with pytest.raises(ValueError, match=r"temperature must be a number.*logit_scale=.*exp\(\)"):
        loss(nn.Parameter(torch.tensor(0.5)))


@pytest.mark.parametrize("value", ["0.5", None, True, [0.5]])
@pytest.mark.parametrize("call", [infonce_loss, weince_loss, *LOSSES])
def test_a_temperature_that_is_no_number(call: Any, value: object) -> None:
    views = two_views(4, 3) if call in (infonce_loss, weince_loss) else ()
    with pytest.raises(ValueError, match=r"temperature must be a number such as 0\.5, got"):
        call(*views, temperature=value)


@pytest.mark.parametrize("flag", ["symmetric", "validate", "gather_distributed"])
@pytest.mark.parametrize("value", ["False", "no", 0, None])
@pytest.mark.parametrize("call", [infonce_loss, weince_loss, InfoNCELoss, WEINCELoss])
def test_flags_are_true_or_false(call: Any, flag: str, value: object) -> None:
    views = two_views(4, 3) if call in (infonce_loss, weince_loss) else ()
    with pytest.raises(ValueError, match=f"{flag} must be True or False, got {value!r}"):
        call(*views, **{flag: value})


@pytest.mark.parametrize(
    "name",
    ["cap_quantile", "tail_fraction", "min_tail", "cap_sharpness", "evidence_margin", "floor"],
)
@pytest.mark.parametrize("value", ["0.2", None, True])
def test_settings_of_the_tail_are_numbers(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a number"):
        TailSettings(**{name: value})
    with pytest.raises(ValueError, match=f"{name} must be a number"):
        WEINCELoss(**{name: value})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"memory_budget": "1G"}, "memory_budget must be .* got '1G'"),
        ({"queue": 256}, "queue must be a NegativeQueue or None, got 256"),
    ],
)
def test_other_options(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WEINCELoss(**given)


def test_a_logit_scale_that_is_no_tensor() -> None:
    with pytest.raises(ValueError, match=r"logit_scale must be a tensor.*got 20.0.*temperature"):
        infonce_loss(*two_views(4, 3), logit_scale=20.0)


@pytest.mark.parametrize("loss", [infonce_loss, weince_loss])
def test_logit_scale_has_no_upper_bound(loss: Any) -> None:
    """CLIP's bound of 100 is its training loop's; the loss takes 1 / tau as it is."""
    views = two_views(8, 5)
    scale = torch.tensor(1000.0, dtype=torch.float64, requires_grad=True)
    value = loss(*views, logit_scale=scale)
    assert value.item() == pytest.approx(float(loss(*views, temperature=1e-3)), rel=1e-6)
    value.backward()
    assert scale.grad is not None and float(scale.grad) != 0.0


@pytest.mark.parametrize("length", [0.0, 1e-13])
def test_unvalidated_rows_without_a_direction_guess_blindly(length: float) -> None:
    z = length * torch.nn.functional.normalize(torch.ones(5, 3), dim=1)
    loss = infonce_loss(z, z, validate=False)
    assert float(loss) == pytest.approx(math.log(2 * 5 - 1), rel=1e-6)
    with pytest.raises(ValueError, match=r"z0: row 0 .*5 of 5 such rows"):
        infonce_loss(z, z)
