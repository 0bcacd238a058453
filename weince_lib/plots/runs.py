"""Figures of training runs and studies: images, losses, sentences, contrasts of the settings."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from ..evaluation import Interval, paired_difference, t_interval
from .style import (
    DATA_COLOUR,
    LOSS_COLOURS,
    LOSS_NAMES,
    PAGE_WIDTH,
    REFERENCE_COLOUR,
    legend_below,
    note,
    style,
)

if TYPE_CHECKING:  # pandas takes a second to load, and only the types need it
    import pandas as pd

#: Method to metric by encoder seed.
BySeed = Mapping[str, Mapping[int, float]]
#: Colour and marker of the first, second, ... data set; both tell them apart. The colours are Paul
#: Tol's muted ones, safe for colour-blind readers, and none is a loss's.
_LOOKS = (("#332288", "o"), ("#117733", "D"), ("#882255", "s"), ("#999933", "^"))
#: Distance of two data sets within a contrast, where neighbouring contrasts are 1 apart.
_APART = 0.22


@style()
def training_history(history: Sequence[dict[str, float]], loss: str) -> Figure:
    """Loss per epoch, and for WEINCE the mean blend weight and the median tail index.

    Args:
        history: one row per epoch, as :func:`weince_lib.vision.train` returns it.
        loss: the loss's label, for its colour and name.
    """
    panels = [("loss", "loss (nats per anchor)")]
    if "lam" in history[0]:
        panels += [("lam", "mean λ over anchors"), ("beta", "median β̂ over anchors")]
    epochs = range(1, len(history) + 1)
    figure, axes = plt.subplots(
        1, len(panels), figsize=(PAGE_WIDTH * len(panels) / 3, 2.2), squeeze=False
    )
    for panel, (name, label) in zip(axes[0], panels, strict=True):
        panel.plot(epochs, [row[name] for row in history], color=LOSS_COLOURS[loss])
        panel.set(xlabel="epoch", ylabel=label)
    figure.suptitle(LOSS_NAMES[loss], fontsize=9)
    return figure


@style()
def view_pairs(images: Tensor, views: tuple[Tensor, Tensor]) -> Figure:
    """Images above their two augmented views.

    Args:
        images: uint8, shape ``(n, C, H, W)``, one column each.
        views: two float batches in [0, 1] of the same shape.
    """
    rows = (("image", images.float() / 255), ("view 1", views[0]), ("view 2", views[1]))
    figure, axes = plt.subplots(
        3, len(images), figsize=(PAGE_WIDTH, PAGE_WIDTH * 3 / len(images)), squeeze=False
    )
    for panels, (name, batch) in zip(axes, rows, strict=True):
        for panel, image in zip(panels, batch, strict=True):
            panel.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
            panel.grid(visible=False)
        panels[0].set_ylabel(name)
    return figure


@style()
def contrast_forest(
    found: pd.DataFrame,
    measures: Mapping[str, str],
    margin: float,
) -> Figure:
    """Differences in points with their intervals: a group of rows a contrast, a panel a measure.

    Args:
        found: rows ``contrast, data, metric, difference, low, high``, first contrast on top. Rows
            without a difference are left out; without an interval there is a point alone.
        measures: metrics to show, with the panels' titles; one without rows is left out.
        margin: differences smaller than this do not matter; the band is shaded.

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
    columns = min(2, len(titles))
    rows = -(-len(titles) // columns)
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
        axes.set_xlabel("difference, points")
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=4.5, label=name)
        for name, (colour, marker) in zip(data, _LOOKS, strict=False)
    ]
    band = Patch(color=REFERENCE_COLOUR, alpha=0.22, label=f"within ±{margin:g}")
    figure.legend(handles=[*handles, band], loc="outside lower center", ncols=len(handles) + 1)
    return figure


