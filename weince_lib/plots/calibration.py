"""Figures of the tail evidence: how its gate is calibrated, and how it goes in training."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..diagnostics.calibration import GateShare
from .style import DATA_COLOUR, LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, style


def gate_calibration(
    shares: Sequence[GateShare],
    negatives: Sequence[int] | None = None,
    tail: int | None = None,
) -> Figure:
    """Share of anchors with an open gate: a map of laws over tail sizes per gate and batch size.

    Args:
        shares: cells of :func:`weince_lib.diagnostics.gate_shares`.
        negatives: numbers of negatives to draw, a column of maps each; all by default.
        tail: tail size to frame, for instance the default's; none by default.

    Raises:
        ValueError: if no cell has one of the numbers of negatives asked for.
    """
    columns = list(dict.fromkeys(c.negatives for c in shares) if negatives is None else negatives)
    missing = set(columns) - {c.negatives for c in shares}
    if missing or not columns:
        raise ValueError(f"no cells with {sorted(missing)} negatives; none to draw")
    gates = list(dict.fromkeys(c.gate for c in shares))
    cells = sorted(shares, key=lambda c: not c.endpoint)  # stable: the laws keep their order
    laws = list(dict.fromkeys(c.law for c in cells))
    ending = len({c.law for c in cells if c.endpoint})
    value = {(c.gate, c.negatives, c.law, c.tail): c.share for c in shares}
    with style():
        figure, panels = plt.subplots(
            len(gates),
            len(columns),
            figsize=(PAGE_WIDTH, 0.7 + len(gates) * (0.45 + 0.155 * len(laws))),
            sharey=True,
            squeeze=False,
        )
        for row, gate in zip(panels, gates, strict=True):
            for axes, n in zip(row, columns, strict=True):
                tails = sorted({c.tail for c in shares if c.negatives == n})
                table = np.array(
                    [[value.get((gate, n, law, k), np.nan) for k in tails] for law in laws]
                )
                image = axes.imshow(table, vmin=0, vmax=1, cmap="cividis", aspect="auto")
                for (i, j), share in np.ndenumerate(table):
                    if np.isfinite(share):
                        colour = "white" if share < 0.5 else "black"
                        axes.text(
                            j,
                            i,
                            _percent(share),
                            ha="center",
                            va="center",
                            fontsize=6,
                            color=colour,
                        )
                axes.axhline(ending - 0.5, color="white", lw=2.5)
                if tail in tails:
                    corner = (tails.index(tail) - 0.5, -0.5)
                    frame = Rectangle(corner, 1, len(laws), fill=False, lw=1.3)
                    frame.set(edgecolor=LOSS_COLOURS["weince"], clip_on=False, zorder=3)
                    axes.add_patch(frame)
                axes.set_title(f"{n:,} negatives", fontsize=8)
                axes.set_xticks(range(len(tails)), [str(k) for k in tails], fontsize=7)
                axes.set_yticks(range(len(laws)), laws, fontsize=7)
                axes.grid(visible=False)
                axes.tick_params(length=0)
        for axes in panels[-1]:
            axes.set_xlabel("tail points k")
        for axes, gate in zip(panels[:, 0], gates, strict=True):
            axes.set_ylabel(f"gate: {gate}", fontsize=8)
        for axes in panels[:, -1]:
            for first, last, kind in ((0, ending, "endpoint"), (ending, len(laws), "none")):
                if last > first:
                    axes.annotate(
                        kind,
                        (1.0, (first + last - 1) / 2),
                        xycoords=("axes fraction", "data"),
                        xytext=(3, 0),
                        textcoords="offset points",
                        rotation=270,
                        va="center",
                        fontsize=7,
                        color=DATA_COLOUR,
                    )
        bar = figure.colorbar(image, ax=panels, shrink=0.5, aspect=30, pad=0.01)
        bar.set_label("share of anchors with an open gate (%)", fontsize=8)
        bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
    return figure


def _percent(share: float) -> str:
    """Whole percent; a rare opening shows as <1 and not as 0."""
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"


def tail_history(
    history: Sequence[dict[str, float]], loss: str = "weince", xlabel: str = "epoch"
) -> Figure:
    """What a :class:`weince_lib.losses.TailMonitor` saw: lambda and the gate, beta, rho.

    Args:
        history: one summary per epoch (or any other stretch of training), as
            :func:`weince_lib.vision.train` returns them.
        loss: the loss's label, for its colour and name.
        xlabel: what a summary stands for.

    Raises:
        ValueError: if a summary has no ``lam``, ``beta`` or ``rho``.
    """
    if not history or not all(row.keys() >= {"lam", "beta", "rho"} for row in history):
        raise ValueError("history has rows without lam, beta and rho: not of a TailMonitor")
    # A run resumed from an older checkpoint can lack the quantiles in its first rows.
    known = set.intersection(*(set(row) for row in history))
    x = range(1, len(history) + 1)
    colour = LOSS_COLOURS[loss]
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.5))
        for name, label, shade, dashes in (
            ("lam", "mean λ", colour, "-"),
            ("corrected", "share with λ > ½", colour, "--"),
            ("gate_open", "share with ΔAIC > m", DATA_COLOUR, ":"),
        ):
            if name in known:
                values = [row[name] for row in history]
                panels[0].plot(x, values, label=label, color=shade, ls=dashes)
        panels[0].set(ylabel="λ, and shares of anchors", ylim=(-0.02, 1.02))
        for axes, name, label in (
            (panels[1], "beta", "tail index β̂"),
            (panels[2], "rho", "nearest shortfall ρ"),
        ):
            bands = sorted(
                (key for key in known if key.startswith(f"{name}_q")),
                key=lambda key: float(key.partition("_q")[2]),
            )
            if len(bands) > 1:
                low, high = ([row[key] for row in history] for key in (bands[0], bands[-1]))
                between = " to ".join(key.partition("_q")[2] for key in (bands[0], bands[-1]))
                axes.fill_between(
                    x, low, high, color=colour, alpha=0.25, lw=0, label=f"{between} % of anchors"
                )
            axes.plot(x, [row[name] for row in history], color=colour, label="median")
            axes.set(ylabel=label)
        for axes in panels:
            axes.set(xlabel=xlabel)
        handles = [h for axes in panels[:2] for h in axes.get_legend_handles_labels()[0]]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=5, fontsize=7, columnspacing=1.2
        )
        figure.suptitle(LOSS_NAMES[loss], fontsize=9)
    return figure
