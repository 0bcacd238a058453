"""Figures about the link: its coordinates, the evidence of a batch, which link explains winners.

With them the gate's calibration, and where positives lose and losses put their gradient (Figure 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.stats import chi2
from torch import Tensor

from ..evaluation import Interval
from ..losses import TailEvidence, blended_logits
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

if TYPE_CHECKING:  # the data type alone: diagnostics draws its report with this room
    from ..diagnostics.calibration import GateShare

_SOFTMAX, _BLEND, _POWER, _OTHER = (
    LOSS_COLOURS[n] for n in ("infonce", "weibit", "weince-calibrated", "weince-release")
)
_SELECTIONS = {
    "winner_kept": ("winner kept, data", _BLEND, "o-"),
    "simulated": ("winner kept, winners drawn from a softmax", REFERENCE_COLOUR, "s--"),
    "by_rank": ("by rank, data", _POWER, "^-"),
}
_FITTED = "infonce-fitted"
#: Cosine at which the axis starts; what lies below is in no panel.
_LEAST_COSINE = -0.4
_ALLOCATION_NAMES = LOSS_NAMES | {
    "infonce": "InfoNCE, τ as trained",
    _FITTED: "InfoNCE, τ fitted to the winners",
    "weibit": "Weibit (β = 1)",
}
_ALLOCATION_COLOURS = LOSS_COLOURS | {_FITTED: LOSS_COLOURS["infonce"]}


@style()
def coordinates() -> Figure:
    """The blend of the two coordinates near the cap, and the gradient each candidate gets.

    At the paper's temperature for images, 0.5, and tail index 2.
    """
    temperature, beta = 0.5, 2.0
    s = 1 - torch.logspace(0, -6, 2000, dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.75))
    # From InfoNCE's blue to Weibit's purple.
    blend = LinearSegmentedColormap.from_list("", [LOSS_COLOURS[n] for n in ("infonce", "weibit")])
    for lam in (0.0, 0.25, 0.5, 0.75, 1.0):
        colour = blend(lam)
        logit = blended_logits(s[None], lam * one, beta * one, temperature)[0]
        slope = (1 - lam) / temperature + lam * beta / (1 - s)
        name = {0.0: "λ = 0: InfoNCE", 1.0: "λ = 1: Weibit"}.get(lam, f"λ = {lam:g}")
        left.plot(s, logit, color=colour, label=name)
        right.plot(1 - s, slope, color=colour)
    left.axvline(1.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
    note(left, "cap", (1.0, 0.5), (-4, 0), ha="right")
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


@style()
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


@style()
def evidence_over_anchors(evidence: TailEvidence) -> Figure:
    """rho, beta and lambda over the anchors of one batch."""
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


@style()
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


@style()
def link_selection(
    blends: Mapping[str, Interval],
    gains: Mapping[str, Sequence[float]],
    paper_blend: tuple[float, float],
    paper_gain: tuple[float, float],
) -> Figure:
    """Fitted blend weight and held-out gain of each encoder (Figure 4).

    Args:
        blends: encoder to lambda with its profile interval.
        gains: encoder to the mean gain of each held-out batch, nats per anchor.
        paper_blend: the paper's range, drawn as a band.
        paper_gain: likewise.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.5))
    for x, (interval, batches) in enumerate(zip(blends.values(), gains.values(), strict=True)):
        error = [[interval.mean - interval.low], [interval.high - interval.mean]]
        left.errorbar(x, interval.mean, error, fmt="o", ms=4, color=_BLEND)
        spread = np.linspace(-0.15, 0.15, len(batches))
        right.plot(x + spread, batches, ".", ms=4, color=REFERENCE_COLOUR)
        right.plot(x, np.mean(batches), "o", ms=5, color=_BLEND)
    for axes, band in ((left, paper_blend), (right, paper_gain)):
        axes.axhspan(*band, color=_OTHER, alpha=0.2, lw=0, label="the paper's range")
        axes.axhline(0, color=_SOFTMAX, lw=1)
        axes.set_xticks(range(len(blends)), blends)
        axes.set(xlabel="encoder seed")
    left.set(ylabel="blend weight λ̂", ylim=(-0.03, 1.0), title="0 is softmax, 1 endpoint alone")
    right.set(ylabel="held-out gain\n(nats per anchor)", title="Gain of the blend over softmax")
    left.legend(loc="upper right")
    return figure


