"""Figure 6: where positives lose, and where each loss puts its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from .style import DATA_COLOUR, LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, REFERENCE_COLOUR, style

FITTED = "infonce-fitted"
#: Cosine at which the axis starts; what lies below is in no panel.
_LEAST = -0.4
_NAMES = LOSS_NAMES | {
    "infonce": "InfoNCE, τ as trained",
    FITTED: "InfoNCE, τ fitted to the winners",
    "weibit": "Weibit (β = 1)",
}
_COLOURS = LOSS_COLOURS | {FITTED: LOSS_COLOURS["infonce"]}


def allocation(
    edges: Sequence[float],
    shares: Mapping[int, Mapping[str, np.ndarray]],
) -> Figure:
    """Shares of risk and gradient over bins of cosine, one panel for each K.

    Args:
        edges: of the bins.
        shares: K to ``"risk"`` and losses to shares, shape ``(bins,)`` each.
    """
    centres = 0.5 * (np.asarray(edges[1:]) + np.asarray(edges[:-1]))
    seen = centres > _LEAST
    with style():
        figure, panels = plt.subplots(
            1, len(shares), figsize=(PAGE_WIDTH, 3.1), sharey=True, squeeze=False
        )
        for axes, (size, found) in zip(panels[0], shares.items(), strict=True):
            axes.bar(
                centres[seen],
                np.asarray(found["risk"])[seen],
                width=0.09,
                color=DATA_COLOUR,
                alpha=0.35,
                label="risk: where positives lose",
            )
            for loss in ("infonce", FITTED, "weibit", "weince"):
                if loss in found:
                    axes.plot(
                        centres[seen],
                        np.asarray(found[loss])[seen],
                        "--" if loss == FITTED else "-",
                        color=_COLOURS[loss],
                        label=_NAMES[loss],
                    )
            axes.set(xlabel="cosine of the negative", title=f"K = {size:,}", xlim=(_LEAST, 1.02))
        panels[0][0].set(ylabel="share of risk, share of gradient")
        figure.legend(
            *panels[0][-1].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=3,
            fontsize=8,
        )
    return figure


def allocation_curves(
    infonce: Mapping[str, Sequence[Sequence[float]]],
    weibit: Mapping[str, Sequence[Sequence[float]]],
    trained: float,
    fitted: float,
) -> Figure:
    """Distance between gradient and risk over InfoNCE's temperature and Weibit's tail index.

    Args:
        infonce: encoder to ``(temperatures, distances)``.
        weibit: encoder to ``(tail indices, distances)``.
        trained: temperature of training.
        fitted: temperature that explains the winners best.
    """
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.6), sharey=True)
        for axes, curves, loss in ((left, infonce, "infonce"), (right, weibit, "weibit")):
            for x, y in curves.values():
                axes.plot(x, y, "o-", ms=3, lw=1.2, color=LOSS_COLOURS[loss])
            axes.set(xscale="log")
            axes.axhline(0, color=REFERENCE_COLOUR, lw=0.8)
        for mark, label, at in (
            (trained, "as trained", 0.12),
            (fitted, "fitted to\nthe winners", 0.9),
        ):
            left.axvline(mark, color=REFERENCE_COLOUR, lw=1, ls=":")
            left.annotate(
                label,
                (mark, at),
                xycoords=("data", "axes fraction"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                va="top",
                fontsize=8,
            )
        left.set(
            xlabel="InfoNCE's temperature τ",
            ylabel="distance to the risk\n(share in wrong bins)",
            title="InfoNCE",
        )
        right.set(xlabel="tail index β", title="Weibit")
        right.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
        right.xaxis.set_minor_formatter(lambda *_: "")
        right.axvline(1.0, color=REFERENCE_COLOUR, lw=1, ls=":")
    return figure
