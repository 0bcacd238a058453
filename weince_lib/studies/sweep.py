"""A study's runs one by one, what has become of them, and their table.

    weince study work STUDY [STUDY ...] [--hours H] [--evidence]
    weince study run STUDY KEY
    weince study collect STUDY [--partial]
    weince study evidence STUDY [--seed N ...] [--device DEVICE]
    weince study floors STUDY [--kind KIND ...] [--device DEVICE]
    weince study register STUDY
    weince study choose cpu-cifar|cpu-beyond|cpu-beyond-fashion
    weince study gate cpu-beyond|cpu-beyond-fashion

``python -m weince_lib.studies.sweep`` is the same command. ``work`` makes the runs of studies one
after the other and keeps their tables up to date; several workers share the runs. The pipeline
(``sweep.smk``) calls ``run`` for every run and ``collect`` when all are there. A run that exists is
found, not repeated; one that was cut off continues from its checkpoint. ``evidence`` measures the
tails of a study's finished encoders (of sentence encoders along their training); ``collect`` then
adds what it found to the table. ``floors`` puts raw pixels, untrained and supervised encoders
beside a study's, see :mod:`.floors`. ``register`` fixes a study's definition before its first run.
``choose`` writes what a screening's or a gate's validation chooses; ``gate`` prints a gate's table
and verdicts, see :mod:`.grid_beyond`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from .. import files, paths
from ..errors import SHOWN, one_line
from ..records import store
from ..records.store import Record
from ..runs.config import ConfigError, VisionConfig
from ..runs.text_config import TextConfig
from ..runs.vision import run_vision
from ..training.stopping import sigterm_interrupts
from ..vision.datasets import cifar10_jpeg
from . import collect, floors, grid_annealed, grid_beyond, grid_cifar, registered, study_evidence
from .collect import STUDY_COLUMNS, load_study, table_path
from .grid import Run, Study, study
from .study_types import execution

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


def folder(name: str) -> Path:
    """Where a study's marks lie, ``runs/studies/<name>``; its records are with all others."""
    return paths.runs() / "studies" / name


def mark(name: str, key: str) -> Path:
    """The file that says a run is done; the pipeline's output, so that records are none of it."""
    return folder(name) / f"{key}.done"


def failure(name: str, key: str) -> Path:
    """The file that holds why a run failed at its last try."""
    return folder(name) / f"{key}.failed"


def run_one(name: str, key: str) -> Record:
    """Make one run of a study, or find its record; note a failure beside its mark.

    Args:
        name: of the study.
        key: of the run, see :meth:`.grid.Study.runs`.

    Raises:
        ConfigError: for an unknown study or run, or a study that is not what was registered.
        Exception: whatever stopped the run, after its reason has been noted.
    """
    chosen = study(name)
    registered.check(chosen)
    run = chosen.run(key)
    if isinstance(run.config, VisionConfig) and run.config.dataset == cifar10_jpeg.NAME:
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
        evidence: measure the tail of each encoder of :func:`.study_evidence.evidence_runs` right
            after its run, while its weights are there.

    Returns:
        The number of runs that failed.
    """
    end = time.monotonic() + 3600 * hours
    failed = 0
    for name in names:
        chosen = study(name)
        registered.check(chosen)
        measured = {run.key for run in study_evidence.evidence_runs(chosen)} if evidence else set()
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
    target = table_path(grid_cifar.SCREENING.name).with_name(grid_cifar.CHOSEN_FILE)
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
    gates = {**grid_beyond.GATES, **grid_annealed.GATES}
    if name not in gates:
        raise ConfigError(f"study {name} is no gate; these are: {', '.join(gates)}")
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


def collect_study(chosen: Study, *, partial: bool = False) -> tuple[Path, list[Run]]:
    """Write a study's table from its records, and their lines beside it.

    The table also holds the study's tail evidence, as far as it was measured. Rows, and lines, of
    records that lie elsewhere, such as those of a committed table, are kept as long as the study
    has their runs.

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
    before = load_study(chosen.name)
    records: list[Record] = []
    found: list[dict[str, Any]] = []
    elsewhere: list[str] = []
    missing: list[Run] = []
    runs = chosen.runs()
    for run in runs:
        path = store.run_folder(chosen.experiment, run.key) / "record.json"
        if path.exists():
            records.append(store.read(path))
            found += collect.study_rows(records[-1], run.setting)
        elif (before["key"] == run.key).any():
            elsewhere.append(run.key)
        else:
            missing.append(run)
    if missing and (not partial or len(missing) == len(runs)):
        first = missing[0]
        raise FileNotFoundError(
            f"study {chosen.name}: {len(missing)} of {len(runs)} runs are missing, the first is "
            f"{first.setting}, seed {first.seed}; see `weince plan {chosen.name}`"
        )
    for record, setting in study_evidence.evidence_of(chosen):
        records.append(record)
        found += [row | {"setting": setting} for row in collect.rows(record)]
    measured = (before["experiment"] != chosen.experiment) & ~before["key"].isin(
        [record.key for record in records]
    )
    kept = before[before["key"].isin(elsewhere) | measured]
    frame = pd.DataFrame(found, columns=list(STUDY_COLUMNS))
    frame = pd.concat([part for part in (frame, kept) if len(part)])
    frame = frame.sort_values(["seed", "key", "metric", "split", "replicate"], kind="stable")
    target = table_path(chosen.name)
    collect.write_table(frame, target, records)
    return target, missing


# The command -------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    """Carry out ``weince study``; see the module's text.

    Returns:
        As :func:`guarded`.
    """
    given = _parser().parse_args(words)
    return guarded(lambda: _carry_out(given))


def guarded(task: Callable[[], int]) -> int:
    """Do a command's work; an error that says what is wrong becomes one line, as does a stop.

    Returns:
        What the work returns, 1 for an error, 75 (try again) after Ctrl-C or SIGTERM.
    """
    try:
        with sigterm_interrupts():  # as a scheduler's limit sends it
            return task()
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
        chosen = study(given.study)
        floors.make_all(chosen, given.kind or tuple(floors.KINDS), given.device)
        sys.stdout.write(floors.shown(chosen))
    else:
        for run in study_evidence.measure_study(study(given.study), given.seed, given.device):
            sys.stderr.write(f"not finished, left out: {run.setting}, seed {run.seed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
