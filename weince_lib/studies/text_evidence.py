"""The tail of a sentence encoder along its training, as records: POT and link selection.

The claim that the correction is not specific to images is tested here where it is made: on a
sentence encoder, at the start, in the middle and at the end of training.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from .. import paths
from ..diagnostics.link_selection import select_link
from ..losses import PRESETS
from ..records import store
from ..records.store import Metric, Record
from ..runs.config import Positive
from ..runs.tail import tail_shapes
from ..runs.text import (
    TextData,
    build_text_model,
    check_current_text,
    load_text,
    models_along_text,
)
from ..runs.text_config import TextConfig, text_config, text_labels
from ..text.banks import DropoutBank, dropout_bank
from ..text.simcse import SimCSE
from ..training.processes import own_device
from .study_types import Run

EXPERIMENT = "text-evidence"
#: Share of training done at each stage.
STAGES = {"start": 0.0, "middle": 0.5, "end": 1.0}
#: Thresholds of the peaks; 0.99 is the paper's.
QUANTILES = (0.95, 0.98, 0.99)


class TextEvidenceConfig(BaseModel):
    """What is measured on which encoder.

    Attributes:
        run: the run whose weights are frozen.
        stage: ``"start"``, ``"middle"`` or ``"end"`` of its training.
        batches: 32 in the paper.
        batch_size: sentences per batch; 256 in the paper.
        seed: of the bank.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    run: TextConfig
    stage: Literal["start", "middle", "end"]
    batches: Annotated[int, Field(ge=4)] = 32
    batch_size: Annotated[int, Field(ge=8)] = 256
    seed: Annotated[int, Field(ge=0)] = 0

    def canonical(self) -> dict[str, Any]:
        """JSON values for the record's key."""
        return self.model_dump(mode="json") | {"run": self.run.canonical()}


def ready_made(batches: Positive = 16) -> TextEvidenceConfig:
    """all-MiniLM-L6-v2 as it comes, with its own dropout and mean pooling, on WordNet's glosses."""
    run = text_config("cpu", encoder="transformer", pooling="mean", token_dropout=0.0)
    run = run.model_copy(update={"loss": "infonce", "tail": None})
    return TextEvidenceConfig(run=run, stage="start", batches=batches)


def run_text_evidence(
    run: TextConfig,
    *,
    profile: str,
    stages: tuple[str, ...] = tuple(STAGES),
    device: torch.device | str | None = None,
    **settings: Any,
) -> list[Record]:
    """Measure an encoder at stages of its training, or return the records that are there.

    Args:
        run: which has been made with :func:`.text.run_text`; for the start alone it need not.
        profile: decides which table the records are collected into.
        stages: names in :data:`STAGES`.
        device: where to embed; default a CUDA device if there is one, else the CPU.
        settings: further fields of :class:`TextEvidenceConfig`.

    Returns:
        One record a stage. Metrics: ``stage``; ``gpd_shape_q99`` and ``known_endpoint_shape_q99``
        (and for 0.95 and 0.98) with their intervals; ``rho_median`` and ``beta_hill_median`` over
        anchors; ``mean_lambda_<preset>``; ``lambda_hat``, ``held_out_gain`` and ``p_t`` of link
        selection.

    Raises:
        FileNotFoundError: if weights are needed and the run has not been finished.
    """
    on = own_device(device)

    @cache
    def prepared() -> tuple[TextData, dict[str, SimCSE]]:
        """Sentences and models, once for all stages that are missing."""
        data = load_text(run)
        if trained := store.find("text", run.canonical()):
            check_current_text(trained, run)
        if set(stages) == {"start"}:
            return data, {"start": build_text_model(run, data).to(on)}
        return data, models_along_text(run, data, on)

    def of_stage(config: TextEvidenceConfig) -> Record:
        def found() -> Record | None:
            done = store.find(EXPERIMENT, config.canonical())
            return check_current_text(done, run) if done else None

        def measure() -> tuple[list[Metric], dict[str, Any]]:
            data, models = prepared()
            size = {"batches": config.batches, "batch_size": config.batch_size}
            bank = dropout_bank(models[config.stage], data.corpus, **size, seed=config.seed)
            metrics, details = measure_evidence(bank, seed=config.seed)
            own = {"stage": config.stage, "weights": data.weights}
            hashes = {"data": {"corpus": data.corpus_hash}}
            return [Metric("stage", STAGES[config.stage]), *metrics], details | own | hashes

        labels = text_labels(run, profile)
        return store.once(EXPERIMENT, config.canonical(), measure, labels=labels, found=found)

    return [of_stage(TextEvidenceConfig(run=run, stage=s, **settings)) for s in stages]  # type: ignore[arg-type]


def measure_evidence(bank: DropoutBank, *, seed: int = 0) -> tuple[list[Metric], dict[str, Any]]:
    """Peaks over threshold, tail evidence and link selection of a bank.

    Link selection is left out where every positive is first. A shape without maximum-likelihood
    estimate and a blend that is not finite are left out, too; the details say so.
    """
    values = bank.negatives()
    metrics: list[Metric] = []
    notes: dict[str, Any] = {}
    for quantile in QUANTILES:
        name = f"q{100 * quantile:g}"
        shapes, known, fit = tail_shapes(values, quantile, f"_{name}")
        metrics += shapes
        notes[name] = {"regime": fit.regime, "threshold": known.threshold, "note": fit.note}
    for name, settings in PRESETS.items():
        evidence = bank.evidence(settings)
        metrics.append(Metric(f"mean_lambda_{name}", float(evidence.lam.mean())))
        if name == "calibrated":
            metrics.append(Metric("rho_median", float(evidence.rho.median())))
            metrics.append(Metric("beta_hill_median", float(evidence.beta.median())))
    choices = bank.choices()
    right = float(np.mean(choices.scores[..., 0] >= choices.scores[..., 1:].max(-1)))
    metrics.append(Metric("positive_first", 100 * right))
    try:
        selection = select_link(choices, seed=seed)
    except ValueError as error:
        # Where every positive is first, no choice tells one link from another.
        return metrics, {"peaks": notes, "link": str(error), "pairs": int(values.size)}
    metrics += [
        Metric("lambda_hat", selection.h1.value, low=selection.h1.low, high=selection.h1.high),
        Metric.of("held_out_gain", selection.gain.interval),
        Metric("p_t", selection.gain.p_t),
        Metric("temperature_softmax", selection.h0.temperature),
    ]
    kept = [m for m in metrics if math.isfinite(m.value)]
    gone = [m.name for m in metrics if not math.isfinite(m.value)]
    return kept, {"peaks": notes, "link": "", "not_finite": gone, "pairs": int(values.size)}


def measure_ready_made(*, profile: str, device: str | None = None) -> None:
    """Measure the ready-made encoder; a record that is there is kept."""
    config = ready_made()
    run_text_evidence(
        config.run, profile=profile, stages=(config.stage,), device=device, batches=config.batches
    )


def evidence_of(runs: list[Run]) -> list[tuple[Record, str]]:
    """Finished evidence records of a study's runs and of the ready-made encoder.

    Returns:
        Each record with its setting, ``"ready-made"`` for the encoder that was not trained.
    """
    settings = {run.key: run.setting for run in runs}
    public = store.content_key(EXPERIMENT, ready_made().canonical())
    found = []
    for path in sorted((paths.runs() / EXPERIMENT).glob("*/record.json")):
        record = store.read(path)
        setting = settings.get(store.content_key("text", record.config["run"]))
        setting = "ready-made" if record.key == public else setting
        if setting is not None:
            found.append((record, setting))
    return found
