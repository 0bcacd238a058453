"""Figure of the studies' contrasts: every interval of the decision rule, grouped by contrast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .style import PAGE_WIDTH, REFERENCE_COLOUR, style

if TYPE_CHECKING:  # pandas takes a second to load, and only the types need it
    import pandas as pd

#: Colour and marker of the first, second, ... data set; both tell them apart. The colours are Paul
#: Tol's muted ones, safe for colour-blind readers, and none is a loss's.
_LOOKS = (("#332288", "o"), ("#117733", "D"), ("#882255", "s"), ("#999933", "^"))
#: Distance of two data sets within a contrast, where neighbouring contrasts are 1 apart.
_APART = 0.22


def contrast_forest(
    found: pd.DataFrame,
    measures: Mapping[str, str],
    margin: float,
    *,
    columns: int = 2,
    unit: str = "points",
) -> Figure:
    """Differences with their intervals: a group of rows a contrast, a panel a measure.

    Args:
        found: rows ``contrast, data, metric, difference, low, high``, first contrast on top. Rows
            without a difference are left out; without an interval there is a point alone.
        measures: metrics to show, with the panels' titles; one without rows is left out.
        margin: differences smaller than this do not matter; the band is shaded.
        columns: panels beside each other; they share the contrasts' names.
        unit: of the differences.

    Returns:
        The figure. A filled marker says that the interval leaves 0 out.

    Raises:
        ValueError: if no row has a difference, or there are more data sets than looks.
    """
    found = found.dropna(subset=["difference"])
    titles = {m: t for m, t in measures.items() if (found["metric"] == m).any()}
    if not titles:
        raise ValueError("no contrast has a difference to draw")
    contrasts = list(dict.fromkeys(found["contrast"]))
    data = list(dict.fromkeys(found["data"]))
    if len(data) > len(_LOOKS):
        raise ValueError(f"at most {len(_LOOKS)} data sets fit into a figure, got {len(data)}")
    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    with style():
        height = 0.7 + rows * (0.5 + len(contrasts) * (0.16 + 0.13 * len(data)))
        figure, grid = plt.subplots(
            rows, columns, sharey=True, squeeze=False, figsize=(PAGE_WIDTH, height)
        )
        for axes in grid.flat[len(titles) :]:
            axes.axis("off")
        for axes, (metric, title) in zip(grid.flat, titles.items(), strict=False):
            axes.axvspan(-margin, margin, color=REFERENCE_COLOUR, alpha=0.22, linewidth=0)
            axes.axvline(0.0, color=REFERENCE_COLOUR, linewidth=1.0)
            for row in found[found["metric"] == metric].to_dict("records"):
                which = data.index(row["data"])
                place = contrasts.index(row["contrast"]) + _APART * (which - (len(data) - 1) / 2)
                colour, marker = _LOOKS[which]
                axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=1.5)
                apart = row["low"] > 0 or row["high"] < 0
                face = colour if apart else "white"
                axes.plot(
                    row["difference"],
                    place,
                    marker,
                    color=colour,
                    markerfacecolor=face,
                    markersize=4.5,
                )
            for edge in range(len(contrasts) - 1):
                axes.axhline(edge + 0.5, color=REFERENCE_COLOUR, linewidth=0.4)
            axes.set_yticks(range(len(contrasts)), contrasts)
            axes.set_ylim(len(contrasts) - 0.5, -0.5)
            axes.tick_params(axis="y", length=0)
            axes.set_title(title)
            axes.grid(visible=False, axis="y")
        for axes in grid[-1]:
            axes.set_xlabel(f"difference, {unit}")
        handles = [
            Line2D([], [], color=colour, marker=marker, markersize=4.5, label=name)
            for name, (colour, marker) in zip(data, _LOOKS, strict=False)
        ]
        band = Patch(color=REFERENCE_COLOUR, alpha=0.22, label=f"within ±{margin:g}")
        figure.legend(handles=[*handles, band], loc="outside lower center", ncols=len(handles) + 1)
    return figure
