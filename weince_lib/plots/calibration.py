"""Figure of the gate's calibration: how often it opens, by law, tail size and batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, style

if TYPE_CHECKING:  # the data type alone: diagnostics draws its report with this room
    from ..diagnostics.calibration import GateShare


def gate_calibration(
    shares: Sequence[GateShare],
    tail: int | None = None,
) -> Figure:
    """Share of anchors with an open gate: a map of laws over tail sizes per gate and batch size.

    Args:
        shares: cells of :func:`weince_lib.diagnostics.gate_shares`.
        tail: tail size to frame, for instance the default's; none by default.
    """
    columns = list(dict.fromkeys(c.negatives for c in shares))
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
