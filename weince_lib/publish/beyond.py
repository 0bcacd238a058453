"""What stands behind notebook 13: losses with nothing to tune, and what orders all losses.

How far the studies of :mod:`weince_lib.studies.grid_beyond` have come, what their gates and
decisions say once their runs are there, and which quantity explains the order of the losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from scipy.stats import spearmanr

from ..studies import grid_annealed
from ..studies.decide import (
    PRIMARY_MEASURES,
    Contrast,
    decide_beyond,
    decide_elsewhere,
    decide_study,
)
from ..studies.grid import study
from ..studies.grid_beyond import (
    BETS,
    DECISION,
    DECISION_FASHION,
    ELSEWHERE,
    GATES,
    PAIRS,
    STATIC,
    Gate,
    gate,
)
from ..studies.selection import study_frame
from ..studies.study_types import Study
from ..studies.text_tables import CHECKPOINTS
from ..vision.datasets import title
from .findings import MEASURES, test_images

#: The decisions, in the order of their gates.
DECISIONS = (DECISION, DECISION_FASHION)
#: The studies that are shown beside them, and the measures of each that count.
SHOWN = ((PAIRS, PRIMARY_MEASURES), (STATIC, (CHECKPOINTS["best"],)))
#: An InfoNCE setting that every study has, from which differences are taken.
BASE = "tau=0.5"
#: What may explain the order of the losses, by the metric's name: the words for readers. All are
#: read on training batches after the last epoch.
QUANTITIES = {
    "negatives": "effective number of negatives",
    "same_class_push": "share of the push on the own class",
    "negative_shortfall": "scale: median shortfall of negatives",
    "positive_shortfall": "median shortfall of positives",
    "alignment": "alignment: distance of positives",
    "uniformity": "uniformity",
    "choice_nats": "fit: nats of the best softmax",
}


def progress() -> pd.DataFrame:
    """How many runs of each study there are: one row a study, with ``runs`` and ``done``.

    Before the gates have chosen, later studies have those of their runs that are known.
    """
    rows = []
    redesigned = grid_annealed.GATES.values()
    for chosen in (*GATES.values(), *DECISIONS, *ELSEWHERE, *redesigned, *(s for s, _ in SHOWN)):
        wanted = {(run.setting, run.seed) for run in chosen.runs()}
        frame = study_frame(chosen)
        own = frame[frame["experiment"] == chosen.experiment]
        done = wanted & {
            (str(s), int(seed)) for s, seed in zip(own["setting"], own["seed"], strict=True)
        }
        rows.append({"study": chosen.name, "runs": len(wanted), "done": len(done)})
    return pd.DataFrame(rows).set_index("study")


def finished(*names: str) -> list[str]:
    """Those of the studies of :func:`progress` whose runs are all done."""
    counts = progress()
    whole = counts.index[(counts["done"] == counts["runs"]) & (counts["runs"] > 0)]
    return [name for name in names if name in whole]


def finished_gates() -> list[Gate]:
    """What the gates say whose runs are whole."""
    gates = {**GATES, **grid_annealed.GATES}
    return [gate(gates[name], study_frame(gates[name])) for name in finished(*gates)]


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


def verdicts_elsewhere() -> pd.DataFrame:
    """The rows of :func:`.decide.decide_elsewhere` once a finalist has runs; else empty."""
    if not any(ELSEWHERE[0].methods[bet] for bet in BETS):
        return pd.DataFrame()
    return decide_elsewhere(ELSEWHERE, [study_frame(chosen) for chosen in ELSEWHERE])


def shown() -> pd.DataFrame:
    """Differences to the tuned InfoNCE in the studies that decide nothing, of those that are whole.

    The rows of :func:`.decide.decide_study` with ``study`` and ``data`` before them. The contrasts
    of a study are one family for each of its measures.
    """
    parts = []
    for chosen, measures in SHOWN:
        if not finished(chosen.name):
            continue
        frame = study_frame(chosen)
        pairs = [Contrast(chosen.title(a), a, b) for a, b in chosen.compare]
        found = decide_study(chosen, frame, pairs, primary=measures, secondary=())
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
        push); the other :data:`QUANTITIES`, NaN in studies from before they were recorded; and the
        test value of the measures that decide, in points above InfoNCE at tau = 0.5 of the same
        study, under the names of :data:`.findings.MEASURES`. Means over seeds; a setting without
        ``negatives`` or a measure is left out.
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
            row |= {name: mean.get((setting, name, "train"), math.nan) for name in QUANTITIES}
            row["negatives"] = math.exp(mean.get((setting, "negative_entropy", "train"), math.nan))
            for metric in PRIMARY_MEASURES:
                base = mean.get((BASE, metric, "test"), math.nan)
                row[MEASURES[metric]] = mean.get((setting, metric, "test"), math.nan) - base
            rows.append(row)
    points = pd.DataFrame(rows, columns=None if rows else ["data", *QUANTITIES, *_titles()])
    return points.dropna(subset=["negatives", *_titles()]).reset_index(drop=True)


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


def explanations(points: pd.DataFrame) -> pd.DataFrame:
    """How well each quantity alone orders the settings: Spearman's correlation with accuracy.

    Args:
        points: see :func:`sharpness_points`; settings that lack a quantity are left out.

    Returns:
        One row a quantity, by its words, the one with the largest mean absolute correlation first.
        A column for each measure and data set, and, of two data sets or more, one across them,
        with the settings of all together: accuracy is then taken below the best setting of the
        same data set, and the quantity as it is. So it is large only where the same value is good
        on every data set. Empty without settings.
    """
    whole = points.dropna(subset=list(QUANTITIES))
    columns: dict[tuple[str, str], dict[str, float]] = {}
    for measure in _titles() if len(whole) else ():
        below = whole[measure] - whole.groupby("data")[measure].transform("max")
        groups = {data: own.index for data, own in whole.groupby("data", sort=False)}
        if len(groups) > 1:
            groups["across data sets"] = whole.index
        for data, rows in groups.items():
            columns[measure, str(data)] = {
                words: float(spearmanr(whole.loc[rows, name], below[rows]).statistic)
                for name, words in QUANTITIES.items()
            }
    found = pd.DataFrame(columns)
    order = found.abs().mean(axis=1).sort_values(ascending=False, kind="stable").index
    return found.loc[order]


def _data(chosen: Study) -> str:
    """The words for a study's data."""
    if chosen is STATIC:
        return "sentences (STS-B)"
    return chosen.data or title(str(chosen.settings["dataset"]))


def _titles() -> list[str]:
    return [MEASURES[metric] for metric in PRIMARY_MEASURES]
