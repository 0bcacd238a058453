"""Tails, links and gradients of the encoders that a study of images has trained.

Each encoder is measured on images that its training left out, in batches that share no image, with
the encoder's own seed for the bank. So an interval over encoder seeds holds the spread of encoders
and of banks.
"""

from __future__ import annotations

from ..losses import PRESETS
from ..records import store
from ..records.store import Record
from ..runs import allocation, link, tail
from ..runs.allocation import AllocationConfig, run_allocation
from ..runs.config import VisionConfig, parse
from ..runs.link import LinkConfig, run_link
from ..runs.on_encoder import OnEncoder
from ..runs.tail import TailConfig, run_tail
from ..runs.vision import EXPERIMENT as TRAINED
from .study_types import Run

#: What records of these measurements are filed under.
EXPERIMENTS = (tail.EXPERIMENT, link.EXPERIMENT, allocation.EXPERIMENT)
#: Batches of a bank, those of the paper.
BATCHES = 32


def evidence_configs(run: VisionConfig) -> tuple[TailConfig, LinkConfig, AllocationConfig]:
    """The measurements of one encoder, by the paper's sizes."""
    common = {"encoder_run": run, "images": "unseen", "seed": run.seed}
    own = {"batches": BATCHES, "batch_size": run.batch_size}
    return (
        parse(TailConfig, common | own | {"presets": dict(PRESETS)}),
        # Every fourth view is an anchor: 4,096 of them, enough for intervals over 32 batches.
        parse(LinkConfig, common | own | {"every": 4}),
        parse(AllocationConfig, common),
    )


def measure_run(run: VisionConfig, *, profile: str) -> list[Record]:
    """Measure one finished run's encoder, or find the records that are there.

    Raises:
        ConfigError: if the run trained on all images, so that none is unseen.
        FileNotFoundError: if its weights are gone.
        StaleRecordError: if its data set has other images now.
    """
    tails, links, gradients = evidence_configs(run)
    return [
        run_tail(tails, profile=profile),
        run_link(links, profile=profile),
        run_allocation(gradients, profile=profile),
    ]


def study_evidence(
    runs: list[Run], *, profile: str, device: str | None = None
) -> tuple[list[Record], list[Run]]:
    """Measure the finished runs among some of a study.

    Args:
        runs: see :func:`.sweep.evidence_runs`.
        profile: of the study.
        device: of sentence encoders; images are scored on the CPU.

    Returns:
        The records, those that were there among them, and the runs that are not finished.
    """
    records: list[Record] = []
    missing: list[Run] = []
    for run in runs:
        assert isinstance(run.config, VisionConfig)
        if store.find(TRAINED, run.config.canonical()) is None:
            missing.append(run)
        else:
            records += measure_run(run.config, profile=profile)
    return records, missing


def evidence_of(runs: list[Run]) -> list[tuple[Record, str]]:
    """Finished evidence records of a study's runs, each with the label of its run's setting."""
    found = []
    for run in runs:
        assert isinstance(run.config, VisionConfig)
        configs: tuple[OnEncoder, ...] = evidence_configs(run.config)
        for experiment, config in zip(EXPERIMENTS, configs, strict=True):
            record = store.find(experiment, config.canonical())
            if record is not None:
                found.append((record, run.setting))
    return found
