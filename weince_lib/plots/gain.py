"""Figures of the study of what drives the gain: accuracy against sharpness, and a forest plot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from .style import LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

if TYPE_CHECKING:  # pandas takes a second to load, and only the types need it
    import pandas as pd

#: Colours of families of settings, their loss's own where one loss makes the family.
FAMILY_COLOURS = {
    "InfoNCE": LOSS_COLOURS["infonce"],
    "with further losses": LOSS_COLOURS["weince-release"],
    "Weibit": LOSS_COLOURS["weibit"],
    "WEINCE": LOSS_COLOURS["weince"],
    "WEINCE, other tail index or gate": LOSS_COLOURS["weince-calibrated"],
    "WEINCE, λ of other anchors": LOSS_COLOURS["weince-custom"],
}
_MARKERS = dict(zip(FAMILY_COLOURS, "osD^v<", strict=True))


def accuracy_against_sharpness(
    table: pd.DataFrame, label: str = "accuracy, %", names: Mapping[str, str] | None = None
) -> Figure:
    """Accuracy of every setting against the effective number of negatives its loss pushes on.

    Args:
        table: rows ``method, family, accuracy, effective_negatives``, with ``accuracy_low`` and
            ``accuracy_high`` where there is an interval, as means over seeds.
        label: of the vertical axis.
        names: what to write beside some of the methods; InfoNCE's temperatures always are.
    """
    with style():
        figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 3.8))
        for row in table[table["method"].isin(names or {})].to_dict("records"):
            axes.annotate(
                (names or {})[row["method"]],
                (row["effective_negatives"], row["accuracy"]),
                xytext=(6, 4),
                textcoords="offset points",
                fontsize=7,
                color=FAMILY_COLOURS.get(row["family"], REFERENCE_COLOUR),
            )
        for family, colour in FAMILY_COLOURS.items():
            own = table[table["family"] == family].sort_values("effective_negatives")
            if own.empty:
                continue
            error = np.vstack(
                [own["accuracy"] - own["accuracy_low"], own["accuracy_high"] - own["accuracy"]]
            )
            axes.errorbar(
                own["effective_negatives"],
                own["accuracy"],
                yerr=np.nan_to_num(error),
                fmt=_MARKERS[family] + ("-" if family in ("InfoNCE", "Weibit") else ""),
                color=colour,
                markersize=5,
                linewidth=1.0,
                elinewidth=0.7,
                label=family,
            )
        softmax = table[table["family"] == "InfoNCE"].sort_values("effective_negatives")
        # Above and below in turn, and away from a neighbour: temperatures can end up equally sharp.
        x = softmax["effective_negatives"].to_numpy()
        near = np.r_[False, x[1:] < 1.1 * x[:-1], False]
        for place, row in enumerate(softmax.to_dict("records")):
            left, right = near[place], near[place + 1]
            axes.annotate(
                "τ = " + row["method"].removeprefix("infonce-"),
                (row["effective_negatives"], row["accuracy"]),
                xytext=(0, -11 if place % 2 else 6),
                textcoords="offset points",
                ha="center" if left == right else "left" if left else "right",
                fontsize=7,
                color=LOSS_COLOURS["infonce"],
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.6)))
        axes.set(xlabel="effective number of negatives, exp(mean entropy)", ylabel=label)
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=3)
    return figure


def forest(
    rows: pd.DataFrame, name: str = "method", label: str = "difference, points", title: str = ""
) -> Figure:
    """Differences with their intervals, one a row, first row on top.

    Args:
        rows: ``difference, low, high``, ``p_holm`` and the column ``name``; ``family`` gives
            colours where it is there. Without an interval (one seed) there is a hollow point.
        name: column of the rows' names.
        label: of the horizontal axis.
        title: of the figure.
    """
    with style():
        figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 0.9 + 0.22 * max(1, len(rows))))
        axes.axvline(0.0, color=REFERENCE_COLOUR, linewidth=1.0)
        for place, row in enumerate(rows.to_dict("records")):
            colour = FAMILY_COLOURS.get(row.get("family", ""), LOSS_COLOURS["infonce"])
            several = row["high"] > row["low"]
            if several:
                axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.4)
            sure = several and row["p_holm"] < 0.05
            axes.plot(
                row["difference"],
                place,
                "o",
                color=colour,
                markerfacecolor=colour if sure else "white",
                markersize=5,
            )
        axes.set_yticks(range(len(rows)), rows[name].tolist())
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set(xlabel=label, title=title)
        axes.grid(visible=False, axis="y")
    return figure
