"""A study's runs one by one, what has become of them, and their table.

    python -m weince_lib.studies.sweep run STUDY KEY
    python -m weince_lib.studies.sweep collect STUDY [--partial]
    python -m weince_lib.studies.sweep evidence STUDY [--seed N ...] [--device DEVICE]
    python -m weince_lib.studies.sweep work STUDY [STUDY ...] [--hours H] [--evidence]
    python -m weince_lib.studies.sweep register STUDY
    python -m weince_lib.studies.sweep choose cpu-cifar|cpu-beyond|cpu-beyond-fashion
    python -m weince_lib.studies.sweep gate cpu-beyond|cpu-beyond-fashion
    python -m weince_lib.studies.sweep floors STUDY [--kind KIND ...] [--device DEVICE]

``weince study`` is the same command. The pipeline (``sweep.smk``) calls the first for every run
and the second when all are there. A run that exists is found, not repeated; one that was cut off
continues from its checkpoint. The third measures the tails of a study's finished encoders (of
sentence encoders along their training); ``collect`` then adds what it found to the table. ``work``
makes the runs of studies one after the other and keeps their tables up to date; several workers
share the runs. ``register`` fixes a study's definition before its first run. ``choose`` writes
what a screening's or a gate's validation chooses; ``gate`` prints a gate's table and verdicts, see
:mod:`.grid_beyond`. ``floors`` puts raw pixels, untrained and
supervised encoders beside a study's, see :mod:`.floors`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from .. import files, paths
from ..errors import SHOWN, one_line
from ..records import record_lines, store
from ..records.store import Record
from ..runs.config import ConfigError, VisionConfig
from ..runs.fastest import layouts
from ..runs.text_config import TextConfig
from ..runs.vision import run_vision
from ..training.stopping import sigterm_interrupts
from ..vision import Execution
from ..vision.datasets import cifar10_jpeg
from . import collect, grid_beyond, grid_cifar, registered, study_evidence
from .grid import Run, Study, study

#: Columns of a study's table: those of every results table, with the run's setting.
COLUMNS = ("setting", *collect.COLUMNS)
#: Exit status after a stop from outside: try again (``EX_TEMPFAIL``).
STOPPED = 75


@dataclass(frozen=True)
class State:
    """What has become of a run.

    Attributes:
        run: the run.
        stage: ``"done"`` if its record is here or its rows are in the study's table, ``"failed"``
            at its last try, ``"begun"`` if it has a checkpoint to continue from, or ``"to do"``.
        reason: of a failure, in one line.
    """

    run: Run
    stage: str
    reason: str = ""


def execution(config: VisionConfig) -> Execution:
    """How a study carries out a run.

    A run whose precision is ``"fastest"`` chooses its memory format by itself, see
    :mod:`.fastest`. The small ResNet is trained with ``channels_last`` on a CPU too where that is
    safe: it made a step 1.7 times as fast at width 16.
    """
    small = config.precision != "fastest" and config.width > 0
    return Execution(channels_last=True if small and True in layouts(config) else None)


def folder(name: str) -> Path:
    """Where a study's marks lie, ``runs/studies/<name>``; its records are with all others."""
    return paths.runs() / "studies" / name


def mark(name: str, key: str) -> Path:
    """The file that says a run is done; the pipeline's output, so that records are none of it."""
    return folder(name) / f"{key}.done"


def failure(name: str, key: str) -> Path:
    """The file that holds why a run failed at its last try."""
    return folder(name) / f"{key}.failed"


def table_path(name: str) -> Path:
    """``paper/results/studies/<name>.csv``."""
    return paths.results() / "studies" / f"{name}.csv"


