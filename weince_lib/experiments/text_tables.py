"""What a study of sentences says: levels, spread over seeds, differences, evidence along training.

A run has two results. ``best`` is of the checkpoint that scored highest on STS-B dev, which is how
SimCSE reports, and ``last`` of the final step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .selection import Chosen, chosen_by_method, compare

#: Which checkpoint to its metric.
CHECKPOINTS = {"best": "sts_spearman", "last": "sts_spearman_last"}
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
        checkpoint: ``"best"`` or ``"last"``.

    Raises:
        KeyError: for another checkpoint.
    """
    return chosen_by_method(study, frame, CHECKPOINTS[checkpoint])


def sts_table(study: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """Test scores: one row a method and checkpoint.

    Columns: ``method, checkpoint, setting, mean, half_width`` (95 % t-interval over seeds), ``sd,
    lowest, highest, seeds``. All in points of Spearman times 100.
    """
    rows = []
    for checkpoint in CHECKPOINTS:
        for method, chosen in sts_methods(study, frame, checkpoint).items():
            values = np.array(list(chosen.by_seed.values()))
            row: dict[str, Any] = {"method": method, "checkpoint": checkpoint}
            row |= {"setting": chosen.setting, "mean": chosen.test.mean}
            row |= {"half_width": chosen.test.half_width}
            row |= {"sd": values.std(ddof=1) if len(values) > 1 else np.nan}
            row |= {"lowest": values.min(), "highest": values.max(), "seeds": len(values)}
            rows.append(row)
    columns = ["method", "checkpoint", "setting", "mean", "half_width", "sd"]
    return pd.DataFrame(rows, columns=[*columns, "lowest", "highest", "seeds"])


def sts_differences(study: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The study's comparisons on test: one row a pair of methods and checkpoint.

    Columns: ``method, against, checkpoint, difference, low, high`` (95 % t-interval over paired
    seeds), ``p_value`` (paired t-test, one-sided, as the paper's), ``seeds``.
    """
    rows = []
    for checkpoint in CHECKPOINTS:
        chosen = sts_methods(study, frame, checkpoint)
        for a, b in study.compare:
            pair = compare(chosen[a], chosen[b]) if a in chosen and b in chosen else None
            if pair is None:
                continue
            row: dict[str, Any] = {"method": a, "against": b, "checkpoint": checkpoint}
            row |= {"difference": pair.interval.mean, "low": pair.interval.low}
            row |= {"high": pair.interval.high, "p_value": pair.p_value, "seeds": len(pair.seeds)}
            rows.append(row)
    columns = ["method", "against", "checkpoint", "difference", "low", "high", "p_value", "seeds"]
    return pd.DataFrame(rows, columns=columns)


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
    # A frozen public encoder has no seed.
    rows = pd.concat(found)
    rows = rows.assign(seed=rows["seed"].fillna(-1).astype(int))
    wide = rows.pivot_table(index=index, columns="metric", values="value", aggfunc="mean")
    return wide.rename_axis(columns=None).reset_index()
