"""Data sets of the Hugging Face hub, or local folders in its layout, through ``datasets``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import MissingPackageError

#: Columns taken for the text where none is named, in this order.
USUAL_COLUMNS = ("text", "sentence", "sent0")


@dataclass(frozen=True)
class HubRows:
    """One split of a data set; its rows stay on disk.

    Attributes:
        name: of the data set.
        rows: a ``datasets.Dataset``.
    """

    name: str
    rows: Any

    @property
    def columns(self) -> list[str]:
        """Names of its columns."""
        return list(self.rows.column_names)

    def __getitem__(self, column: str) -> Iterable[Any]:
        if column not in self.columns:
            raise ValueError(
                f"data set {self.name} has no column {column!r}; it has {', '.join(self.columns)}"
            )
        found: Iterable[Any] = self.rows[column]
        return found

    def text_column(self, named: str = "") -> str:
        """The column asked for, or the usual one for text.

        Raises:
            ValueError: if none is named and there is neither a usual one nor a single column.
        """
        if named:
            return named
        for column in USUAL_COLUMNS:
            if column in self.columns:
                return column
        if len(self.columns) == 1:
            return self.columns[0]
        raise ValueError(
            f"data set {self.name} has columns {', '.join(self.columns)}; name the one with the "
            f"sentences: hub:{self.name}:COLUMN"
        )


def hub_rows(name: str, split: str) -> HubRows:
    """Open one split of a data set, downloading it if it is not in the cache.

    Without a network the library tries for half a minute before it looks into its cache; with
    ``HF_HUB_OFFLINE=1`` in the environment it looks there at once.

    Args:
        name: on the hub, such as ``mteb/stsbenchmark-sts``, or a local folder.
        split: ``"train"``, ``"test"`` or whatever the data set has.

    Raises:
        MissingPackageError: without the ``datasets`` package.
        ConnectionError: if the hub cannot be reached or has no such data set, with what to do.
        ValueError: for a split that is not there, with the library's own words.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingPackageError(
            "datasets is not installed, which reads the hub; pip install datasets"
        ) from error
    try:
        return HubRows(name, datasets.load_dataset(name, split=split))
    except (OSError, RuntimeError) as error:
        # No network, offline mode, and an unknown or closed data set all look alike from here.
        raise ConnectionError(
            f"data set {name!r} could not be had from the hub "
            f"({type(error).__name__}: {' '.join(str(error).split())[:200]}). Check its name. "
            "Offline: load it once on a machine with a network and copy its cache ($HF_HOME; "
            "HF_HUB_OFFLINE=1 reads it at once), or write its sentences to a text file, one a "
            "line, and use file:PATH"
        ) from error
