"""Data sets of the Hugging Face hub, or local folders in its layout, through ``datasets``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from ..errors import MissingPackageError

#: Columns taken for the text where none is named, in this order.
USUAL_COLUMNS = ("text", "sentence", "sent0")


def hub_columns(name: str, split: str, *columns: str) -> list[Iterable[Any]]:
    """Columns of one split of a data set, which is downloaded if it is not in the cache.

    The rows stay on disk. Without a network the library tries for half a minute before it looks
    into its cache; with ``HF_HUB_OFFLINE=1`` in the environment it looks there at once.

    Args:
        name: on the hub, such as ``mteb/stsbenchmark-sts``, or a local folder.
        split: ``"train"``, ``"test"`` or whatever the data set has.
        columns: their names; by default the usual one for text, or the only one.

    Raises:
        MissingPackageError: without the ``datasets`` package.
        ConnectionError: if the hub cannot be reached or has no such data set, with what to do.
        ValueError: for a split that is not there, with the library's own words; for a column that
            is not; if none is named and there is neither a usual one nor a single one.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingPackageError(
            "datasets is not installed, which reads the hub; pip install datasets"
        ) from error
    try:
        rows = datasets.load_dataset(name, split=split)
    except (OSError, RuntimeError) as error:
        # No network, offline mode, and an unknown or closed data set all look alike from here.
        raise ConnectionError(
            f"data set {name!r} could not be had from the hub "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}). Check its name. "
            "Offline: load it once on a machine with a network and copy its cache ($HF_HOME; "
            "HF_HUB_OFFLINE=1 reads it at once), or write its sentences to a text file, one a "
            "line, and use file:PATH"
        ) from error
    there = list(rows.column_names)
    if not columns:
        usual = [column for column in USUAL_COLUMNS if column in there]
        if not usual and len(there) != 1:
            raise ValueError(
                f"data set {name} has columns {', '.join(there)}; name the one with the "
                f"sentences: hub:{name}:COLUMN"
            )
        columns = ((usual or there)[0],)
    for column in columns:
        if column not in there:
            raise ValueError(f"data set {name} has no column {column!r}; it has {', '.join(there)}")
    return [rows[column] for column in columns]
