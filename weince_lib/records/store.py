"""The run store: one finished run, one ``record.json`` under a key made from its config.

``runs/<experiment>/<key>/record.json`` holds the full config, every metric and the provenance. The
key is a hash of the config, so a finished run is never repeated and a changed config never
collides with an old result.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from .. import files, paths
from ..errors import WeinceError
from ..evaluation import Interval
from .provenance import provenance

#: Raise it when the meaning of a record's fields changes: old records then no longer match.
SCHEMA = 1


class RecordError(WeinceError):
    """A record file that cannot be read; the message names it."""


class StaleRecordError(RecordError):
    """A record whose data are no longer those that its key's names stand for."""


def compare_data(record: Record, now: Mapping[str, str], name: str) -> None:
    """Refuse a record that was made from other data than a name stands for now.

    A name is part of a record's key, what it stands for is not: a link can be pointed elsewhere
    and a file replaced.

    Args:
        record: with hashes of what it was made from in ``details["data"]``.
        now: the same hashes of the data as they are now; those that the record does not hold are
            not compared.
        name: what the data are called by, for the message.

    Raises:
        StaleRecordError: if a hash differs.
    """
    then = record.details.get("data", {})
    for part, found in now.items():
        if part in then and then[part] != found:
            raise StaleRecordError(
                f"{record.path} was made from other data than {name} holds now ({part}: "
                f"{then[part][:12]} then, {found[:12]} now). Put the old data back, give the new "
                "data a name of their own, or remove the record's folder to run it again"
            )


@dataclass(frozen=True)
class Metric:
    """One measured number.

    Attributes:
        name: what it is, for example ``"linear_accuracy"``.
        value: the number, in the unit its name implies (accuracies in percent).
        split: ``"validation"``, ``"test"`` or ``""`` where there is none.
        replicate: probe or split seed within one run, 0 where there is none.
        low: lower end of its interval, NaN where there is none.
        high: upper end of its interval.
    """

    name: str
    value: float
    split: str = ""
    replicate: int = 0
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, name: str, interval: Interval) -> Self:
        """The mean of an interval, with its ends."""
        return cls(name, interval.mean, low=interval.low, high=interval.high)


@dataclass(frozen=True)
class Record:
    """A finished run as read from disk."""

    experiment: str
    key: str
    config: dict[str, Any]
    labels: dict[str, Any]
    metrics: list[Metric]
    details: dict[str, Any]
    provenance: dict[str, Any]
    wall_seconds: float
    path: Path = field(compare=False)

    @property
    def folder(self) -> Path:
        """Where the run's checkpoint and other files lie."""
        return self.path.parent

    def metric(self, name: str, split: str = "") -> float:
        """Mean over replicates of one metric.

        Raises:
            KeyError: if the record has no such metric; the message lists those it has.
        """
        values = [m.value for m in self.metrics if m.name == name and m.split == split]
        if not values:
            known = sorted({f"{m.name}/{m.split}" if m.split else m.name for m in self.metrics})
            raise KeyError(f"{self.path}: no metric {name!r} on {split!r}; it has {known}")
        return sum(values) / len(values)


def content_key(experiment: str, config: Mapping[str, Any]) -> str:
    """Sixteen hex digits of the SHA-256 of the canonical JSON of experiment and config."""
    text = json.dumps(
        {"schema": SCHEMA, "experiment": experiment, "config": config},
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_folder(experiment: str, key: str) -> Path:
    """``runs/<experiment>/<key>``."""
    return paths.runs() / experiment / key


def record_path(experiment: str, config: Mapping[str, Any]) -> Path:
    """Where the record of this config is or will be; beside it lie the run's other files."""
    return run_folder(experiment, content_key(experiment, config)) / "record.json"


def find(experiment: str, config: Mapping[str, Any]) -> Record | None:
    """The finished record of this config, or ``None``."""
    path = record_path(experiment, config)
    return read(path) if path.exists() else None


def once(
    experiment: str,
    config: Mapping[str, Any],
    measure: Callable[[], tuple[list[Metric], Mapping[str, Any]]],
    *,
    labels: Mapping[str, Any],
    found: Callable[[], Record | None] | None = None,
) -> Record:
    """The record of this config: the one that is there, else a new one of what is measured.

    Two callers may want the same record at once: the second waits and finds it.

    Args:
        experiment: see :func:`save`.
        config: see :func:`save`.
        measure: gives metrics and details; called only if there is no record.
        labels: see :func:`save`.
        found: looks for the record where :func:`find` does not ask enough, such as whether its
            data are still the same.
    """
    look = found or (lambda: find(experiment, config))
    if done := look():
        return done
    folder = record_path(experiment, config).parent
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder / ".lock"):
        if done := look():
            return done
        started = time.time()
        metrics, details = measure()
        return save(experiment, config, metrics, labels=labels, started=started, details=details)


