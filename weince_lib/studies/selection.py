"""Which setting validation chooses, and how two methods then compare (paper Appendix F.1 to F.4).

Within a method validation chooses the setting, for every metric on its own, and the test set shows
what was chosen. Probe and split seeds are averaged within an encoder; intervals are over encoders;
the difference of two methods is taken within encoder seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..evaluation import (
    Interval,
    PairedDifference,
    mean_within,
    paired_difference,
    select_on_validation,
    t_interval,
)
from .collect import STUDY_COLUMNS, load_results, load_study
from .floors import floor_table
from .grid import Study

#: Columns of :func:`seed_table`.
SEED_COLUMNS = ("method", "setting", "seed", "accuracy", "negative_entropy", "mean_lambda")


@dataclass(frozen=True)
class Chosen:
    """What validation chose for a method and a metric.

    Attributes:
        setting: the chosen one.
        settings: how many there were to choose from.
        validation: of the chosen setting, by which it was chosen; best of many, so biased upwards.
        test: mean over encoder seeds with its 95 % t-interval.
        by_seed: the test metric of each encoder seed.
        tied: settings with the same validation mean that came later in the study's order.
        left_out: settings that had no part because encoder seeds are missing.
    """

    setting: str
    settings: int
    validation: Interval
    test: Interval
    by_seed: dict[int, float]
    tied: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def choose(frame: pd.DataFrame, settings: Sequence[str], metric: str) -> Chosen | None:
    """Let validation choose among settings.

    Args:
        frame: rows of a study, see :func:`study_frame`.
        settings: labels in the order that breaks ties. Those with fewer encoder seeds than the
            fullest would be compared on other seeds; they are left out and named.
        metric: validation and test both in ``frame``.

    Returns:
        The choice; ``None`` if there are no rows.

    Raises:
        ValueError: for an encoder seed with a validation and no test metric or the reverse, or
            with another number of probe or split seeds than the others.
    """
    rows = frame[frame["metric"] == metric]
    found: dict[str, dict[str, dict[int, float]]] = {}
    for label in settings:
        own = rows[rows["setting"] == label]
        if own.empty:
            continue
        found[label] = {split: _by_seed(own, split) for split in ("validation", "test")}
        if found[label]["validation"].keys() != found[label]["test"].keys():
            raise ValueError(f"{metric} of {label!r}: validation and test have different seeds")
    if not found:
        return None
    fullest = max((v["test"].keys() for v in found.values()), key=len)
    fit = {label: v for label, v in found.items() if v["test"].keys() == fullest}
    validation = {label: v["validation"] for label, v in fit.items()}
    best = select_on_validation(validation)
    means = {label: t_interval(list(v.values())).mean for label, v in validation.items()}
    # Means of the same counts in another order differ in the last bits.
    tied = [s for s in fit if s != best and math.isclose(means[s], means[best], rel_tol=1e-12)]
    if tied:  # the first in order wins a tie up to rounding, too
        best, *tied = [label for label in fit if label == best or label in tied]
    test = fit[best]["test"]
    return Chosen(
        setting=best,
        settings=len(settings),
        validation=t_interval(list(validation[best].values())),
        test=t_interval(list(test.values())),
        by_seed=test,
        tied=tuple(tied),
        left_out=tuple(label for label in settings if label not in fit),
    )


def study_frame(study: Study) -> pd.DataFrame:
    """A study's rows: its own table, and what its profile's table has of its runs."""
    frame = load_study(study.name)
    others = load_results(study.profile)
    others = others[(others["experiment"] == study.experiment) & ~others["key"].isin(frame["key"])]
    if others.empty:
        return frame
    labels = {run.key: run.setting for run in study.runs()}
    others = others.assign(setting=others["key"].map(labels))
    parts = [part for part in (frame, others[others["setting"].notna()]) if len(part)]
    return pd.concat(parts)[list(STUDY_COLUMNS)] if parts else frame


def chosen_by_method(study: Study, frame: pd.DataFrame, metric: str) -> dict[str, Chosen]:
    """The choice of every method of a study that has rows."""
    chosen = {
        name: choose(frame, [s.label for s in settings], metric)
        for name, settings in study.methods.items()
    }
    return {name: c for name, c in chosen.items() if c is not None}


def compare(a: Chosen, b: Chosen) -> PairedDifference | None:
    """Paired difference a - b of the test metric; ``None`` without a shared encoder seed."""
    if not a.by_seed.keys() & b.by_seed.keys():
        return None
    return paired_difference(a.by_seed, b.by_seed)


def seed_table(
    study: Study, frame: pd.DataFrame, metric: str, chosen: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Test values of methods with one setting: one row a method and encoder seed.

    Args:
        study: gives the methods.
        frame: its rows, see :func:`study_frame`.
        metric: whose test value is ``accuracy``, in percent.
        chosen: setting of methods that have several; a method that lacks one is left out.

    Returns:
        :data:`SEED_COLUMNS`; ``negative_entropy`` and ``mean_lambda`` are NaN for runs that lack
        them. Empty for a frame without such rows.
    """
    rows: list[tuple[Any, ...]] = []
    wanted = [(metric, "test"), ("negative_entropy", "train"), ("mean_lambda", "train")]
    value = frame.groupby(["setting", "seed", "metric", "split"])["value"].mean().to_dict()
    for method, settings in study.methods.items():
        label = settings[0].label if len(settings) == 1 else (chosen or {}).get(method)
        if label is None:
            continue
        for seed in study.seeds:
            own = [value.get((label, seed, *which), math.nan) for which in wanted]
            if not math.isnan(own[0]):
                rows.append((method, label, seed, *own))
    return pd.DataFrame(rows, columns=list(SEED_COLUMNS))


def method_table(study: Study, frame: pd.DataFrame, metrics: Iterable[str]) -> pd.DataFrame:
    """Numbers of every method, then of the study's floors: one row a metric and method.

    Columns: ``metric, method, setting, settings`` (how many there were), ``validation, value, low,
    high`` (test), ``seeds, tied, left_out``. Floors (see :mod:`.floors`) have no setting and no
    choice of one; pixels have no seeds either.
    """
    rows: list[dict[str, Any]] = []
    for metric in metrics:
        for method, c in chosen_by_method(study, frame, metric).items():
            own: dict[str, Any] = {"metric": metric, "method": method, "setting": c.setting}
            own |= {"settings": c.settings, "validation": c.validation.mean}
            own |= {"value": c.test.mean, "low": c.test.low, "high": c.test.high}
            own |= {"seeds": c.test.n, "tied": len(c.tied), "left_out": len(c.left_out)}
            rows.append(own)
        test, validation = (
            floor_table(study, [metric], split).set_index("kind")
            for split in ("test", "validation")
        )
        for kind, floor in test.to_dict("index").items():
            own = {"metric": metric, "method": floor["floor"], "setting": "", "settings": 1}
            own |= {"validation": validation["value"].get(kind, math.nan)}
            own |= {name: floor[name] for name in ("value", "low", "high", "seeds")}
            rows.append(own | {"tied": 0, "left_out": 0})
    return pd.DataFrame(rows)


def _by_seed(rows: pd.DataFrame, split: str) -> dict[int, float]:
    own = rows[rows["split"] == split].astype({"seed": int})
    replicates = {int(str(s)): g["value"].tolist() for s, g in own.groupby("seed")}
    return mean_within(replicates) if replicates else {}