def run_one(name: str, key: str) -> Record:
    """Make one run of a study, or find its record; note a failure beside its mark.

    Args:
        name: of the study.
        key: of the run, see :meth:`~.grid.Study.runs`.

    Raises:
        ConfigError: for an unknown study or run.
        Exception: whatever stopped the run, after its reason has been noted.
    """
    chosen = study(name)
    registered.check(chosen)
    run = chosen.run(key)
    if not isinstance(run.config, TextConfig) and run.config.dataset == cifar10_jpeg.NAME:
        cifar10_jpeg.check(paths.data() / cifar10_jpeg.FOLDER)
    try:
        if isinstance(run.config, TextConfig):
            from ..runs.text import run_text  # its packages are needed by these runs only

            record = run_text(run.config, profile=chosen.profile)
        else:
            record = run_vision(run.config, profile=chosen.profile, execution=execution(run.config))
    except Exception as error:  # an interrupt is no failure of the run
        why = " ".join(str(error).split()) or "no reason given"
        text = f"{run.setting}, seed {run.seed}: {type(error).__name__}: {why}\n"
        files.write_text(failure(name, key), text)
        raise
    failure(name, key).unlink(missing_ok=True)
    files.write_text(
        mark(name, key), f"{run.setting}, seed {run.seed}: {chosen.experiment}/{key}\n"
    )
    return record


def work(names: Sequence[str], hours: float = math.inf, *, evidence: bool = False) -> int:
    """Make the missing runs of studies one after the other, and keep their tables up to date.

    Several workers, on one machine, may work on the same studies: a run that another worker has
    begun is left to it. A run that stands in the study's table already, as when the table was
    committed and the record lies on another machine, is not made again. A run that fails is noted
    and the next one is begun.

    Args:
        names: of the studies, in the order in which their runs are made.
        hours: no further run is begun after so many.
        evidence: measure the tail of each encoder of :func:`evidence_runs` right after its run,
            while its weights are there.

    Returns:
        The number of runs that failed.
    """
    end = time.monotonic() + 3600 * hours
    failed = 0
    for name in names:
        chosen = study(name)
        registered.check(chosen)
        measured = {run.key for run in evidence_runs(chosen)} if evidence else set()
        collected = set(load_study(name)["key"])
        folder(name).mkdir(parents=True, exist_ok=True)
        for run in chosen.runs():
            if time.monotonic() > end:
                return failed
            if _state(chosen, run, collected).stage == "done":
                continue
            held = FileLock(folder(name) / f"{run.key}.worker")
            try:
                with held.acquire(blocking=False):
                    try:
                        run_one(name, run.key)
                        if run.key in measured and isinstance(run.config, VisionConfig):
                            study_evidence.measure_run(run.config, profile=chosen.profile)
                    except Exception as error:  # the other runs do not depend on this one
                        failed += 1
                        sys.stderr.write(f"{run.setting}, seed {run.seed}: {one_line(error)}\n")
            except Timeout:  # another worker has it
                continue
            if _state(chosen, run, collected).stage == "done":
                with files.locked(folder(name) / "table.lock"):
                    collect_study(chosen, partial=True)
    return failed


def choose(name: str = grid_cifar.SCREENING.name) -> Path:
    """Write what the validation of a screening or a gate chooses.

    Args:
        name: of the screening on CIFAR-10, which chooses a temperature for each loss, or of a gate
            of :data:`.grid_beyond.GATES`, which chooses temperatures and the bets that pass.

    Raises:
        ConfigError: if runs are missing, or for a study that chooses nothing.
    """
    if name in grid_beyond.GATES:
        path = paths.results() / "studies" / grid_beyond.chosen_file(name)
        files.write_text(path, grid_beyond.chosen_text(gate(name)))
        return path
    if name != grid_cifar.SCREENING.name:
        known = ", ".join((grid_cifar.SCREENING.name, *grid_beyond.GATES))
        raise ConfigError(f"study {name} chooses nothing; these do: {known}")
    found = grid_cifar.chosen(load_study(grid_cifar.SCREENING.name))
    target = paths.results() / "studies" / grid_cifar.CHOSEN_FILE
    lines = [f"{loss} = {tau!r}" for loss, tau in found.items()]
    head = (
        "# Temperatures that validation chooses (`sweep choose cpu-cifar`); not edited by hand.\n"
    )
    files.write_text(target, head + "\n".join(lines) + "\n")
    return target


def gate(name: str) -> grid_beyond.Gate:
    """What a gate says, from its study's table.

    Raises:
        ConfigError: if runs are missing, or for a study that is no gate.
    """
    if name not in grid_beyond.GATES:
        raise ConfigError(f"study {name} is no gate; these are: {', '.join(grid_beyond.GATES)}")
    return grid_beyond.gate(study(name), load_study(name))


