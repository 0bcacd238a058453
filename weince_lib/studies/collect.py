"""From records to tidy tables with one row a metric.

A profile's table is ``paper/results/<profile>.csv``, a study's is
``paper/results/studies/<study>.csv``. Tables, claims and the PDF read these files and
``paper/reported/`` and nothing else. What each record was made with is written beside its table,
see :mod:`.record_lines`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from .. import files, paths
from ..records import record_lines, store
from ..records.store import Metric, Record, RecordError
from ..runs.config import ConfigError, VisionConfig, is_own, parse, profile_stamp
from ..runs.encoders import committed_records, is_current
from ..runs.tail import TailConfig
from ..runs.text_config import TextConfig, is_own_text

#: The columns of every table, in order. ``key`` names the record a row came from.
COLUMNS = (
    "experiment",
    "key",
    "dataset",
    "encoder",
    "loss",
    "temperature",
    "seed",
    "metric",
    "split",
    "replicate",
    "value",
    "low",
    "high",
)
#: The columns of a study's table: also the label of the run's setting.
STUDY_COLUMNS = ("setting", *COLUMNS)
#: Those of them that a record's labels give.
LABELS = ("dataset", "encoder", "loss", "temperature", "seed")
#: Those that hold text.
TEXT = {"experiment", "key", "dataset", "encoder", "loss", "setting", "metric", "split"}
#: Significant digits kept: more than any table shows, fewer than machines differ in.
DIGITS = 7


@dataclass
class Collected:
    """What :func:`collect` did.

    Attributes:
        written: the tables written, with their number of records.
        skipped: one line for each record file that could not be read; the files stay.
    """

    written: dict[Path, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)


def rows(record: Record) -> list[dict[str, Any]]:
    """The tidy rows of one record."""
    described = {"experiment": record.experiment, "key": record.key}
    described |= {name: record.labels.get(name, "") for name in LABELS}
    numbers = ("split", "replicate", "value", "low", "high")
    return [
        described | {"metric": m.name} | {name: getattr(m, name) for name in numbers}
        for m in record.metrics
    ]


def study_rows(record: Record, setting: str) -> list[dict[str, Any]]:
    """The rows of one run in a study's table, with its wall time as one more metric."""
    metrics = [*record.metrics, Metric("wall_seconds", record.wall_seconds)]
    return [row | {"setting": setting} for row in rows(replace(record, metrics=metrics))]


def records_of(profile: str) -> list[Path]:
    """Record files made for a profile as it is now, and unreadable ones, to be reported.

    The record of a committed encoder stands for its run, wherever else that was trained, so that
    its rows and those of what was measured on it belong together. What was measured on weights that
    are no longer the committed ones is left out.

    Raises:
        EncoderError: for a committed encoder that does not fit its record.
    """
    committed = committed_records()
    keys = {path.stem for path in committed}
    found = []
    for path in [*committed, *store.record_files()]:
        try:
            record = store.read(path)
            wanted = belongs(record, profile) and is_current(record)
            if record.experiment == "vision" and record.key in keys and path not in committed:
                wanted = False
        except (RecordError, OSError):
            wanted = True
        if wanted:
            found.append(path)
    return found


def belongs(record: Record, profile: str) -> bool:
    """Whether a record's config is one the profile, as it is now, would make.

    What the record was first asked for does not matter: a finished run is never repeated.
    """
    try:
        if record.experiment == "vision":
            return is_own(parse(VisionConfig, record.config), profile)
        if record.experiment == "tail":
            tail = parse(TailConfig, record.config)
            return tail == TailConfig.of(tail.encoder_run) and is_own(tail.encoder_run, profile)
        if record.experiment == "text":
            return is_own_text(parse(TextConfig, record.config), profile)
    except ConfigError:
        pass  # of a version with other settings; its stamp tells
    if record.experiment.startswith("check-"):
        return record.config.get("profile") == profile
    return record.labels.get("profile") == profile_stamp(profile)


