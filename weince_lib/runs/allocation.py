"""Gradient allocation on a frozen encoder as a record (paper C.2, Figure 6)."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from ..diagnostics.choice_bank import ChoiceBank, choices_of
from ..diagnostics.gradient_allocation import (
    COARSE,
    Allocation,
    allocate,
    distance_curve,
    draw_subsets,
    infonce,
    weibit,
    weince,
)
from ..diagnostics.link_fit import Design, fit_link
from ..losses import PRESETS
from ..records.store import Metric, Record
from .config import Positive, VisionConfig
from .on_encoder import OnEncoder, bank_of, measured_once
from .record_checks import by_profile

EXPERIMENT = "allocation"
#: Temperatures and tail indices tried; the winners' own temperature is fitted beside them.
TEMPERATURES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
BETAS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


class AllocationConfig(OnEncoder):
    """What is measured on which encoder; see :class:`.on_encoder.OnEncoder` for the rest.

    The seed is that of the sets of negatives too.

    Attributes:
        pairs: of the bank; twice as many views, about 1,536 in the paper.
        anchors: views that are anchors, evenly spread over the bank.
        sizes: numbers of negatives K.
        draws: sets of negatives per anchor and K.
    """

    pairs: Annotated[int, Field(ge=40)] = 768
    anchors: Annotated[int, Field(ge=8)] = 512
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)] = (64, 256, 1024)
    draws: Positive = 32

    @model_validator(mode="after")
    def _enough_negatives(self) -> Self:
        negatives, largest = 2 * self.pairs - 2, max(self.sizes)
        if largest > negatives:
            raise ValueError(
                f"pairs = {self.pairs} gives an anchor {negatives} negatives, and sets of "
                f"{largest} are drawn; take pairs = {largest // 2 + 1} or more"
            )
        return self

    @classmethod
    def of(cls, encoder_run: VisionConfig, profile: str) -> Self:
        """The profile's own measurement; ``quick`` has fewer anchors and draws."""
        return cls(
            encoder_run=encoder_run,
            anchors=by_profile(profile, quick=192, cpu=512),
            draws=by_profile(profile, quick=6, cpu=32),
        )

    @property
    def middle(self) -> int:
        """The K at which temperatures and tail indices are varied."""
        return self.sizes[len(self.sizes) // 2]


def allocation_config(encoder_run: VisionConfig, profile: str, **settings: Any) -> AllocationConfig:
    """:meth:`AllocationConfig.of` with some settings changed, see :meth:`.OnEncoder.changed`."""
    return AllocationConfig.of(encoder_run, profile).changed(settings)


def allocation_choices(config: AllocationConfig) -> ChoiceBank:
    """One large batch: chosen anchors, each with its positive and all other views as negatives.

    Raises:
        FileNotFoundError: if the encoder has not been trained yet.
    """
    bank = bank_of(config, batches=1, batch_size=config.pairs)
    rows = np.linspace(0, 2 * config.pairs, config.anchors, endpoint=False).astype(int)
    return ChoiceBank(choices_of(bank).scores[:, np.unique(rows)])


def allocations(config: AllocationConfig, choices: ChoiceBank) -> dict[int, Allocation]:
    """Risk and gradients for each K: InfoNCE, Weibit and WEINCE, and InfoNCE as fitted."""
    tau = config.encoder_run.temperature
    found = {}
    for size in config.sizes:
        subsets = draw_subsets(choices, size, config.draws, seed=config.seed)
        # The softmax that explains the winners of these very sets best: H0's temperature at K.
        scores = np.concatenate(
            [
                np.broadcast_to(subsets.positive[:, None, None], (*subsets.negatives.shape[:2], 1)),
                subsets.negatives,
            ],
            axis=-1,
        )
        fitted = fit_link(Design(ChoiceBank(scores), ("identity",)))
        losses = {"infonce": infonce(tau), "weibit": weibit()}
        if math.isfinite(fitted.temperature):  # winners score higher than chance
            losses |= {"infonce-fitted": infonce(fitted.temperature)}
        losses |= {
            "weince" if name == "paper" else f"weince-{name}": weince(settings, tau)
            for name, settings in PRESETS.items()
            if settings.tail_size(size) < size
        }
        found[size] = allocate(subsets, losses, fitted_temperature=fitted.temperature)
    return found


def run_allocation(config: AllocationConfig, *, profile: str) -> Record:
    """Measure risk and gradients on the run's encoder, or return the record that is there.

    ``profile`` decides which table it is collected into.
    """
    standard = config == AllocationConfig.of(config.encoder_run, profile)
    return measured_once(
        EXPERIMENT, config, lambda: _measured(config), profile=profile, standard=standard
    )


def _measured(config: AllocationConfig) -> tuple[list[Metric], dict[str, Any]]:
    choices = allocation_choices(config)
    metrics: list[Metric] = []
    details: dict[str, Any] = {"edges": COARSE.round(3).tolist(), "sizes": {}}
    for size, found in allocations(config, choices).items():
        metrics.append(Metric(f"lost_k{size}", found.lost))
        if "infonce-fitted" in found.gradient:
            metrics.append(Metric(f"temperature_fitted_k{size}", found.fitted_temperature))
        for loss in found.gradient:
            name = f"{loss.replace('-', '_')}_k{size}"
            for short, measure in (("tv", "total variation"), ("w1", "wasserstein")):
                distance = found.distance(loss, measure)  # type: ignore[arg-type]
                metrics.append(Metric.of(f"{short}_{name}", distance))
            metrics.append(Metric(f"below_risk_{name}", found.below_risk(loss)))
        for name, other in (("infonce", "infonce"), ("fitted", "infonce-fitted")):
            if other in found.gradient:
                nearer = found.distance("weibit", over=other)
                metrics.append(Metric.of(f"weibit_nearer_than_{name}_k{size}", nearer))
        details["sizes"][str(size)] = {
            name: values.round(6).tolist() for name, values in found.shares().items()
        }
    subsets = draw_subsets(choices, config.middle, config.draws, seed=config.seed)
    details["curves"] = {
        "infonce": [TEMPERATURES, distance_curve(subsets, infonce, TEMPERATURES)],
        "weibit": [BETAS, distance_curve(subsets, weibit, BETAS)],
    }
    for loss, (values, distances) in details["curves"].items():
        best = int(np.argmin(distances))
        metrics.append(Metric(f"best_setting_{loss}_k{config.middle}", values[best]))
        metrics.append(Metric(f"best_tv_{loss}_k{config.middle}", distances[best]))
    return metrics, details
