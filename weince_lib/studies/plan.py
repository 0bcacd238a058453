"""What a study will cost before anything starts: runs, hours from a measured step, disk."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import Literal, cast

from .. import paths
from ..runs.config import ConfigError, VisionConfig
from ..runs.frozen import features_bytes
from ..runs.text_config import TextConfig
from ..runs.vision import build_model, snapshot_epochs
from ..vision.datasets import Shape
from .grid import Study
from .step_time import RECORD_BYTES, Measured, measure, random_images, shape_of
from .sweep import State, states


@dataclass(frozen=True)
class Plan:
    """The cost of a study.

    Attributes:
        study: the study.
        states: every run with what has become of it.
        steps: training steps of a run.
        measured: what they were timed with.
        run_bytes: disk a run takes: checkpoint, weights along training, features, record.
        free_bytes: free on the disk that ``runs/`` lies on.
    """

    study: Study
    states: list[State]
    steps: int
    measured: Measured
    run_bytes: int
    free_bytes: int

    @property
    def counts(self) -> Counter[str]:
        """Number of runs by stage."""
        return Counter(state.stage for state in self.states)

    @property
    def remaining(self) -> int:
        """Runs that are not done; one that has begun is counted whole."""
        return len(self.states) - self.counts["done"]

    @property
    def run_hours(self) -> float:
        """Device- or core-hours of one run."""
        return self.measured.hours(self.steps)

    def lines(self) -> list[str]:
        """The plan in words, with the reason of each failure."""
        m, counts, first = self.measured, self.counts, self.states[0].run.config
        settings = len(self.study.all_settings())
        scaled = "" if m.pairs == first.batch_size else f", scaled from a batch of {m.pairs}"
        source = f"on {m.device} (measured{scaled})" if m.device else "(given)"
        done = ", ".join(f"{counts[s]} {s}" for s in ("done", "begun", "failed", "to do"))
        left = self.remaining * self.run_bytes
        short = "; NOT ENOUGH" if left > self.free_bytes else ""
        found = [
            f"study   {self.study.name}: {self.study.question}",
            f"runs    {len(self.states)} ({settings} settings x {len(self.study.seeds)} encoder "
            f"seeds): {done}",
            f"step    {1000 * m.step_seconds:,.1f} ms for {first.batch_size} pairs {source}",
            f"a run   {first.epochs} epochs, {self.steps:,} steps: {self.run_hours:.2f} "
            f"{m.kind}-hours, {m.evaluation_seconds / 3600:.2f} of them evaluation",
            f"to do   {self.remaining} runs: {self.remaining * self.run_hours:,.1f} {m.kind}-hours",
            f"disk    {left / 1e9:,.2f} GB to do ({self.run_bytes / 1e6:,.1f} MB a run), "
            f"{self.free_bytes / 1e9:,.1f} GB free{short}",
        ]
        if self.study.gpus and m.kind == "core":
            found.append(
                "note    made for GPUs and none is here: run this where they are, or give the "
                "time of a step there with --step-ms"
            )
        return found + [f"failed  {s.run.key} {s.reason}" for s in self.states if s.reason]


def plan(chosen: Study, *, step_seconds: float | None = None) -> Plan:
    """Work out what is left of a study and what it costs; nothing is trained for good.

    Args:
        chosen: the study.
        step_seconds: of a step on the machine it will run on; measured here, with the evaluation,
            by default. A given one leaves evaluation out of the hours.

    Raises:
        ConfigError: for settings that make no run here, a data set of unknown size, or a step time
            that is not positive.
    """
    if step_seconds is not None and not 0 < step_seconds < math.inf:
        raise ConfigError(f"a step takes a positive time, not {step_seconds} s")
    found = states(chosen)
    config = next((s.run.config for s in found if s.run.config.loss == "weince"), None)
    config = config or found[0].run.config  # WEINCE's step is the longer one
    given = None
    if step_seconds is not None:
        kind: Literal["core", "gpu"] = "gpu" if chosen.gpus else "core"
        given = Measured(step_seconds, 0.0, config.batch_size, kind, "")
    if isinstance(config, TextConfig):
        from . import text_plan  # its packages are needed by these studies only

        measured = given or text_plan.measure(config, cores=chosen.cores)
        items, disk = text_plan.sentences(config), text_plan.run_bytes(config)
    else:
        shape = shape_of(config)
        measured = given or measure(config, shape, cores=chosen.cores)
        items, disk = shape.pretraining, run_bytes(config, shape)
    home = paths.runs()
    home.mkdir(parents=True, exist_ok=True)
    return Plan(
        study=chosen,
        states=found,
        steps=config.epochs * (items // config.batch_size),
        measured=measured,
        run_bytes=disk,
        free_bytes=shutil.disk_usage(home).free,
    )


def run_bytes(config: VisionConfig, shape: Shape) -> int:
    """Disk of one run.

    Weights and Adam's two moments, the weights kept after epochs 1, 2, 4, ..., kept features, the
    record.
    """
    model = build_model(config, random_images(shape, 1))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    width = cast(int, model.encoder.feature_dim)
    features = features_bytes(shape.labelled, width) + features_bytes(shape.test, width)
    kept = len(snapshot_epochs(config.epochs)) * (weights + buffers)
    return 3 * weights + buffers + kept + features + RECORD_BYTES