@style()
def sharpness_ranking(
    points: pd.DataFrame, measures: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> Figure:
    """Accuracy against the effective number of negatives: a row of panels a measure.

    Args:
        points: one row a setting, with ``data, loss, temperature, negatives`` and a column for each
            measure, in points above InfoNCE at tau = 0.5. A column of panels for each data set. A
            line joins the settings of InfoNCE in the order of their temperatures.
        measures: the columns to show.
        groups: labels of losses that are drawn alike, under the name for the legend; the first has
            the colour. Losses of no group are drawn as "others".

    Raises:
        ValueError: if there are no points.
    """
    if points.empty:
        raise ValueError("no study has runs whose sharpness could be drawn")
    data = list(dict.fromkeys(points["data"]))
    figure, grid = plt.subplots(
        len(measures),
        len(data),
        sharex=True,
        squeeze=False,
        figsize=(PAGE_WIDTH, 0.7 + 1.8 * len(measures)),
    )
    member = {loss: name for name, losses in groups.items() for loss in losses}
    looks: dict[str, dict[str, Any]] = {
        name: {"color": LOSS_COLOURS[losses[0]], "marker": marker}
        for (name, losses), marker in zip(groups.items(), "osD^v", strict=False)
    } | {"others": {"color": DATA_COLOUR, "marker": "P"}}
    of = points["loss"].map(member).fillna("others")
    for row, measure in zip(grid, measures, strict=True):
        for axes, name in zip(row, data, strict=True):
            here = points["data"] == name
            line = points[here & (points["loss"] == "infonce")].sort_values("temperature")
            axes.plot(line["negatives"], line[measure], color=LOSS_COLOURS["infonce"], lw=0.8)
            for group, look in looks.items():
                own = points[here & (of == group)]
                axes.plot(own["negatives"], own[measure], ls="", ms=4, alpha=0.8, **look)
            axes.axhline(0.0, color=REFERENCE_COLOUR, lw=0.8)
            axes.set_xscale("log")
            axes.set_xticks([10, 30, 100, 300], ["10", "30", "100", "300"])
            axes.minorticks_off()
        row[0].set_ylabel(f"{measure}, points\nabove InfoNCE τ = 0.5")
    for axes, name in zip(grid[0], data, strict=True):
        axes.set_title(name)
    for axes in grid[-1]:
        axes.set_xlabel("effective negatives")
    used = [name for name in looks if (of == name).any()]
    handles = [Line2D([], [], ls="", ms=5, label=name, **looks[name]) for name in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


@style()
def explanations(table: pd.DataFrame) -> Figure:
    """Which quantity orders the losses: a field of correlations, blue below 0 and orange above.

    Args:
        table: a row a quantity, columns (measure, data set), values from -1 to 1.

    Raises:
        ValueError: for an empty table.
    """
    if table.empty:
        raise ValueError("no study has runs whose quantities could be drawn")
    measures = list(dict.fromkeys(table.columns.get_level_values(0)))
    figure, panels = plt.subplots(
        1,
        len(measures),
        squeeze=False,
        sharey=True,
        figsize=(PAGE_WIDTH, 1.1 + 0.32 * len(table)),
    )
    colours = LinearSegmentedColormap.from_list(
        "correlation", [LOSS_COLOURS["infonce"], "#FFFFFF", LOSS_COLOURS["weince"]]
    )
    for axes, measure in zip(panels[0], measures, strict=True):
        own = table[measure]
        axes.imshow(own.to_numpy(), cmap=colours, vmin=-1, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(own.to_numpy()):
            ink = "white" if abs(value) > 0.75 else "black"
            axes.text(column, row, f"{value:+.2f}", ha="center", va="center", size=8, color=ink)
        names = [textwrap.fill(str(data), 9) for data in own.columns]
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(own)), list(own.index))
        axes.set_title(measure)
        axes.grid(visible=False)
        axes.tick_params(length=0)
    return figure


@style()
def simcse_sts(
    best: BySeed,
    last: BySeed,
    reported: Mapping[str, tuple[float, float]],
    simcse: float,
    gain: float,
    *,
    names: Mapping[str, str],
    baseline: str = "infonce",
    start: float = math.nan,
) -> Figure:
    """STS scores of every seed and method, their paired differences, and the paper's for scale.

    Args:
        best: method to test score by seed, of the checkpoint that was best on dev; empty, it
            leaves the figure with the paper's numbers.
        last: the same of the last checkpoint; may lack methods.
        reported: the paper's mean and 95 % half-width by loss, of its own encoder.
        simcse: the score in SimCSE's own paper.
        gain: the paper's WEINCE minus InfoNCE.
        names: method to what the figure calls it.
        baseline: the method that differences are taken from.
        start: test score before training, drawn across ours; left out if NaN.

    Raises:
        KeyError: if ``best`` has methods and lacks the baseline.
    """
    if best and baseline not in best:
        raise KeyError(f"no scores of {baseline!r}, which differences are taken from")
    methods, others = list(best), [m for m in best if m != baseline]
    figure = plt.figure(figsize=(PAGE_WIDTH, 5.2))
    grid = figure.add_gridspec(2, 2, width_ratios=(3.2, 1.3), height_ratios=(1.25, 1))
    levels = figure.add_subplot(grid[0, 0])
    _levels(levels, best, methods)
    levels.set(ylabel="Spearman × 100", title="Ours, one line a seed")
    if math.isfinite(start):
        levels.axhline(start, color=DATA_COLOUR, lw=1, ls="-.")
        look = {"xycoords": ("axes fraction", "data"), "ha": "right", "fontsize": 7}
        note(levels, "before training", (0.99, start), (0, 3), **look)
    _method_ticks(levels, methods, names)
    _reported(figure.add_subplot(grid[0, 1]), reported, simcse)
    gains = figure.add_subplot(grid[1, 0])
    _gains(gains, best, last, others, baseline)
    gains.axhline(gain, color=REFERENCE_COLOUR, ls="--", lw=1)
    gains.set(ylabel=f"minus {names[baseline].splitlines()[0]}\n(points, within seeds)")
    _method_ticks(gains, others, names)
    key = figure.add_subplot(grid[1, 1])
    key.axis("off")
    handles = [
        Line2D([], [], color=DATA_COLOUR, marker="o", ms=4, label="best on dev"),
        Line2D([], [], color=DATA_COLOUR, marker="o", ms=4, mfc="w", label="last checkpoint"),
        Line2D([], [], color=REFERENCE_COLOUR, ls="--", lw=1, label=f"paper, +{gain:.2f}"),
    ]
    key.legend(handles=handles, loc="center left", title="mean, 95 % interval", fontsize=7.5)
    return figure


@style()
def dev_curves(histories: Mapping[tuple[str, int], Sequence[Mapping[str, float]]]) -> Figure:
    """Dev score along training, with the checkpoint that is kept for being best.

    Args:
        histories: ``(loss label, seed)`` to rows with ``step`` and ``dev``.
    """
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 2.5))
    for (loss, _), rows in histories.items():
        steps, dev = ([row[name] for row in rows] for name in ("step", "dev"))
        axes.plot(steps, dev, color=LOSS_COLOURS[loss], lw=1.2, alpha=0.8)
        peak = int(np.argmax(dev))
        axes.plot(steps[peak], dev[peak], "o", ms=5, color=LOSS_COLOURS[loss])
    for loss in dict.fromkeys(loss for loss, _ in histories):
        axes.plot([], [], "-o", ms=5, color=LOSS_COLOURS[loss], label=LOSS_NAMES[loss])
    axes.set(xlabel="optimiser step", ylabel="dev Spearman × 100")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


