"""Tails of the encoders that a study has trained, and of images also links and gradients.

An encoder of images is measured on images that its training left out, in batches that share no
image, with the encoder's own seed for the bank. So an interval over encoder seeds holds the spread
of encoders and of banks. Encoders of sentences are measured along their training, see
:mod:`.text_evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..losses import PRESETS
from ..records import store
from ..records.store import Record
from ..runs import allocation, link, tail
from ..runs.allocation import AllocationConfig, run_allocation
from ..runs.config import ConfigError, VisionConfig, parse
from ..runs.link import LinkConfig, run_link
from ..runs.on_encoder import OnEncoder
from ..runs.tail import TailConfig, run_tail
from .study_types import Run, Study

#: What the measurements of images are filed under, in the order of :func:`evidence_configs`.
EXPERIMENTS = (tail.EXPERIMENT, link.EXPERIMENT, allocation.EXPERIMENT)
#: Methods of a study whose encoders are measured, as far as it has them: the paper's two, and the
#: tuned InfoNCE of a decision.
METHODS = ("infonce", "weince", "infonce-0.5", "infonce-tuned", "weince-0.5")
#: Batches of a bank, those of the paper.
BATCHES = 32


def evidence_runs(chosen: Study, seeds: Sequence[int] = ()) -> list[Run]:
    """The runs of a study whose encoders are measured.

    Args:
        chosen: the study.
        seeds: some of the study's; none for all.

    Raises:
        ConfigError: for a seed that the study does not have.
    """
    for seed in seeds:
        if seed not in chosen.seeds:
            known = ", ".join(map(str, chosen.seeds))
            raise ConfigError(f"study {chosen.name} has no seed {seed}; it has {known}")
    wanted = set(seeds or chosen.seeds)
    methods = [chosen.methods.get(name, ()) for name in METHODS]
    labels = {settings[0].label for settings in methods if len(settings) == 1}
    return [run for run in chosen.runs() if run.setting in labels and run.seed in wanted]


def evidence_configs(run: VisionConfig) -> tuple[TailConfig, LinkConfig, AllocationConfig]:
    """The measurements of one encoder of images, by the paper's sizes."""
    common = {"encoder_run": run, "images": "unseen", "seed": run.seed}
    own = {"batches": BATCHES, "batch_size": run.batch_size}
    return (
        parse(TailConfig, common | own | {"presets": dict(PRESETS)}),
        # Every fourth view is an anchor: 4,096 of them, enough for intervals over 32 batches.
        parse(LinkConfig, common | own | {"every": 4}),
        parse(AllocationConfig, common),
    )


def measure_run(run: VisionConfig, *, profile: str) -> None:
    """Measure one finished run's encoder of images; records that are there are kept.

    Raises:
        ConfigError: if the run trained on all images, so that none is unseen.
        FileNotFoundError: if its weights are gone.
        StaleRecordError: if its data set has other images now.
    """
    tails, links, gradients = evidence_configs(run)
    run_tail(tails, profile=profile)
    run_link(links, profile=profile)
    run_allocation(gradients, profile=profile)


def measure_study(chosen: Study, seeds: Sequence[int] = (), device: str | None = None) -> list[Run]:
    """Make the evidence records of a study's finished runs, those that are not there yet.

    Args:
        chosen: the study.
        seeds: see :func:`evidence_runs`.
        device: of sentence encoders; default a CUDA device if there is one, else the CPU. Images
            are scored on the CPU.

    Returns:
        The runs left out since they are not finished.

    Raises:
        ConfigError: see :func:`evidence_runs` and :func:`measure_run`.
        FileNotFoundError: for a finished run whose weights are gone.
    """
    missing: list[Run] = []
    for run in evidence_runs(chosen, seeds):
        if store.find(chosen.experiment, run.config.canonical()) is None:
            missing.append(run)
        elif isinstance(run.config, VisionConfig):
            measure_run(run.config, profile=chosen.profile)
        else:
            from . import text_evidence  # its packages are needed by sentences only

            text_evidence.run_text_evidence(run.config, profile=chosen.profile, device=device)
    if chosen.experiment == "text":
        from . import text_evidence

        text_evidence.measure_ready_made(profile=chosen.profile, device=device)
    return missing


def evidence_of(chosen: Study) -> list[tuple[Record, str]]:
    """Finished evidence records of a study, each with the label of its run's setting.

    A study of sentences also has those of the ready-made encoder, under ``"ready-made"``.
    """
    found: list[tuple[Record | None, str]] = []
    for run in evidence_runs(chosen):
        if isinstance(run.config, VisionConfig):
            configs: tuple[OnEncoder, ...] = evidence_configs(run.config)
            for experiment, config in zip(EXPERIMENTS, configs, strict=True):
                found.append((store.find(experiment, config.canonical()), run.setting))
    if chosen.experiment == "text":
        from . import text_evidence

        found += text_evidence.evidence_of(evidence_runs(chosen))
    return [(record, setting) for record, setting in found if record is not None]
