"""Figures of notebooks 01 and 03: winners and scores; geometries, convergence, the wrong link."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..links import Array, frechet_link, gumbel_link, weibull_link
from .style import DATA_COLOUR, DOMAIN_COLOURS, LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

_LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class _Geometry:
    """A row of the framework's figure: utility, its coordinate T, the link."""

    ends: tuple[float, float]
    density: Callable[[Array, float], Array]
    utility: str
    index: Callable[[float], float]
    coordinate: str
    scale: float
    link: Callable[[Array], Array]
    formula: str


_GEOMETRIES = {
    "Gumbel": _Geometry(
        ends=(-0.4, 2.0),
        density=lambda x, s: stats.gumbel_r(s, 0.2).pdf(x),
        utility="x = s + ε",
        index=lambda s: s,
        coordinate="T = x",
        scale=0.2,
        link=lambda s: gumbel_link(s, 0.2),
        formula="p ∝ exp(s/a)",
    ),
    "Fréchet": _Geometry(
        ends=(0.01, 4.0),
        density=lambda x, s: stats.invweibull(2.0, scale=s).pdf(x),
        utility="x = s Z",
        index=math.log,
        coordinate="T = log x",
        scale=0.5,
        link=lambda s: frechet_link(s, 2.0),
        formula="p ∝ $s^{α}$",
    ),
    "Weibull": _Geometry(
        ends=(-0.4, 1.0),
        density=lambda x, s: stats.weibull_min(2.0, scale=1 - s).pdf(1 - x),
        utility="x = 1 − (1 − s) W",
        index=lambda s: -math.log(1 - s),
        coordinate="T = −log(1 − x)",
        scale=0.5,
        link=lambda s: weibull_link(s, 2.0),
        formula="p ∝ $(1 − s)^{−β}$",
    ),
}


@style()
def winner_shares(scores: np.ndarray, shares: Mapping[float, np.ndarray], draws: int) -> Figure:
    """Shares of simulated winners beside the softmax, which is a line of slope 1 / tau.

    Args:
        scores: shape ``(candidates,)``.
        shares: temperature to the share each candidate won, shape ``(candidates,)``.
        draws: choices behind each share, for the error bars.
    """
    figure, panels = plt.subplots(
        1, len(shares), figsize=(PAGE_WIDTH, 2.4), sharey=True, squeeze=False
    )
    grid = np.linspace(scores.min(), scores.max(), 2)
    for axes, (temperature, share) in zip(panels[0], shares.items(), strict=True):
        total = np.exp(scores / temperature).sum()
        axes.plot(grid, np.exp(grid / temperature) / total, color=LOSS_COLOURS["infonce"], lw=1.2)
        error = 2 * np.sqrt(share * (1 - share) / draws)
        axes.errorbar(scores, share, error, fmt="o", ms=3, color=DATA_COLOUR, capsize=2, lw=1)
        axes.set(xlabel="score s", title=f"τ = {temperature:g}")
    panels[0, 0].set(ylabel="probability of winning", yscale="log")
    handles = [
        plt.Line2D([], [], color=LOSS_COLOURS["infonce"], lw=1.2, label="softmax(s/τ)"),
        plt.Line2D([], [], color=DATA_COLOUR, marker="o", ms=3, ls="", label="simulated, ± 2 se"),
    ]
    panels[0, -1].legend(handles=handles, loc="lower right")
    return figure


@style()
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


@style()
def framework() -> Figure:
    """Figure 1 in our own way: utilities, the coordinate that makes them a shift, the link.

    The two candidates have scores 0.5 and 0.8.
    """
    scores, shades = (0.5, 0.8), (0.45, 1.0)
    s = np.linspace(0.05, 0.97, 300)
    pair = np.stack([s, np.full_like(s, 0.5)], axis=1)
    figure, panels = plt.subplots(3, 3, figsize=(PAGE_WIDTH, 5.2))
    for row, (name, geometry) in zip(panels, _GEOMETRIES.items(), strict=True):
        utility, shift, link = row
        colour, scale = DOMAIN_COLOURS[name], geometry.scale
        x = np.linspace(*geometry.ends, 400)
        for score, alpha in zip(scores, shades, strict=True):
            density = geometry.density(x, score)
            utility.plot(x, density, color=colour, alpha=alpha, label=f"s = {score:g}")
        if name == "Weibull":
            utility.axvline(1.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
            utility.set_xlim(-0.4, 1.1)
        utility.set(xlabel=geometry.utility, ylabel=f"{name}\ndensity")
        utility.legend(loc="upper left" if name == "Weibull" else "upper right", fontsize=7)

        low, high = (geometry.index(score) for score in scores)
        t = np.linspace(low - 3 * scale, high + 5 * scale, 400)
        for peak, alpha in zip((low, high), shades, strict=True):
            shift.plot(t, stats.gumbel_r(peak, scale).pdf(t), color=colour, alpha=alpha)
        top = stats.gumbel_r(0, scale).pdf(0)
        arrow = {"arrowstyle": "->", "color": DATA_COLOUR, "lw": 1}
        shift.annotate("", (high, 1.12 * top), xytext=(low, 1.12 * top), arrowprops=arrow)
        look = {"va": "center", "fontsize": 7.5, "color": DATA_COLOUR}
        shift.text(high + 0.4 * scale, 1.12 * top, f"η + {high - low:.2f}", **look)
        shift.set(xlabel=geometry.coordinate, ylim=(0, 1.3 * top))

        log_p = geometry.link(pair)
        link.plot(s, log_p[:, 0] - log_p[:, 1], color=colour)
        link.axhline(0, color=REFERENCE_COLOUR, lw=0.8)
        look = {"transform": link.transAxes, "va": "top", "color": DATA_COLOUR}
        link.text(0.05, 0.9, geometry.formula, **look)
        link.set(xlabel="score s, rival at 0.5", ylabel="log-odds", xlim=(0, 1), ylim=(-5, 6))
    titles = "1 · utility given the score", "2 · in its coordinate: a shift", "3 · top-1 link"
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title)
    for axes in panels[:, :2].ravel():
        axes.set_yticks([])
    return figure


