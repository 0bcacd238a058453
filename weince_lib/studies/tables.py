"""Tables 2, 3, 6 and 7: ours beside the paper's (paper section 4, Appendix F)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from .. import files, paths
from ..evaluation import RECALL_KS, Interval
from ..vision.datasets import title
from . import collect
from .floors import KINDS, floor_table
from .grid import PAPER_ENCODERS, STUDIES, Study, TextStudy, paper_cells
from .selection import chosen_by_method, compare, study_frame
from .study_types import label_in_symbols

#: Metrics of each of the paper's tables, under our names.
TABLES: dict[str, tuple[str, ...]] = {
    "2": ("linear_accuracy",),
    "3": tuple(f"recall_at_{k}" for k in RECALL_KS if k < 50),
    "6": ("knn_accuracy",),
    "7": ("recall_at_50",),
}
#: What ``paper/reported`` calls our data sets, encoders and metrics, where it differs.
REPORTED_NAMES = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "stl10": "STL10",
    "imagenet32": "ImageNet32",
    "tiny-imagenet": "TinyImageNet",
    "vit-small": "vit_small",
    "knn_accuracy": "knn_accuracy_50",
}
DIFFERENCE = "weince-minus-infonce"
#: Words for rows and columns.
ROW_NAMES = {"infonce": "InfoNCE", "weince": "WEINCE", DIFFERENCE: "WEINCE − InfoNCE"}
#: Floors and ceiling have rows where a study of ours has them.
ROW_NAMES |= KINDS
METRIC_NAMES = {"linear_accuracy": "linear accuracy", "knn_accuracy": "kNN accuracy, 50 votes"}
METRIC_NAMES["standardised_linear_accuracy"] = "linear accuracy, standardised features"
METRIC_NAMES |= {f"recall_at_{k}": f"R@{k}" for k in RECALL_KS}
#: What a cell without a number says.
NOT_GIVEN, NOT_IN_PAPER, NOT_RUN = "not in the sources", "not in the paper", "not run"


def paper_table(number: str, studies: Iterable[Study] | None = None) -> pd.DataFrame:
    """One of the paper's tables, the paper's numbers and ours in columns of their own.

    Every pair of data set and encoder of the paper has its rows, whether anyone has numbers for
    it or not, and every study of ours on other data adds its own. Ours are by the paper's
    protocol: InfoNCE as it comes, WEINCE chosen on validation where the study has a choice.

    Args:
        number: ``"2"``, ``"3"``, ``"6"`` or ``"7"``.
        studies: whose numbers are ours; all by default.

    Returns:
        One row a data set, encoder, metric and loss (``infonce``, ``weince`` and their
        difference; then the floors that our study has, under their names in :mod:`.floors`), with
        columns ``paper, paper_ci95, paper_source, ours, low, high, seeds, setting, study``. A
        difference of the paper's is that of its two means, without an interval, unless it gives
        one itself. Pixels have neither interval nor seeds.

    Raises:
        KeyError: for another number.
    """
    metrics = TABLES[number]
    reported = collect.load_reported()
    reported = reported[reported["table"].isin(list(TABLES))]
    ours: dict[tuple[str, str], tuple[Study, pd.DataFrame]] = {}
    for study in STUDIES.values() if studies is None else studies:
        # The four tables are of images, and other studies ask what drives a gain.
        if study.experiment == "vision" and {"infonce", "weince"} <= study.methods.keys():
            for cell, own in study_frame(study).groupby(["dataset", "encoder"]):
                ours[(str(cell[0]), str(cell[1]))] = (study, own)
    rows = []
    for dataset, encoder in dict.fromkeys([*paper_cells(), *ours]):
        source = ours.get((dataset, encoder))
        for metric in metrics:
            paper = _reported(reported, dataset, encoder, metric)
            measured = _measured(*source, metric) if source else {}
            row: dict[str, Any] = {"dataset": dataset, "encoder": encoder, "metric": metric}
            for loss in ("infonce", "weince", DIFFERENCE):
                rows.append(row | {"loss": loss} | paper.get(loss, {}) | measured.get(loss, {}))
            if source:
                rows += [row | floor for floor in _floors(source[0], metric)]
    columns = ["dataset", "encoder", "metric", "loss", "paper", "paper_ci95", "paper_source"]
    columns += ["ours", "low", "high", "seeds", "setting", "study"]
    return pd.DataFrame(rows, columns=columns)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """A table of :func:`paper_table` to read: rows by data set, encoder and metric, text cells.

    Cells that nobody has a number for say why.
    """
    rows = []
    for cell, group in table.groupby(["dataset", "encoder", "metric"], sort=False):
        dataset, encoder, metric = (str(part) for part in cell)
        row = {"data set": title(dataset), "encoder": encoder, "metric": METRIC_NAMES[metric]}
        for whose in ("paper", "ours"):
            for record in group.to_dict("records"):
                if whose == "ours" or record["loss"] not in KINDS:  # the paper has no floors
                    row[f"{whose}: {ROW_NAMES[record['loss']]}"] = cell_text(record, whose)
        seeds = group["seeds"].max()
        row["seeds"] = "" if pd.isna(seeds) else f"{int(seeds)}"
        rows.append(row)
    read = pd.DataFrame(rows).set_index(["data set", "encoder", "metric"])
    floors = [c for c in read.columns if c.removeprefix("ours: ") in KINDS.values()]
    read[floors] = read[floors].fillna(NOT_RUN)
    return read[[*(c for c in read.columns if c not in (*floors, "seeds")), *floors, "seeds"]]


def in_words(study: Study | TextStudy, table: pd.DataFrame) -> pd.DataFrame:
    """A study's table for readers: titles for its methods, symbols in its settings' labels.

    Args:
        study: knows the titles.
        table: any of its columns ``method``, ``against``, ``setting`` are put into words.
    """
    words = {"method": study.title, "against": study.title, "setting": label_in_symbols}
    return table.assign(**{name: table[name].map(words[name]) for name in words if name in table})


def wide(table: pd.DataFrame, whose: Literal["paper", "ours"]) -> pd.DataFrame:
    """Rows by data set, encoder and loss, a column a metric, as the paper prints Table 3."""
    rows = [
        {
            "data set": title(record["dataset"]),
            "encoder": record["encoder"],
            "loss": ROW_NAMES[record["loss"]],
            "metric": METRIC_NAMES[record["metric"]],
            "text": cell_text(record, whose),
        }
        for record in table.to_dict("records")
        if whose == "ours" or record["loss"] not in KINDS
    ]
    long = pd.DataFrame(rows)
    index = ["data set", "encoder", "loss"]
    found = long.pivot(index=index, columns="metric", values="text")
    order = pd.MultiIndex.from_frame(long[index].drop_duplicates())
    return found.reindex(order)[list(dict.fromkeys(long["metric"]))].rename_axis(columns=None)


def cell_text(record: Mapping[Any, Any], whose: str) -> str:
    """A number with its interval, or why there is none.

    Args:
        record: a row of :func:`paper_table`.
        whose: ``"paper"`` or ``"ours"``.
    """
    signed = "+" if record["loss"] == DIFFERENCE else ""
    value = record[whose]
    if pd.isna(value):
        in_paper = record["encoder"] in PAPER_ENCODERS.get(record["dataset"], ())
        return NOT_RUN if whose == "ours" else NOT_GIVEN if in_paper else NOT_IN_PAPER
    low, high = record["low"], record["high"]
    if whose == "ours" and signed and not pd.isna(low):
        return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"
    spread = (high - low) / 2 if whose == "ours" else record["paper_ci95"]
    return f"{value:{signed}.2f}" + ("" if pd.isna(spread) else f" ± {spread:.2f}")


def write_table(number: str, table: pd.DataFrame) -> Path:
    """Write a table of :func:`paper_table` to ``paper/results/tables/table_<number>.csv``."""
    target = paths.results() / "tables" / f"table_{number}.csv"
    with files.replacing(target) as aside:
        table.to_csv(aside, index=False, float_format="%.4f", lineterminator="\n")
    return target


def _reported(
    reported: pd.DataFrame, dataset: str, encoder: str, metric: str
) -> dict[str, dict[str, Any]]:
    """The paper's numbers of a cell by loss, and their difference."""
    names = [REPORTED_NAMES.get(name, name) for name in (dataset, encoder, metric)]
    rows = reported
    for column, name in zip(("dataset", "encoder", "metric"), names, strict=True):
        rows = rows[rows[column] == name]
    found = {
        str(row["loss"]): {
            "paper": row["value"],
            "paper_ci95": row["ci95"],
            "paper_source": row["source"],
        }
        for row in rows.to_dict("records")
    }
    if DIFFERENCE not in found and {"infonce", "weince"} <= found.keys():
        value = found["weince"]["paper"] - found["infonce"]["paper"]
        found[DIFFERENCE] = {"paper": value, "paper_source": "difference of the two"}
    return found