def states(chosen: Study) -> list[State]:
    """Every run of a study with what has become of it, from the files that are there."""
    collected = set(load_study(chosen.name)["key"])
    return [_state(chosen, run, collected) for run in chosen.runs()]


def _state(chosen: Study, run: Run, collected: Collection[str]) -> State:
    """What has become of a run; ``collected`` are the keys in the study's table."""
    name, home = chosen.name, store.run_folder(chosen.experiment, run.key)
    if run.key in collected or (home / "record.json").exists():
        return State(run, "done")
    if failure(name, run.key).exists():
        return State(run, "failed", failure(name, run.key).read_text(encoding="utf-8").strip())
    return State(run, "begun" if any(home.glob("checkpoint.*")) else "to do")


def rows(record: Record, setting: str) -> list[dict[str, object]]:
    """The tidy rows of one run, its wall time among them."""
    found = [row | {"setting": setting} for row in collect.rows(record)]
    spent = {"metric": "wall_seconds", "split": "", "replicate": 0, "value": record.wall_seconds}
    nothing = {"low": float("nan"), "high": float("nan")}
    return [*found, found[0] | spent | nothing] if found else []


def collect_study(chosen: Study, *, partial: bool = False) -> tuple[Path, list[Run]]:
    """Write a study's table from its records, and their lines beside it.

    Rows, and lines, of runs that the study still has are kept if their records lie elsewhere, such
    as those of a committed table.

    Args:
        chosen: the study.
        partial: write what there is, although runs are missing.

    Returns:
        The table, and the runs that are missing.

    Raises:
        FileNotFoundError: if no run is there, or some are missing and ``partial`` is false; the
            message counts them and names the first.
        RecordError: for a record, or a line of the table's file of lines, that cannot be read.
    """
    lines: dict[str, str] = {}
    found: list[dict[str, object]] = []
    missing: list[Run] = []
    before = load_study(chosen.name)
    kept: list[pd.DataFrame] = []
    runs = chosen.runs()
    for run in runs:
        old = before[before["key"] == run.key]
        path = store.run_folder(chosen.experiment, run.key) / "record.json"
        if path.exists():
            record = store.read(path)
            found += rows(record, run.setting)
            lines[record.key] = record_lines.record_line(record)
        elif len(old):
            kept.append(old)
        else:
            missing.append(run)
    extra, more, others = _evidence(chosen, before)
    found += extra
    lines |= more
    kept += others
    if missing and (not partial or len(missing) == len(runs)):
        first = missing[0]
        raise FileNotFoundError(
            f"study {chosen.name}: {len(missing)} of {len(runs)} runs are missing, the first is "
            f"{first.setting}, seed {first.seed}; see `weince plan {chosen.name}`"
        )
    frame = pd.concat([pd.DataFrame(found, columns=list(COLUMNS)), *kept])
    frame = frame.sort_values(["seed", "key", "metric", "split", "replicate"], kind="stable")
    target = table_path(chosen.name)
    collect.write_table(frame, target, lines)
    return target, missing


#: Methods of a study whose encoders' tails are measured, as far as it has them: the paper's two,
#: and the tuned InfoNCE of a decision.
EVIDENCE_METHODS = ("infonce", "weince", "infonce-0.5", "infonce-tuned", "weince-0.5")


def evidence_runs(chosen: Study, seeds: Sequence[int] = ()) -> list[Run]:
    """The runs of a study whose tails are measured.

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
    methods = [chosen.methods.get(name, ()) for name in EVIDENCE_METHODS]
    labels = {settings[0].label for settings in methods if len(settings) == 1}
    return [run for run in chosen.runs() if run.setting in labels and run.seed in wanted]


def measure_study(name: str, seeds: Sequence[int] = (), device: str | None = None) -> list[Run]:
    """Make the evidence records of a study, those that are not there yet.

    Args:
        name: of the study.
        seeds: see :func:`evidence_runs`.
        device: of sentence encoders; default a CUDA device if there is one, else the CPU.

    Returns:
        The runs left out since they are not finished.

    Raises:
        ConfigError: see :func:`evidence_runs`, and for a study of images that trains on all of
            them, so that none is left to measure on.
        FileNotFoundError: for a finished run whose weights are gone.
    """
    chosen = study(name)
    runs = evidence_runs(chosen, seeds)
    return _evidence_of(chosen).study_evidence(runs, profile=chosen.profile, device=device)[1]


def _evidence_of(chosen: Study) -> ModuleType:
    """The module that measures the encoders of a study's kind."""
    if chosen.experiment == "text":
        from . import text_evidence  # its packages are needed by these studies only

        return text_evidence
    return study_evidence