@style()
def spread_near_cap(shortfalls: Array) -> Figure:
    """Figure 2 in our own way: the same candidates in two coordinates.

    Args:
        shortfalls: 1 - s of each candidate, shape ``(candidates,)``.
    """
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 1.9))
    lowest, highest = (-np.log(q) for q in (1.0, shortfalls.min() / 3))
    place = (-np.log(shortfalls) - lowest) / (highest - lowest)
    for x, y in zip(1 - shortfalls, place, strict=True):
        axes.plot([x, y], [1, 0], color=REFERENCE_COLOUR, lw=0.7)
    axes.plot(
        1 - shortfalls, np.ones_like(place), "o", ms=5, color=LOSS_COLOURS["infonce"],
        clip_on=False,
    )  # fmt: skip
    axes.plot(place, np.zeros_like(place), "o", ms=5, color=LOSS_COLOURS["weibit"])
    ticks = np.array([q for q in (1.0, 0.1, 0.01, 1e-3, 1e-4) if q >= shortfalls.min() / 3])
    axes.set_xticks(
        (-np.log(ticks) - lowest) / (highest - lowest), [f"{abs(np.log(q)):.1f}" for q in ticks]
    )
    axes.set(xlabel="shortfall coordinate −log(1 − s)", ylim=(-0.12, 1.12), xlim=(-0.02, 1.03))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    upper = axes.secondary_xaxis("top")
    upper.set_xlabel("cosine s")
    upper.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    return figure


@style()
def convergence(
    sizes: Sequence[int], distances: Mapping[str, Mapping[str, Array]], ylabel: str
) -> Figure:
    """Distance between winner probabilities and the link over candidates, one panel per domain.

    Args:
        sizes: numbers of candidates.
        distances: domain to law to distance over sizes; values below 1e-13 are drawn there, as
            rounding.
        ylabel: what the distance is.
    """
    figure, panels = plt.subplots(1, len(distances), figsize=(PAGE_WIDTH, 2.9), sharey=True)
    for axes, (domain, laws) in zip(panels, distances.items(), strict=True):
        for (law, values), line in zip(laws.items(), _LINES, strict=False):
            exact = np.max(values) < 1e-12
            axes.plot(
                sizes,
                np.maximum(values, 1e-13) if not exact else np.full(len(sizes), 1e-13),
                ls="-" if exact else line,
                marker="s" if exact else "o",
                ms=3,
                color=REFERENCE_COLOUR if exact else DOMAIN_COLOURS[domain],
                label=f"{law}: exact" if exact else law,
            )
        axes.set(xscale="log", yscale="log", title=domain, xlabel="candidates")
        axes.set_xticks([10, 1e3, 1e5], ["10", "10³", "10⁵"])
        axes.set_ylim(2e-14, 1.0)
        axes.legend(loc="center left", fontsize=7, bbox_to_anchor=(0.0, 0.36))
    panels[0].set(ylabel=ylabel)
    return figure


@style()
def wrong_link(
    temperatures: Array,
    distances: Mapping[int, Array],
    best: Mapping[int, tuple[float, float]],
    shortfalls: Mapping[int, Array],
    log_ratios: Mapping[int, Array],
) -> Figure:
    """What a softmax costs where winners follow the shortfall link.

    Args:
        temperatures: tau, shape ``(points,)``.
        distances: number of candidates to total variation over temperatures.
        best: number of candidates to the best temperature and its distance.
        shortfalls: number of candidates to 1 - s of each candidate.
        log_ratios: log of the softmax probability over the true one, at maximum likelihood's
            temperature, for the same candidates.
    """
    colours = ("#56B4E9", "#009E73", "#D55E00", "#CC79A7")
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.8))
    for n, colour in zip(distances, colours, strict=False):
        left.plot(temperatures, distances[n], color=colour, label=f"{n:,} candidates")
        left.plot(*best[n], "o", color=colour, ms=5)
        right.plot(shortfalls[n], log_ratios[n], color=colour, marker=".", ms=2, lw=1)
        top = int(np.argmin(shortfalls[n]))
        right.plot(shortfalls[n][top], log_ratios[n][top], "o", color=colour, ms=5)
    left.set(
        xscale="log",
        xlabel="temperature τ",
        ylabel="total variation from the truth",
        ylim=(0, None),
        title="No temperature reaches 0",
    )
    left.legend(loc="upper left", fontsize=7)
    right.axhline(0, color=REFERENCE_COLOUR, lw=0.8)
    right.set(
        xscale="log",
        xlabel="shortfall 1 − s (closer to the cap →)",
        ylabel="log p(softmax) − log p(true)",
        title="The softmax's error at its best",
        ylim=(-6.0, 3.0),
    )
    right.invert_xaxis()
    return figure
