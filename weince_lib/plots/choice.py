"""Figures of notebook 01: winners against the softmax, and how well scores are recovered."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, style


def winner_shares(scores: np.ndarray, shares: Mapping[float, np.ndarray], draws: int) -> Figure:
    """Shares of simulated winners beside the softmax, which is a line of slope 1 / tau.

    Args:
        scores: shape ``(candidates,)``.
        shares: temperature to the share each candidate won, shape ``(candidates,)``.
        draws: choices behind each share, for the error bars.
    """
    with style():
        figure, panels = plt.subplots(
            1, len(shares), figsize=(PAGE_WIDTH, 2.4), sharey=True, squeeze=False
        )
        grid = np.linspace(scores.min(), scores.max(), 2)
        for axes, (temperature, share) in zip(panels[0], shares.items(), strict=True):
            total = np.exp(scores / temperature).sum()
            axes.plot(
                grid, np.exp(grid / temperature) / total, color=LOSS_COLOURS["infonce"], lw=1.2
            )
            error = 2 * np.sqrt(share * (1 - share) / draws)
            axes.errorbar(scores, share, error, fmt="o", ms=3, color=DATA_COLOUR, capsize=2, lw=1)
            axes.set(xlabel="score s", title=f"τ = {temperature:g}")
        panels[0, 0].set(ylabel="probability of winning", yscale="log")
        handles = [
            plt.Line2D([], [], color=LOSS_COLOURS["infonce"], lw=1.2, label="softmax(s/τ)"),
            plt.Line2D(
                [], [], color=DATA_COLOUR, marker="o", ms=3, ls="", label="simulated, ± 2 se"
            ),
        ]
        panels[0, -1].legend(handles=handles, loc="lower right")
    return figure


def score_recovery(
    sizes: np.ndarray,
    errors: Mapping[str, tuple[np.ndarray, np.ndarray]],
    theory: Mapping[str, np.ndarray],
) -> Figure:
    """Error of recovered scores against the number of observations.

    Args:
        sizes: numbers of observations, shape ``(sizes,)``.
        errors: kind of observation to ``(root mean square error, its standard error)``.
        theory: the same kinds to the error that the information predicts, shape ``(sizes,)``.
    """
    colours = (LOSS_COLOURS["infonce"], LOSS_COLOURS["weince"])
    with style():
        figure, axes = plt.subplots(figsize=(0.62 * PAGE_WIDTH, 2.7))
        for (kind, (error, spread)), colour in zip(errors.items(), colours, strict=False):
            axes.plot(sizes, theory[kind], color=colour, lw=1.2, label=f"{kind}: information")
            axes.errorbar(
                sizes, error, 2 * spread, fmt="o", ms=3.5, capsize=2, color=colour, label=kind
            )
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="observations",
            ylabel="root mean square error of a score",
        )
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axes.minorticks_off()
        axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
        low = min(values.min() for values in theory.values())
        high = max(values.max() for values in theory.values())
        axes.set_ylim(0.7 * low, 1.5 * high)
        axes.legend(loc="lower left", fontsize=7)
    return figure
