"""What a study of sentences says: levels, spread over seeds, differences, evidence along training.

A run has two results. ``best`` is of the checkpoint that scored highest on STS-B dev, which is how
SimCSE reports, and ``last`` of the final step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..evaluation import t_interval
from .decide import Contrast, decide_study, finding
from .grid_text import TITLES
from .selection import Chosen, chosen_by_method, compare
from .study_types import method_title

#: Which checkpoint to its metric.
CHECKPOINTS = {"best": "sts_spearman", "last": "sts_spearman_last"}
#: Metric of the weights before training.
START = "sts_spearman_start"
#: Experiment of the evidence's records.
EVIDENCE = "text-evidence"
#: What figures call the methods of a study of sentences.
METHOD_NAMES = {
    "infonce": "InfoNCE\nτ = 0.05",
    "weince": "WEINCE\npaper",
    "weince-release": "WEINCE\nrelease",
    "weince-calibrated": "WEINCE\ncalibrated",
    "infonce-tuned": "InfoNCE\nτ on dev",
    "weince-tuned": "WEINCE\nτ on dev",
}


def sts_methods(study: Any, frame: pd.DataFrame, checkpoint: str = "best") -> dict[str, Chosen]:
    """What dev chooses for every method of a study, and its test scores.

    Args:
        study: has ``methods``, see :class:`.grid.Study`.
        frame: rows of its table.
        checkpoint: ``"best"`` or ``"last"``; another is a ``KeyError``.
    """
    return chosen_by_method(study, frame, CHECKPOINTS[checkpoint])


def sts_table(study: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Scores on dev and test: one row a method and checkpoint, and one before any training.

    Columns: ``method, checkpoint, setting, settings`` (how many dev chose from), ``dev`` (of the
    chosen one, so biased upwards where it chose), ``mean`` (test), ``half_width`` (of its 95 %
    t-interval over seeds), ``sd, lowest, highest, seeds``. All in points of Spearman times 100.
    """
    rows: list[tuple[Any, ...]] = []
    for checkpoint, metric in {"start": START, **CHECKPOINTS}.items():
        for method, c in chosen_by_method(study, frame, metric).items():
            own: tuple[Any, ...] = (method, checkpoint, c.setting, c.settings)
            if checkpoint == "start":
                if rows:
                    continue  # all methods start from the same weights
                own = ("before training", checkpoint, "", 0)
            values = pd.Series(c.by_seed)
            spread = (values.std(), values.min(), values.max(), len(values))
            rows.append((*own, c.validation.mean, c.test.mean, c.test.half_width, *spread))
    columns = ["method", "checkpoint", "setting", "settings", "dev", "mean", "half_width", "sd"]
    return pd.DataFrame(rows, columns=[*columns, "lowest", "highest", "seeds"])


def sts_differences(study: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The study's comparisons on test, decided by the rule of :mod:`.decide`.

    The pairs of a checkpoint are one family. The margin of equivalence is the rule's, in points of
    Spearman times 100.

    Returns:
        One row a pair of methods and checkpoint: ``method, against, checkpoint, difference, low,
        high, word`` (see :func:`.decide.decide`), ``p_value`` (one-sided, of the paired t-test, as
        the paper's), ``seeds``. Pairs without a shared seed are left out.
    """
    pairs = [Contrast(f"{a} minus {b}", a, b) for a, b in study.compare]
    rows = []
    for checkpoint, metric in CHECKPOINTS.items():
        chosen = sts_methods(study, frame, checkpoint)
        found = decide_study(study, frame, pairs, primary=(metric,), secondary=())
        for row in found[found["seeds"] > 0].to_dict("records"):
            pair = compare(chosen[row["a"]], chosen[row["b"]])
            own = {"method": row["a"], "against": row["b"], "checkpoint": checkpoint}
            own |= {name: row[name] for name in ("difference", "low", "high", "word", "seeds")}
            rows.append(own | {"p_value": pair.p_value if pair else np.nan})
    columns = ["method", "against", "checkpoint", "difference", "low", "high", "word", "p_value"]
    return pd.DataFrame(rows, columns=[*columns, "seeds"])


def distinct(chosen: dict[str, Chosen]) -> dict[str, Chosen]:
    """The first method of each chosen setting: further ones have the same runs."""
    first: dict[str, str] = {}
    for method, c in chosen.items():
        first.setdefault(c.setting, method)
    return {method: c for method, c in chosen.items() if first[c.setting] == method}


def sentence(row: Mapping[Any, Any]) -> str:
    """A row of :func:`sts_differences` in words: ``WEINCE minus InfoNCE: +0.04 [...], ...``."""
    seeds = f" ({row['seeds']} seeds)" if row["seeds"] else ""
    a, b = (TITLES.get(row[m]) or method_title(row[m]) for m in ("method", "against"))
    return f"{a} minus {b}: {finding(row)}{seeds}"


def evidence_rows(*frames: pd.DataFrame) -> pd.DataFrame:
    """Evidence along training: one row a record, its metrics as columns.

    Args:
        frames: tidy rows; those of other experiments are left out.

    Returns:
        Columns ``key, encoder, loss, seed``, the metrics, among them ``stage``: 0 at the start of
        training, 0.5 in the middle, 1 at the end. Empty without such records.
    """
    index = ["key", "encoder", "loss", "seed"]
    found = [frame[frame["experiment"] == EVIDENCE] for frame in frames]
    found = [rows for rows in found if len(rows)]
    if not found:
        return pd.DataFrame(columns=[*index, "stage"])
    rows = pd.concat(found)
    # A frozen public encoder has no seed.
    rows = rows.assign(seed=rows["seed"].fillna(-1).astype(int))
    wide = rows.pivot_table(index=index, columns="metric", values="value", aggfunc="mean")
    return wide.rename_axis(columns=None).reset_index()


def evidence_levels(evidence: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Evidence over seeds: one row a loss, stage and metric.

    Args:
        evidence: rows of :func:`evidence_rows`.
        metrics: columns of it; one without values has no row.

    Returns:
        Columns ``loss, stage, metric, mean, low, high`` (95 % t-interval over seeds), ``seeds``.
    """
    rows = []
    for (loss, stage), own in evidence.groupby(["loss", "stage"], sort=True):
        for metric in metrics:
            values = own[metric].dropna().to_list()
            if values:
                i = t_interval(values)
                rows.append((loss, stage, metric, i.mean, i.low, i.high, len(values)))
    return pd.DataFrame(rows, columns=["loss", "stage", "metric", "mean", "low", "high", "seeds"])
