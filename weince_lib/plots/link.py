"""Figures about the link itself: coordinates, probabilities, gradients, lambda over anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from ..losses import TailEvidence, blended_logits
from .style import DATA_COLOUR, LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, REFERENCE_COLOUR, style


def coordinates(
    temperature: float = 0.5,
    beta: float = 2.0,
    blends: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
) -> Figure:
    """The blend of the two coordinates near the cap, and the gradient each candidate gets.

    Args:
        temperature: tau of the softmax coordinate.
        beta: tail index of the endpoint coordinate.
        blends: values of lambda to draw.
    """
    s = 1 - torch.logspace(0, -6, 2000, dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.75))
        # From InfoNCE's blue to Weibit's purple.
        blend = LinearSegmentedColormap.from_list(
            "", [LOSS_COLOURS[n] for n in ("infonce", "weibit")]
        )
        for lam in blends:
            colour = blend(lam)
            logit = blended_logits(s[None], lam * one, beta * one, temperature)[0]
            slope = (1 - lam) / temperature + lam * beta / (1 - s)
            name = {0.0: "λ = 0: InfoNCE", 1.0: "λ = 1: Weibit"}.get(lam, f"λ = {lam:g}")
            left.plot(s, logit, color=colour, label=name)
            right.plot(1 - s, slope, color=colour)
        left.axvline(1.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
        left.annotate(
            "cap",
            (1.0, 0.5),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            color=DATA_COLOUR,
            fontsize=8,
        )
        left.set(
            xlabel="cosine similarity s",
            ylabel="logit ℓ (nats)",
            title="Logit: bounded, or unbounded at the cap",
            xlim=(0.0, 1.02),
            ylim=(0, 10),
        )
        left.legend(loc="upper left")
        right.set(
            xscale="log",
            yscale="log",
            xlabel="shortfall 1 − s (closer to the cap →)",
            ylabel="dℓ/ds (nats per unit cosine)",
            title="Slope: how hard a candidate is pushed",
            xlim=(1.0, 1e-4),
            ylim=(1.0, 3e4),
        )
        for axes in (left, right):
            axes.title.set_fontsize(8.5)
    return figure


def links(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]], scores: np.ndarray, ylabel: str, title: str
) -> Figure:
    """Curves over the score of one candidate, one per loss.

    Args:
        curves: loss label to ``(probability, gradient)``, each over ``scores``.
        scores: cosine of the candidate that moves, shape ``(points,)``.
        ylabel: of the left panel.
        title: of the left panel.
    """
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.6))
        for loss, pair in curves.items():
            for axes, values in zip(panels, pair, strict=True):
                axes.plot(scores, values, color=LOSS_COLOURS[loss], label=LOSS_NAMES[loss])
        panels[0].set(xlabel="cosine of the moving negative", ylabel=ylabel, title=title)
        panels[1].set(
            xlabel="cosine of the moving negative",
            ylabel="∂L/∂s (nats per unit cosine)",
            title="Gradient it receives",
            yscale="log",
        )
        panels[0].legend(loc="upper left")
    return figure


def evidence_over_anchors(evidence: TailEvidence) -> Figure:
    """rho, beta and lambda over the anchors of one batch."""
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.3))
        for axes, values, label in (
            (panels[0], evidence.rho, "ρᵢ: shortfall of the\nhardest negative"),
            (panels[1], evidence.beta, "β̂ᵢ: tail index"),
            (panels[2], evidence.lam, "λᵢ: blend weight"),
        ):
            axes.hist(values.cpu().numpy(), bins=30, color=LOSS_COLOURS["weince"], alpha=0.85)
            axes.set(xlabel=label)
        panels[0].axvline(float(evidence.rho_0), color=DATA_COLOUR, ls="--", lw=1, label="ρ₀")
        panels[0].legend()
        panels[0].set(ylabel="anchors")
        panels[2].set(xlim=(0, 1))
    return figure


def line_fits(tail: Tensor, evidence: TailEvidence, anchor: int) -> Figure:
    """The two straight lines of Appendix E through one anchor's tail.

    Args:
        tail: the anchor's K_tail smallest shortfalls, ascending, shape ``(K_tail,)``.
        evidence: the batch's evidence, for the numbers in the title.
        anchor: the anchor's index.
    """
    k = len(tail)
    drop = max(1, k // 20)
    rank = np.arange(1, k + 1) / (k + 1)
    x = np.log(tail.cpu().numpy())
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.6))
        for axes, y, label, name, colour in (
            (panels[0], np.log(rank), "log F̂", "Weibull line", LOSS_COLOURS["weibit"]),
            (
                panels[1],
                np.log(-np.log(rank)),
                "log(−log F̂)",
                "Gumbel proxy",
                LOSS_COLOURS["infonce"],
            ),
        ):
            slope, intercept = np.polyfit(x[drop:], y[drop:], 1)
            axes.plot(
                x[:drop], y[:drop], "o", ms=3, mfc="none", color=REFERENCE_COLOUR, label="dropped"
            )
            axes.plot(x[drop:], y[drop:], "o", ms=3, color=DATA_COLOUR, label="tail points")
            axes.plot(x, intercept + slope * x, color=colour, label=f"slope {slope:.2f}")
            axes.set(xlabel="log shortfall, log δ", ylabel=label, title=name)
            axes.legend()
        figure.suptitle(
            f"anchor {anchor}: β̂ = {float(evidence.beta[anchor]):.2f}, "
            f"ΔAIC = {float(evidence.delta_aic[anchor]):.0f}",
            fontsize=9,
        )
    return figure