def _evidence(
    chosen: Study, before: pd.DataFrame
) -> tuple[list[dict[str, object]], dict[str, str], list[pd.DataFrame]]:
    """The tail evidence of a study's encoders: rows and lines of records here, rows kept."""
    module = _evidence_of(chosen)
    found: list[dict[str, object]] = []
    lines: dict[str, str] = {}
    for record, setting in module.evidence_of(evidence_runs(chosen)):
        found += [row | {"setting": setting} for row in collect.rows(record)]
        lines[record.key] = record_lines.record_line(record)
    old = before[before["experiment"].isin(module.EXPERIMENTS) & ~before["key"].isin(lines)]
    return found, lines, [old] if len(old) else []


def load_study(name: str) -> pd.DataFrame:
    """Read a study's table; empty, with the right columns, if there is none yet."""
    return collect.load_table(table_path(name), COLUMNS)


def main(words: Sequence[str] | None = None) -> int:
    """The pipeline's way in; errors that say what is wrong are one line, as is a stop.

    Returns:
        0 when done, 1 for an error, 75 (try again) after Ctrl-C or SIGTERM.
    """
    given = _parser().parse_args(words)
    try:
        with sigterm_interrupts():  # as a scheduler's limit sends it
            return _carry_out(given)
    except SHOWN as error:
        sys.stderr.write(f"Error: {one_line(error)}\n")
        return 1
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"{str(stopped) or 'stopped; run again to continue'}\n")
        return STOPPED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weince study")
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, text: str, *, studies: str | None = None) -> Any:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("study", nargs=studies, help="its name, as in `weince plan`")
        return made.add_argument

    command("run", "make one run of a study")("key", help="of the run")
    add = command("collect", "write a study's table")
    add("--partial", action="store_true", help="although runs are missing")
    add = command("evidence", "measure the tails of a study's encoders")
    add("--seed", type=int, nargs="+", default=(), help="only these")
    add("--device", help="default: CUDA if there is one, else the CPU")
    add = command("work", "make the missing runs of studies one after the other", studies="+")
    add("--hours", type=float, default=math.inf, help="begin none after")
    add("--evidence", action="store_true", help="measure tails too")
    command("register", "fix a study's definition before its first run")
    command("choose", "write what a screening's or a gate's validation chooses")
    command("gate", "print a gate's table and its verdicts")
    add = command("floors", "put raw pixels, untrained and supervised encoders into the tables")
    add("--kind", nargs="+", help="only these: pixels, pixels-centred, untrained, supervised")
    add("--device", help="default: CUDA if there is one, else the CPU")
    return parser


def _carry_out(given: argparse.Namespace) -> int:
    """Do what the command line asks for; returns the exit status."""
    if given.command == "work":
        return min(1, work(given.study, given.hours, evidence=given.evidence))
    if given.command == "run":
        run_one(given.study, given.key)
    elif given.command == "collect":
        collect_study(study(given.study), partial=given.partial)
    elif given.command == "register":
        registered.register(study(given.study))
    elif given.command == "choose":
        sys.stdout.write(f"{choose(given.study)}\n")
    elif given.command == "gate":
        sys.stdout.write(f"{gate(given.study).text()}\n")
    elif given.command == "floors":
        from . import floors  # which uses this module

        chosen = study(given.study)
        floors.make_all(chosen, given.kind or tuple(floors.KINDS), given.device)
        sys.stdout.write(floors.shown(chosen))
    else:
        for run in measure_study(given.study, given.seed, given.device):
            sys.stderr.write(f"not finished, left out: {run.setting}, seed {run.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