def _measured(study: Study, frame: pd.DataFrame, metric: str) -> dict[str, dict[str, Any]]:
    """Our numbers of a cell by loss, by the paper's protocol, and their paired difference."""
    chosen = chosen_by_method(study, frame, metric)
    infonce, weince = chosen.get("infonce"), chosen.get("weince-tuned", chosen.get("weince"))
    found = {
        loss: _ours(c.test, c.setting, study)
        for loss, c in (("infonce", infonce), ("weince", weince))
        if c is not None
    }
    pair = compare(weince, infonce) if infonce and weince else None
    if pair is not None:
        found[DIFFERENCE] = _ours(pair.interval, "paired by encoder seed", study)
    return found


def _floors(study: Study, metric: str) -> list[dict[str, Any]]:
    """Our floors of a cell, as far as they are there."""
    floors = floor_table(study, [metric]).rename(columns={"kind": "loss", "value": "ours"})
    floors = floors.assign(seeds=floors["seeds"].replace(0, math.nan), setting="", study=study.name)
    return floors.drop(columns="floor").to_dict("records")  # type: ignore[return-value]


def _ours(interval: Interval, setting: str, study: Study) -> dict[str, Any]:
    numbers = {"ours": interval.mean, "low": interval.low, "high": interval.high}
    return numbers | {"seeds": interval.n, "setting": setting, "study": study.name}