@style()
def evidence_along_training(evidence: pd.DataFrame, ready: Mapping[str, float]) -> Figure:
    """Tail shape, nearest negative and chosen link at the start, the middle and the end.

    Args:
        evidence: may be empty; one row a run and stage, with columns ``loss, seed, stage`` (0, 0.5,
            1) and the three metrics ``gpd_shape_q99, rho_median, lambda_hat``. Thin lines are
            seeds, thick ones their mean.
        ready: the same metrics of a public encoder, drawn across; may be empty.
    """
    panels = {
        "gpd_shape_q99": "GPD shape ξ̂ above the\n0.99 quantile of negatives",
        "rho_median": "median ρ: shortfall of the\nhardest negative",
        "lambda_hat": "λ̂ of link selection",
    }
    figure, axes = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.7))
    if evidence.empty:
        _nothing(axes[1])
    for panel, (metric, label) in zip(axes, panels.items(), strict=True):
        for loss, own in evidence.groupby("loss", sort=False):
            colour = LOSS_COLOURS[str(loss)]
            for _, run in own.sort_values("stage").groupby("seed"):
                panel.plot(run["stage"], run[metric], color=colour, lw=0.6, alpha=0.5)
            mean = own.groupby("stage")[metric].mean()
            panel.plot(mean.index, mean, "-o", ms=4, color=colour, label=LOSS_NAMES[str(loss)])
        if metric in ready:
            panel.axhline(ready[metric], color=DATA_COLOUR, ls="-.", lw=1, label="all-MiniLM-L6-v2")
        elif ready:
            untold = "all-MiniLM-L6-v2:\nevery positive is first,\nno link can be told"
            look = {"xycoords": "axes fraction", "ha": "center", "va": "top", "fontsize": 6.5}
            note(panel, untold, (0.5, 0.9), (0, 0), **look)
        panel.set(ylabel=label, xlim=(-0.1, 1.1))
        panel.set_xticks([0, 0.5, 1], ["start", "middle", "end"])
    axes[0].axhline(0, color=REFERENCE_COLOUR, lw=0.8)
    note(axes[0], "ξ = 0: exponential tail", (0.02, 0), (0, 3), fontsize=7)
    axes[0].margins(y=0.12)
    axes[1].set_ylim(bottom=0)
    axes[2].set_ylim(-0.03, 1.03)
    if axes[0].get_legend_handles_labels()[0]:
        legend_below(figure, axes[0], 4, fontsize=7.5)
    return figure


