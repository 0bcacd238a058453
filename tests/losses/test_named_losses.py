"""Runs and other libraries' losses name the new losses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loss_batches import two_views

from weince_lib.losses import LOSSES, EndpointLink, endpoint_loss
from weince_lib.runs.config import ConfigError, vision_config


@pytest.mark.parametrize(
    ("loss", "options", "whole", "label"),
    [
        ("endpoint", {"decoupled": True}, {"curvature": 0.9, "decoupled": True}, "endpoint"),
        ("endpoint", {"curvature": 1}, {"curvature": 1.0, "decoupled": False}, "endpoint"),
        ("self-setting", {"rule": "kl"}, {"rule": "kl"}, "self-setting-kl"),
        ("hard-negatives", None, {"beta": 1.0, "tau_plus": 0.1}, "hard-negatives"),
        ("arctanh", {}, {}, "arctanh"),
    ],
)
def test_config(loss: str, options: Any, whole: Any, label: str) -> None:
    """One run has one config, however much of it is left to the defaults."""
    config = vision_config("quick", loss=loss, **({} if options is None else {"options": options}))
    assert config.canonical()["options"] == whole and config.label == label
    made = config.build_loss()
    assert type(made) is LOSSES[loss] and made.own_settings() == whole
    assert config == vision_config("quick", loss=loss, options=whole)
    assert "options" not in vision_config("quick", loss="infonce").canonical()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "endpoint", "options": {"curvature": 2.0}}, r"curvature must lie in \[0, 1\]"),
        ({"loss": "endpoint", "options": {"g": 0.5}}, "no option 'g'; known: curvature, decoupled"),
        ({"loss": "infonce", "options": {"g": 0.5}}, "'infonce' and options = .* do not fit"),
        ({"loss": "self-setting", "temperature": 0.1}, "sets its own; leave it"),
        ({"loss": "self-setting", "options": {"rule": "x"}}, "unknown rule 'x'; known: tail"),
    ],
)
def test_bad_config(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        vision_config("quick", **settings)


def test_in_other_libraries() -> None:
    z0, z1 = two_views(12, 5, dtype=torch.float32)
    expected = endpoint_loss(z0, z1, 0.3, 0.9, decoupled=True)
    link = EndpointLink(0.9, decoupled=True)
    lightly = pytest.importorskip("weince_lib.integrations.lightly", exc_type=ImportError)
    torch.testing.assert_close(lightly.NTXentLoss(0.3, correction=link)(z0, z1), expected)
    other = pytest.importorskip("weince_lib.integrations.metric_learning", exc_type=ImportError)
    loss_fn = other.NTXentLoss(0.3, correction=link)
    z, labels = torch.cat([z0, z1]), torch.arange(12).repeat(2)
    torch.testing.assert_close(loss_fn(z, labels), expected)
    mined = other.lmu.get_all_pairs_indices(labels)
    torch.testing.assert_close(loss_fn(z, indices_tuple=mined), expected)