def save(
    experiment: str,
    config: Mapping[str, Any],
    metrics: list[Metric],
    *,
    labels: Mapping[str, Any],
    started: float,
    details: Mapping[str, Any] | None = None,
) -> Record:
    """Write a record, whole or not at all, and return it.

    Args:
        experiment: the experiment's name, a folder below ``runs/``.
        config: everything the result depends on; JSON values only.
        metrics: the numbers.
        labels: how tables name the run (profile, dataset, encoder, loss, temperature, seed);
            not part of the key.
        started: ``time.time()`` at the start of the run.
        details: what else is worth keeping (data hash, loss curve); not part of the key. JSON has
            no infinity and no NaN, so that they become null: a detail is no reason to lose a run.

    Raises:
        ValueError: if a metric's value is not finite: such a run is not finished.
    """
    for metric in metrics:
        if not math.isfinite(metric.value):
            raise ValueError(f"{experiment}: metric {metric.name} is {metric.value}, not a number")
    path = record_path(experiment, config)
    content = {
        "schema": SCHEMA,
        "experiment": experiment,
        "key": content_key(experiment, config),
        "config": dict(config),
        "labels": dict(labels),
        "metrics": [_metric_to_json(m) for m in metrics],
        "details": _finite(dict(details or {})),
        "provenance": provenance(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "wall_seconds": round(time.time() - started, 3),
    }
    files.write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return read(path)


def read(path: Path) -> Record:
    """Read one record.

    Raises:
        RecordError: if the file is not valid JSON, or not a record of this schema.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise RecordError(f"{path}: schema {content['schema']}, this version reads {SCHEMA}")
        for name in ("config", "labels", "details", "provenance"):
            if not isinstance(content[name], dict):
                raise TypeError(name)
        return Record(
            experiment=content["experiment"],
            key=content["key"],
            config=content["config"],
            labels=content["labels"],
            metrics=[_metric_from_json(m) for m in content["metrics"]],
            details=content["details"],
            provenance=content["provenance"],
            wall_seconds=float(content["wall_seconds"]),
            path=path,
        )
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: not valid JSON ({error}); remove it and run again") from error
    except (KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{path}: not a record, {error!r} is missing or wrong") from error


def record_files(folder: Path | None = None) -> Iterator[Path]:
    """Paths of all records below ``folder`` (``runs/`` by default), in a stable order."""
    yield from sorted((folder or paths.runs()).glob("*/*/record.json"))


def _finite(value: Any) -> Any:
    """JSON values with ``None`` in place of numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _metric_to_json(metric: Metric) -> dict[str, Any]:
    # JSON has no NaN: an absent bound is left out.
    content = {"name": metric.name, "value": metric.value}
    content |= {"split": metric.split} if metric.split else {}
    content |= {"replicate": metric.replicate} if metric.replicate else {}
    for bound in ("low", "high"):
        if math.isfinite(value := getattr(metric, bound)):
            content[bound] = value
    return content


def _metric_from_json(content: Mapping[str, Any]) -> Metric:
    metric = Metric(**content)
    if not isinstance(metric.value, int | float):
        raise TypeError(f"value of {metric.name}")
    return metric