def _nothing(axes: Axes) -> None:
    axes.text(
        0.5, 0.5, "not run yet", transform=axes.transAxes, ha="center", color=REFERENCE_COLOUR
    )


def _colour(method: str) -> str:
    """A method that only chooses another temperature has its loss's colour."""
    return LOSS_COLOURS.get(method) or LOSS_COLOURS.get(method.split("-")[0], DATA_COLOUR)


def _interval(
    axes: Axes, x: float, interval: Interval, colour: str, *, filled: bool = True
) -> None:
    spread = 0.0 if np.isnan(interval.low) else interval.half_width
    face = colour if filled else "white"
    axes.errorbar(x, interval.mean, spread, fmt="o", ms=4.5, color=colour, mfc=face, capsize=2)


def _method_ticks(axes: Axes, methods: Sequence[str], names: Mapping[str, str]) -> None:
    axes.set_xticks(range(len(methods)), [names[m] for m in methods], fontsize=7)
    axes.set_xlim(-0.5, max(len(methods), 1) - 0.5)
    if not methods:
        _nothing(axes)
    axes.grid(visible=False, axis="x")


def _levels(axes: Axes, best: BySeed, methods: Sequence[str]) -> None:
    for seed in sorted({seed for values in best.values() for seed in values}):
        line = [best[m].get(seed, np.nan) for m in methods]
        axes.plot(range(len(methods)), line, color=REFERENCE_COLOUR, lw=0.7, zorder=1)
    for x, method in enumerate(methods):
        values = list(best[method].values())
        axes.plot([x] * len(values), values, "o", ms=3, color=_colour(method), alpha=0.6)
        _interval(axes, x + 0.2, t_interval(values), _colour(method))


def _reported(axes: Axes, reported: Mapping[str, tuple[float, float]], simcse: float) -> None:
    for x, (loss, (mean, half)) in enumerate(reported.items()):
        axes.errorbar(x, mean, half, fmt="s", ms=5, color=LOSS_COLOURS[loss], capsize=3)
    axes.axhline(simcse, color=DATA_COLOUR, lw=1, ls=":")
    note(axes, f"SimCSE's\nown {simcse:.2f}", (0.0, simcse), (0, 3), fontsize=7, ha="center")
    axes.set_xticks(range(len(reported)), [LOSS_NAMES[loss].split(" ")[0] for loss in reported])
    axes.set_xlim(-0.6, len(reported) - 0.4)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title("Paper: BERT-base")


def _gains(axes: Axes, best: BySeed, last: BySeed, methods: Sequence[str], baseline: str) -> None:
    for x, method in enumerate(methods):
        for shift, table, filled in ((-0.13, best, True), (0.13, last, False)):
            if not (method in table and baseline in table):
                continue
            if not table[method].keys() & table[baseline].keys():
                continue
            pair = paired_difference(table[method], table[baseline])
            each = [table[method][s] - table[baseline][s] for s in pair.seeds]
            axes.plot([x + shift] * len(each), each, ".", ms=3.5, color=REFERENCE_COLOUR, zorder=1)
            _interval(axes, x + shift + 0.06, pair.interval, _colour(method), filled=filled)
    axes.axhline(0, color=DATA_COLOUR, lw=0.8)
