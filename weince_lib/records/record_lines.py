"""What each number of a committed table was made with: ``<table>.records.jsonl`` beside it.

Records stay where they were made; a table holds their keys and values only. So that a reader of a
clone can see config, commit, versions, hardware and data behind a number, each table has a file of
one JSON line a record, in the order of keys. Histories of training stay in the records.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from .. import files, paths
from .store import Record, RecordError

SUFFIX = ".records.jsonl"
#: Of a record's details: hashes of its data, the committed encoder it holds or was measured on,
#: with which code metrics were added later, and how its training steps were carried out if the
#: machine chose.
DETAILS = ("data", "encoder", "added", "step_form")


def lines_path(table: Path) -> Path:
    """The file of lines beside a table: ``quick.records.jsonl`` for ``quick.csv``."""
    return table.with_suffix(SUFFIX)


def record_line(record: Record) -> str:
    """One record as a line of JSON, without metrics and histories.

    Its fields: ``key``, ``experiment``, ``profile`` (that it was first made for, with a stamp of
    the profile's settings), ``labels``, ``config`` (of which, with the experiment, the key is a
    hash: :func:`.store.content_key`), ``provenance``, ``wall_seconds``, and ``data``, ``encoder``,
    ``added`` and ``step_form`` where the record's details have them.
    """
    labels = dict(record.labels)
    content = {
        "key": record.key,
        "experiment": record.experiment,
        "profile": labels.pop("profile", ""),
        "labels": labels,
        "config": record.config,
        "provenance": record.provenance,
        "wall_seconds": record.wall_seconds,
    }
    content |= {name: record.details[name] for name in DETAILS if name in record.details}
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def read_lines(path: Path) -> dict[str, str]:
    """Lines of a file by key; none if there is no such file.

    Raises:
        RecordError: for a line that is no JSON object with a key; the message names it.
    """
    if not path.exists():
        return {}
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            found[str(json.loads(line)["key"])] = line
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise RecordError(
                f"{path}, line {number}: not a record's line ({error!r}); restore the file, or "
                "remove it and collect again where the records are"
            ) from error
    return found


def write_lines(table: Path, records: Iterable[Record], keys: Iterable[str]) -> None:
    """Write the lines of a table's records, in the order of their keys, whole or not at all.

    Args:
        table: the table they lie beside.
        records: those that are on this machine.
        keys: all that the table has rows of. Lines that the file has of other records among them
            are kept as they are; those of records that are no longer in the table are dropped.

    Raises:
        RecordError: as :func:`read_lines`, of the file as it was.
    """
    target = lines_path(table)
    every = read_lines(target) | {record.key: record_line(record) for record in records}
    kept = [every[key] for key in sorted(set(keys)) if key in every]
    files.write_text(target, "".join(f"{line}\n" for line in kept))


def find_lines(key: str) -> list[str]:
    """The lines of a key in the tables of ``paper/results/``.

    There is one, and more only if two tables hold a key's runs from two machines.

    Raises:
        RecordError: if no table has the key, or a file of lines is damaged.
    """
    found = sorted(paths.results().glob(f"**/*{SUFFIX}"))
    lines = [line for path in found if (line := read_lines(path).get(key)) is not None]
    if not lines:
        raise RecordError(
            f"no record {key!r} in the {len(found)} files *{SUFFIX} of {paths.results()}; "
            "`weince claims` prints the keys behind each claim"
        )
    return list(dict.fromkeys(lines))