def collect(records: Iterable[Path], profile: str, *, keep: bool = False) -> Collected:
    """Write ``paper/results/<profile>.csv`` from record files, and its records' lines beside it.

    Args:
        records: record files, for example :func:`records_of` the profile.
        profile: names the table.
        keep: keep the table's rows of records that lie elsewhere, such as a study made on another
            machine; otherwise it is made anew. Checks that are there again replace their notebook's
            old ones, whatever settings those had.

    Returns:
        What was written, and the files that were skipped because they are damaged.

    Raises:
        FileNotFoundError: if there is not one record; the table stays as it is.
        RecordError: if all records are damaged, or the file of lines, as it was, is; the table
            stays as it is.
    """
    done = Collected()
    found: list[Record] = []
    for path in sorted(records):
        try:
            found.append(store.read(path))
        except (RecordError, OSError) as error:
            done.skipped.append(str(error))
    if not found and done.skipped:
        raise RecordError(
            f"no readable records of profile {profile!r} (the table is unchanged): "
            + "; ".join(done.skipped)
        )
    if not found:
        raise FileNotFoundError(
            f"no records of profile {profile!r}; run its notebooks first (the table is unchanged)"
        )
    frame = pd.DataFrame([row for r in found for row in rows(r)], columns=list(COLUMNS))
    if keep:
        others = load_results(profile)
        anew = frame["experiment"][frame["experiment"].str.startswith("check-")]
        others = others[~others["key"].isin(frame["key"]) & ~others["experiment"].isin(anew)]
        frame = pd.concat([others, frame]) if len(others) else frame
    frame = frame.sort_values(
        ["experiment", "dataset", "encoder", "loss", "seed", "key", "metric", "split", "replicate"],
        kind="stable",
        key=lambda column: pd.to_numeric(column) if column.name == "seed" else column,
    )
    target = paths.results() / f"{profile}.csv"
    write_table(frame, target, found)
    done.written[target] = len(found)
    return done


def write_table(frame: pd.DataFrame, target: Path, records: Iterable[Record]) -> None:
    """Write a table and, beside it, what its records were made with.

    Args:
        frame: the table, with the column ``key``.
        target: where it goes.
        records: those that are here. Lines of other records that the table has rows of are kept.

    Raises:
        RecordError: if the file of lines, as it was, is damaged; the table stays as it is.
    """
    # Rows that were read back have seeds as decimals where checks without one stand among them.
    frame = frame.assign(seed=pd.to_numeric(frame["seed"]).astype("Int64"))
    with files.replacing(target) as aside:
        frame.to_csv(aside, index=False, float_format=f"%.{DIGITS}g", lineterminator="\n")
        # Within the block: if the lines cannot be written, the table is not replaced either.
        record_lines.write_lines(target, records, frame["key"])


def table_path(study: str) -> Path:
    """``paper/results/studies/<study>.csv``."""
    return paths.results() / "studies" / f"{study}.csv"


def load_results(profile: str) -> pd.DataFrame:
    """Read ``paper/results/<profile>.csv``; empty, with the right columns, if there is none yet."""
    return load_table(paths.results() / f"{profile}.csv")


def load_study(study: str) -> pd.DataFrame:
    """Read a study's table; empty, with the right columns, if there is none yet."""
    return load_table(table_path(study), STUDY_COLUMNS)


def load_table(path: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Read a table of :func:`write_table`; empty, with the right columns, if there is none."""
    if not path.exists():
        return pd.DataFrame(columns=list(columns))
    kinds = dict.fromkeys(TEXT, "str") | {"seed": "Int64", "replicate": "int64"}
    frame = pd.read_csv(path, dtype=kinds).fillna(dict.fromkeys(TEXT & set(columns), ""))
    # Checks have no seed.
    return frame.astype({"seed": "float64" if frame["seed"].hasnans else "int64"})


def load_reported() -> pd.DataFrame:
    """The paper's own numbers, ``paper/reported/reported.csv``."""
    return pd.read_csv(paths.reported() / "reported.csv", dtype={"table": str})
