"""Encoders trained here beside the committed ones: from images to numbers, once for each loss.

Training amplifies rounding, so another processor gives another encoder. How far its numbers lie
from the committed ones is told in units of what another seed changes: the standard deviation of
the committed numbers over their four seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev

import pandas as pd

from .. import paths
from ..records.store import Record
from ..runs.allocation import AllocationConfig, run_allocation
from ..runs.config import SEEDS, ConfigError, vision_config
from ..runs.encoders import LOSSES, ready_encoder, train_anew
from ..runs.link import LinkConfig, run_link
from ..runs.tail import TailConfig, run_tail
from .collect import COLUMNS, load_table, rows, write_table

#: What is shown of an encoder: experiment, loss, metric, split, and its name for readers.
SHOWN = (
    *(
        ("vision", loss, metric, "test", f"{name}: {words}, %")
        for loss, name in (("infonce", "InfoNCE"), ("weince", "WEINCE"))
        for metric, words in (
            ("linear_accuracy", "linear probe"),
            ("recall_at_1", "R@1"),
            ("knn_accuracy", "kNN, 50 votes"),
        )
    ),
    ("tail", "infonce", "known_endpoint_shape", "", "InfoNCE: shape of the tail"),
    ("link", "infonce", "lambda_hat", "", "InfoNCE: fitted blend weight"),
    ("link", "infonce", "held_out_gain", "", "InfoNCE: gain of the blend, nats"),
    (
        "allocation",
        "infonce",
        "weibit_nearer_than_infonce_k256",
        "",
        "InfoNCE: Weibit nearer the risk by",
    ),
)


@dataclass(frozen=True)
class Beside:
    """One number measured here and the committed one.

    Attributes:
        name: what it is, with its unit.
        here: of the encoder trained here.
        committed: of the committed encoder of the same seed.
        spread: standard deviation of the committed numbers over their seeds.
        seeds: how many those are.
    """

    name: str
    here: float
    committed: float
    spread: float
    seeds: int

    @property
    def distance(self) -> float:
        """From the committed number, in units of the spread; has a sign."""
        return (self.here - self.committed) / self.spread


def table_path() -> Path:
    """``retrained.csv`` beside the profiles' tables."""
    return paths.results() / "retrained.csv"


def write(seed: int) -> Path:
    """Train the two encoders of a seed, measure them and write their table.

    What is finished already is not repeated.

    Raises:
        ConfigError: for a seed without committed numbers to stand beside, before any training.
    """
    if seed not in SEEDS:
        known = ", ".join(map(str, SEEDS))
        raise ConfigError(f"no encoder of seed {seed} is committed; choose one of {known}")
    with _apart():
        records = _measure(seed)
    table = pd.DataFrame([row for r in records for row in rows(r)], columns=list(COLUMNS))
    write_table(table, table_path(), records)
    return table_path()


def beside_committed() -> list[Beside]:
    """The numbers of ``retrained.csv`` beside those of the committed ``quick.csv``.

    Returns:
        One row for each of :data:`SHOWN` that both have, with a spread over two or more seeds.
    """
    ours = load_table(table_path())
    theirs = load_table(paths.committed_results() / "quick.csv")
    found = []
    for experiment, loss, metric, split, name in SHOWN:
        here, committed = (
            _by_seed(table, experiment, loss, metric, split) for table in (ours, theirs)
        )
        for seed, value in here.items():
            spread = stdev(committed.values()) if len(committed) > 1 else 0.0
            if seed in committed and spread > 0:
                found.append(Beside(name, value, committed[seed], spread, len(committed)))
    return found


def _by_seed(
    table: pd.DataFrame, experiment: str, loss: str, metric: str, split: str
) -> dict[float, float]:
    """A metric by encoder seed, averaged over probes or splits."""
    own = table[
        (table["experiment"] == experiment)
        & (table["loss"] == loss)
        & (table["metric"] == metric)
        & (table["split"] == split)
    ]
    return {s: float(own.loc[own["seed"] == s, "value"].mean()) for s in own["seed"].unique()}


def _measure(seed: int) -> list[Record]:
    """The records of both encoders, and the tail, link and gradients of InfoNCE's."""
    runs = {loss: vision_config("quick", loss=loss, seed=seed) for loss in LOSSES}
    trained = [ready_encoder(run, profile="quick") for run in runs.values()]
    infonce = runs["infonce"]
    return [
        *trained,
        run_tail(TailConfig.of(infonce), profile="quick"),
        run_link(LinkConfig.of(infonce, "quick"), profile="quick"),
        run_allocation(AllocationConfig.of(infonce, "quick"), profile="quick"),
    ]


@contextmanager
def _apart() -> Iterator[None]:
    """Train anew within the block, and read committed encoders again after it."""
    before = {name: os.environ[name] for name in paths.RETRAINED_VARIABLES if name in os.environ}
    train_anew()
    try:
        yield
    finally:
        for name in paths.RETRAINED_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)