@style()
def link_gains(
    gains: Mapping[str, Interval], names: Mapping[str, str], endpoint: Sequence[str]
) -> Figure:
    """Held-out gain of several links over the softmax (Figure 10, and the rivals).

    Args:
        gains: link to its gain with an interval over encoders, nats per anchor.
        names: link to what the figure calls it, in order from the top.
        endpoint: links that have an endpoint at the cap, drawn in the endpoint's colour.
    """
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 0.5 + 0.3 * len(names)))
    for y, link in enumerate(reversed(list(names))):
        i = gains[link]
        colour = _BLEND if link in endpoint else _POWER
        error = [[i.mean - i.low], [i.high - i.mean]]
        axes.errorbar(i.mean, y, xerr=error, fmt="o", ms=4, color=colour)
    axes.axvline(0, color=_SOFTMAX, lw=1)
    axes.set_yticks(range(len(names)), [names[link] for link in reversed(list(names))])
    axes.set(xlabel="held-out gain over softmax (nats per anchor)")
    axes.grid(axis="y", visible=False)
    return figure


@style()
def hardness(ablations: Sequence[Mapping[str, Any]]) -> Figure:
    """Figures 7 and 8 over several encoders: blend and gain against negatives kept and pool.

    Args:
        ablations: for each encoder, what :func:`~weince_lib.runs.link.ablate` found, as a
            record holds it.
    """
    figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.9))
    for name, (label, colour, line) in _SELECTIONS.items():
        for axes, kind, over, what in (
            (panels[0], "hardness", "kept", "blend"),
            (panels[1], "hardness", "kept", "gain"),
            (panels[2], "pool", "pool", "blend"),
        ):
            x = [p[over] for p in ablations[0][name][kind]]
            # One without a value has winners that score no higher than chance.
            y = np.array(
                [
                    [np.nan if p[what] is None else p[what] for p in encoder[name][kind]]
                    for encoder in ablations
                ]
            )
            known = np.isfinite(y).all(axis=0)
            x, y = np.array(x)[known], y[:, known]
            axes.plot(
                x,
                y.mean(axis=0),
                line,
                ms=4,
                color=colour,
                label=label if kind == "pool" else "",
            )
            axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=colour, alpha=0.15, lw=0)
    everything = ablations[0]["winner_kept"]["hardness"][-1]["pool"]
    fixed = ablations[0]["winner_kept"]["pool"][0]["kept"]
    panels[0].set(
        ylabel="blend weight λ̂", xlabel="negatives kept", title=f"Hardest of {everything}"
    )
    panels[1].set(
        ylabel="held-out gain (nats)", xlabel="negatives kept", title=f"Hardest of {everything}"
    )
    panels[2].set(ylabel="blend weight λ̂", xlabel="pool", title=f"{fixed} hardest of a pool")
    for axes in panels:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axes.axhline(0, color=_SOFTMAX, lw=1)
    for axes in (panels[0], panels[2]):
        axes.set_ylim(-0.05, 1.08)
    legend_below(figure, panels[2], 3)
    return figure


@style()
def likelihood_ratio_null(simulated: np.ndarray) -> Figure:
    """Likelihood ratios simulated under the softmax, against both reference laws.

    Args:
        simulated: statistics of the parametric bootstrap, shape ``(repetitions,)``.
    """
    figure, axes = plt.subplots(figsize=(0.6 * PAGE_WIDTH, 2.6))
    grid = np.linspace(0, max(8.0, float(simulated.max())), 400)
    ordered = np.sort(simulated)
    axes.step(
        ordered,
        1 - np.arange(len(ordered)) / len(ordered),
        color=DATA_COLOUR,
        label=f"{len(ordered):,} simulated",
    )
    axes.plot(grid, 0.5 * chi2.sf(grid, 1), color=_BLEND, label="½χ²₀ + ½χ²₁")
    axes.plot(grid, chi2.sf(grid, 1), "--", color=_SOFTMAX, label="χ²₁")
    axes.axhline(0.05, color=REFERENCE_COLOUR, lw=0.8, ls=":")
    axes.set(
        yscale="log",
        ylim=(0.5 / len(ordered), 1.3),
        xlabel="likelihood ratio 2(l₁ − l₀)",
        ylabel="probability to exceed",
    )
    axes.legend()
    return figure


