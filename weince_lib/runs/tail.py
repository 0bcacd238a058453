"""The tail of a frozen encoder as a record: peaks over threshold and known endpoint (Figure 3)."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from ..diagnostics import ScoreBank
from ..evt import (
    GPDFit,
    KnownEndpointFit,
    fit_endpoint,
    fit_gpd,
    fit_known_endpoint,
    held_out_misses,
)
from ..losses import PRESETS, TailSettings, tail_evidence
from ..records.store import Metric, Record
from .config import Positive, VisionConfig
from .on_encoder import OnEncoder, bank_of, measured_once

EXPERIMENT = "tail"


class TailConfig(OnEncoder):
    """What is measured on which encoder; see :class:`.on_encoder.OnEncoder` for the rest.

    Attributes:
        batches: batches in the bank; 32 in the paper.
        batch_size: pairs per batch; 256 in the paper.
        quantile: of the negatives, the threshold; 0.99 in the paper's Figure 3.
        presets: whose mean blend weight is recorded; the library's.
    """

    batches: Positive = 32
    batch_size: Annotated[int, Field(ge=2)] = 256
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.99
    presets: dict[str, TailSettings] = Field(default_factory=lambda: dict(PRESETS))

    @classmethod
    def of(cls, encoder_run: VisionConfig) -> Self:
        """The standard measurement of an encoder: batches of the size it was trained with."""
        return cls(encoder_run=encoder_run, batch_size=encoder_run.batch_size)


def tail_config(encoder_run: VisionConfig, **settings: Any) -> TailConfig:
    """:meth:`TailConfig.of` with some settings changed, see :meth:`.OnEncoder.changed`."""
    return TailConfig.of(encoder_run).changed(settings)


def score_bank(config: TailConfig) -> ScoreBank:
    """The bank of the run's frozen encoder, with the augmentation it was trained with.

    Raises:
        FileNotFoundError: if the encoder has not been trained yet.
    """
    return bank_of(config, batches=config.batches, batch_size=config.batch_size)


def run_tail(config: TailConfig, bank: ScoreBank | None = None, *, profile: str) -> Record:
    """Fit the tail of a bank and record it, or return the record that is there.

    Args:
        config: see :class:`TailConfig`.
        bank: what :func:`score_bank` made from it; by default made here if it is needed.
        profile: decides which table it is collected into.
    """
    return measured_once(
        EXPERIMENT, config, lambda: _fitted(config, bank or score_bank(config)), profile=profile
    )


def tail_shapes(
    values: np.ndarray, quantile: float, ending: str = ""
) -> tuple[list[Metric], KnownEndpointFit, GPDFit]:
    """Shapes of a tail with the endpoint known and with it fitted, and the two fits.

    A fit without maximum-likelihood estimate has no shape.

    Args:
        values: scores of negatives, shape ``(n,)``.
        quantile: of them, the threshold.
        ending: of the metrics' names.
    """
    known, fit = fit_known_endpoint(values, quantile=quantile), fit_gpd(values, quantile=quantile)
    name = f"known_endpoint_shape{ending}"
    metrics = [Metric(name, known.shape, low=known.shape_low, high=known.shape_high)]
    if fit.regime != "unbounded":
        name = f"gpd_shape{ending}"
        metrics.append(Metric(name, fit.shape, low=fit.shape_low, high=fit.shape_high))
    return metrics, known, fit


def _fitted(config: TailConfig, bank: ScoreBank) -> tuple[list[Metric], dict[str, Any]]:
    values = bank.negatives().numpy().astype(np.float64)
    shapes, known, fit = tail_shapes(values, config.quantile)
    metrics = [Metric("threshold", known.threshold), Metric("exceedances", known.exceedances)]
    metrics += [*shapes, *_against_exponential(bank, values, config.quantile)]
    for name, preset in config.presets.items():
        lam = [tail_evidence(s, bank.positives, preset).lam.mean().item() for s in bank.scores]
        metrics.append(Metric(f"mean_lambda_{name}", float(np.mean(lam))))
    return metrics, {"regime": fit.regime, "note": fit.note, "pairs": int(values.size)}


def _against_exponential(bank: ScoreBank, values: np.ndarray, quantile: float) -> list[Metric]:
    """What sets a tail with an endpoint apart from an exponential one (paper, Figure 3).

    The endpoint of the free fit minus the cap at cosine 1; the share of the exceedances that the
    exponential fit puts above the cap; and how many times as far as the generalised Pareto law the
    exponential law is from the quantiles of every second batch, fitted to the others. A fit without
    maximum-likelihood estimate has neither endpoint nor distance.
    """
    free = fit_endpoint(values, quantile=quantile)
    mean_excess = values[values > free.threshold].mean() - free.threshold
    share = float(np.exp(-(1 - free.threshold) / mean_excess))
    metrics = [Metric("exponential_share_above_cap", share)]
    if free.regime == "unbounded":
        return metrics
    metrics.append(Metric("endpoint_minus_cap", free.endpoint - 1))
    of_batch = values.reshape(len(bank.scores), -1)
    pareto, exponential = held_out_misses(
        of_batch[::2].ravel(), of_batch[1::2].ravel(), quantile=quantile
    )
    if pareto > 0:
        metrics.append(Metric("quantile_miss_ratio", exponential / pareto))
    return metrics
