"""What stands behind notebook 13: losses with nothing to tune, and what orders all losses.

How far the studies of :mod:`weince_lib.studies.grid_beyond` have come, what their gates and
decisions say once their runs are there, and each setting's sharpness beside its accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from scipy.stats import spearmanr

from ..studies.decide import PRIMARY_MEASURES, decide_beyond
from ..studies.grid import study
from ..studies.grid_beyond import BETS, DECISION, DECISION_FASHION, GATES, Gate, gate
from ..studies.selection import study_frame
from ..studies.study_types import Study
from ..vision.datasets import title
from .findings import MEASURES, test_images

#: The decisions, in the order of their gates.
DECISIONS = (DECISION, DECISION_FASHION)
#: An InfoNCE setting that every study has, from which differences are taken.
BASE = "tau=0.5"


def progress() -> pd.DataFrame:
    """Runs of the gates and decisions: one row a study, with ``runs`` and ``done``.

    A decision has the runs that are known before the gates have chosen.
    """
    rows = []
    for chosen in (*GATES.values(), *DECISIONS):
        wanted = {(run.setting, run.seed) for run in chosen.runs()}
        frame = study_frame(chosen)
        own = frame[frame["experiment"] == chosen.experiment]
        done = wanted & {
            (str(s), int(seed)) for s, seed in zip(own["setting"], own["seed"], strict=True)
        }
        rows.append({"study": chosen.name, "runs": len(wanted), "done": len(done)})
    return pd.DataFrame(rows).set_index("study")


def finished_gates() -> list[Gate]:
    """What the gates say whose runs are whole."""
    counts = progress()
    whole = counts.index[counts["done"] == counts["runs"]]
    return [gate(chosen, study_frame(chosen)) for name, chosen in GATES.items() if name in whole]


def verdicts() -> pd.DataFrame:
    """The rows of :func:`.decide.decide_beyond` for the decisions that have runs; else empty.

    They have ``study`` and ``data`` before them, as those of :func:`.findings.decisions`.
    """
    parts = []
    for chosen in DECISIONS:
        frame = study_frame(chosen)
        if frame.empty or not any(chosen.methods[bet] for bet in BETS):
            continue
        found = decide_beyond(chosen, frame, images=test_images(chosen))
        found.insert(0, "data", _data(chosen))
        found.insert(0, "study", chosen.name)
        parts.append(found)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def sharpness_points(names: Sequence[str]) -> pd.DataFrame:
    """Each setting of some studies: how many negatives it pushes on, and how accurate it is.

    Args:
        names: of studies of images.

    Returns:
        One row a setting, with ``study, data, loss, temperature, setting, seeds``; ``negatives``,
        the effective number of negatives at the end of training (exp of the mean entropy of the
        push); and the test value of the measures that decide, in points above InfoNCE at tau = 0.5
        of the same study, under the names of :data:`.findings.MEASURES`. Means over seeds; a
        setting that lacks one of them is left out.
    """
    rows = []
    for name in names:
        chosen, frame = study(name), study_frame(study(name))
        frame = frame[frame["experiment"] == chosen.experiment]
        mean = frame.groupby(["setting", "metric", "split"])["value"].mean().to_dict()
        labels = frame.groupby("setting")[["loss", "temperature"]].first()
        seeds = frame.groupby("setting")["seed"].nunique()
        for setting in labels.index:
            row = {"study": name, "data": _data(chosen), "setting": setting}
            row |= labels.loc[setting].to_dict() | {"seeds": int(seeds[setting])}
            row["negatives"] = math.exp(mean.get((setting, "negative_entropy", "train"), math.nan))
            for metric in PRIMARY_MEASURES:
                base = mean.get((BASE, metric, "test"), math.nan)
                row[MEASURES[metric]] = mean.get((setting, metric, "test"), math.nan) - base
            rows.append(row)
    return pd.DataFrame(rows).dropna(subset=["negatives", *_titles()]).reset_index(drop=True)


def rank_correlations(points: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of sharpness with accuracy over a data set's settings.

    Args:
        points: see :func:`sharpness_points`.

    Returns:
        One row a data set, with the number of ``settings`` and the correlation for each measure:
        1 where fewer negatives always go with a higher accuracy.
    """
    rows = {}
    for data, own in points.groupby("data", sort=False):
        row: dict[str, float] = {"settings": len(own)}
        for measure in _titles():
            row[measure] = float(spearmanr(-own["negatives"], own[measure]).statistic)
        rows[data] = row
    return pd.DataFrame.from_dict(rows, orient="index").astype({"settings": int})


def _data(chosen: Study) -> str:
    """The words for a study's data."""
    return chosen.data or title(str(chosen.settings["dataset"]))


def _titles() -> list[str]:
    return [MEASURES[metric] for metric in PRIMARY_MEASURES]