@style()
def gain_over_epochs(epochs: Sequence[Sequence[Mapping[str, Any]]], seeds: Sequence[int]) -> Figure:
    """Blend weight and held-out gain along training, one line an encoder (Figure 9).

    Args:
        epochs: for each encoder, rows with ``epoch``, ``blend`` and ``gain``, as recorded.
        seeds: the encoders' seeds.
    """
    styles = ("o-", "s-", "^-", "d-", "v-", "x-")
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.4))
    for i, (rows, seed) in enumerate(zip(epochs, seeds, strict=True)):
        at = range(len(rows))
        blend = [np.nan if row["blend"] is None else row["blend"] for row in rows]
        look = {"ms": 3.5, "lw": 1.2, "alpha": 0.85}
        left.plot(at, blend, styles[i % 6], color=_BLEND, label=f"seed {seed}", **look)
        right.plot(at, [r["gain"]["mean"] for r in rows], styles[i % 6], color=_BLEND, **look)
    for axes in (left, right):
        axes.set_xticks(range(len(epochs[0])), [str(row["epoch"]) for row in epochs[0]])
        axes.axhline(0, color=_SOFTMAX, lw=1)
        axes.set(xlabel="epochs of training")
    left.set(ylabel="blend weight λ̂", ylim=(-0.05, 1.05))
    left.legend(ncols=2)
    right.set(ylabel="held-out gain (nats per anchor)")
    return figure


@style()
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
    seen = centres > _LEAST_COSINE
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
        for loss in ("infonce", _FITTED, "weibit", "weince"):
            if loss in found:
                axes.plot(
                    centres[seen],
                    np.asarray(found[loss])[seen],
                    "--" if loss == _FITTED else "-",
                    color=_ALLOCATION_COLOURS[loss],
                    label=_ALLOCATION_NAMES[loss],
                )
        axes.set(xlabel="cosine of the negative", title=f"K = {size:,}", xlim=(_LEAST_COSINE, 1.02))
    panels[0][0].set(ylabel="share of risk, share of gradient")
    legend_below(figure, panels[0][-1], 3)
    return figure


@style()
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
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.6), sharey=True)
    for axes, curves, loss in ((left, infonce, "infonce"), (right, weibit, "weibit")):
        for x, y in curves.values():
            axes.plot(x, y, "o-", ms=3, lw=1.2, color=LOSS_COLOURS[loss])
        axes.set(xscale="log")
        axes.axhline(0, color=REFERENCE_COLOUR, lw=0.8)
    look = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top", "color": "black"}
    for mark, label, at in ((trained, "as trained", 0.12), (fitted, "fitted to\nthe winners", 0.9)):
        left.axvline(mark, color=REFERENCE_COLOUR, lw=1, ls=":")
        note(left, label, (mark, at), (-4, 0), **look)
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


@style()
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
                    middle = {"ha": "center", "va": "center"}
                    axes.text(j, i, _percent(share), fontsize=6, color=colour, **middle)
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
                look = {"xycoords": ("axes fraction", "data"), "rotation": 270, "va": "center"}
                note(axes, kind, (1.0, (first + last - 1) / 2), (3, 0), fontsize=7, **look)
    bar = figure.colorbar(image, ax=panels, shrink=0.5, aspect=30, pad=0.01)
    bar.set_label("share of anchors with an open gate (%)", fontsize=8)
    bar.set_ticks([0, 0.5, 1], labels=["0", "50", "100"])
    return figure


def _percent(share: float) -> str:
    """Whole percent; a rare opening shows as <1 and not as 0."""
    return "<1" if 0 < share < 0.005 else f"{100 * share:.0f}"
