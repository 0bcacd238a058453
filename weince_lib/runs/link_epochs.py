"""Link selection along training as a record (paper D.5, Figure 9)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..diagnostics.link_fit import Design, fit_link
from ..diagnostics.link_inference import gain_test
from ..diagnostics.link_selection import halves
from ..records.store import Metric, Record
from .encoders import frozen_models
from .link import LinkConfig, gain_json, is_standard, link_choices
from .on_encoder import measured_once
from .vision import training_images

EXPERIMENT = "link-epochs"


def run_link_epochs(config: LinkConfig, *, profile: str) -> Record:
    """Link selection at epochs 0, 1, 2, 4, 8, ... and the last (Figure 9), as a record.

    Args:
        config: see :class:`LinkConfig`.
        profile: decides which table it is collected into.
    """
    return measured_once(
        EXPERIMENT,
        config,
        lambda: _measured(config),
        profile=profile,
        standard=is_standard(config, profile),
    )


def _measured(config: LinkConfig) -> tuple[list[Metric], dict[str, Any]]:
    # Six banks instead of one: half as many batches each.
    halved = config.model_copy(update={"batches": max(4, config.batches // 2)})
    rows: list[dict[str, Any]] = []
    images = training_images(config.encoder_run)
    for epoch, model in frozen_models(config.encoder_run, images).items():
        held_in, held_out = halves(link_choices(halved, model))
        design, held = (Design(half, ("identity", "shortfall")) for half in (held_in, held_out))
        h0, h1 = fit_link(design.only((0,))), fit_link(design)
        softmax = held.log_probability(np.array([h0.theta[0], 0.0]))
        gain = gain_test((held.log_probability(h1.theta) - softmax).mean(axis=1))
        blend = float(h1.blend[1])
        rows.append(
            {
                "epoch": epoch,
                # Winners of an untrained encoder may score no higher than chance.
                "blend": blend if math.isfinite(blend) else None,
                "gain": gain_json(gain),
            }
        )
    # Replicates of one metric are numbered by epoch; epoch 0 has not been trained and is left out.
    metrics = [Metric("gain_at_epoch", r["gain"]["mean"], replicate=r["epoch"]) for r in rows[1:]]
    trained = [m.value for m in metrics]
    metrics.append(Metric("least_gain_over_epochs", min(trained)))
    metrics.append(Metric("gain_last_over_first", trained[-1] - trained[0]))
    return metrics, {"epochs": rows}
