"""Figures about maxima: the three limits, how fast, random blocks, counter-examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from ..evt import Family, canonical_tail, gev_density
from .style import DATA_COLOUR, DOMAIN_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

#: From heavy tails to bounded ones.
GEOMETRIES = ("Fréchet", "Gumbel", "Weibull")
#: Markers of the lines of one panel, in order.
MARKS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True)
class Points:
    """Estimates with symmetric error bars, all of shape ``(points,)``."""

    x: np.ndarray
    y: np.ndarray
    error: np.ndarray


def trichotomy(
    laws: Sequence[Family],
    sizes: Sequence[int],
    maxima: Mapping[str, np.ndarray],
    simulated_size: int,
) -> Figure:
    """The three limits: densities of normalised maxima above, tail ratios below.

    Args:
        laws: one of each domain, left to right.
        sizes: sample sizes n to draw, ascending.
        maxima: law name to simulated normalised maxima, shape ``(repetitions,)``.
        simulated_size: the n they were simulated at.
    """
    with style():
        figure, panels = plt.subplots(2, 3, figsize=(PAGE_WIDTH, 4.3))
        for (above, below), law in zip(panels.T, laws, strict=True):
            name = law.geometry
            shades = LinearSegmentedColormap.from_list("", ["#d9d9d9", DOMAIN_COLOURS[name]])
            low, high = -3.0, 5.0
            if law.shape:
                end = -1.0 / law.shape
                low, high = (end, 6.0) if law.shape > 0 else (-3.0, 1.1 * end)
            x = np.linspace(low, high, 600)
            for row, n in enumerate(sizes):
                colour = shades((row + 1) / len(sizes))
                above.plot(x, law.maximum_density(x, n), color=colour)
                grid = x[x >= 0]
                below.plot(grid, _positive(law.tail_ratio(grid, n)), color=colour)
            dashed = {"color": "black", "ls": "--", "lw": 1.1}
            above.plot(x, gev_density(x, law.shape), **dashed)
            below.plot(x[x >= 0], _positive(canonical_tail(x[x >= 0], law.shape)), **dashed)
            points = _histogram(maxima[law.name], low, high)
            above.errorbar(
                points.x,
                points.y,
                points.error,
                fmt="o",
                ms=2.2,
                lw=0.8,
                color=DATA_COLOUR,
            )
            shape = f"{law.shape:.2g}".replace("-", "−")
            above.set(title=f"{name}, ξ = {shape}\n({law.name})", xlim=(low, high))
            above.set_ylim(bottom=0)
            below.set(
                yscale="log",
                xlim=(0, high),
                ylim=(1e-3, 1.3),
                xlabel="normalised value x",
            )
        panels[0, 0].set_ylabel("density of (Mₙ − bₙ)/aₙ")
        panels[1, 0].set_ylabel("tail ratio at level bₙ")
        # One legend for all columns, in grey: the shade is n, the hue the geometry.
        greys = LinearSegmentedColormap.from_list("", ["#d9d9d9", "#333333"])
        handles = [
            Line2D([], [], color=greys((row + 1) / len(sizes)), label=f"n = {n:,}")
            for row, n in enumerate(sizes)
        ]
        handles.append(Line2D([], [], color="black", ls="--", lw=1.1, label="limit"))
        dot = Line2D([], [], color=DATA_COLOUR, ls="", marker="o", ms=2.5)
        dot.set_label(f"drawn, n = {simulated_size}")
        handles.append(dot)
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7)
    return figure


def convergence_rates(
    laws: Sequence[Family], sizes: np.ndarray, distances: Mapping[str, np.ndarray]
) -> Figure:
    """Distance of the exact law of the maximum from its limit, against n, one panel a domain.

    Args:
        laws: in any order.
        sizes: sample sizes n, shape ``(points,)``.
        distances: law name to distances, shape ``(points,)``.
    """
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.9), sharey=True)
        for axes, name in zip(panels, GEOMETRIES, strict=True):
            members = [law for law in laws if law.geometry == name]
            for row, law in enumerate(members):
                axes.plot(
                    sizes,
                    distances[law.name],
                    color=DOMAIN_COLOURS[name],
                    alpha=1.0 - 0.2 * row,
                    marker=MARKS[row],
                    ms=3.5,
                    lw=1.1,
                    label=law.name,
                )
            axes.set(xscale="log", yscale="log", xlabel="sample size n", title=name)
            axes.set_ylim(1e-10, 30)
            axes.legend(loc="upper right", fontsize=7)
        panels[0].set_ylabel("largest distance to the limit G")
    return figure


def block_sums(
    sums: Mapping[int, np.ndarray],
    mean: float,
    spreads: Mapping[str, tuple[np.ndarray, Points]],
    laws: Mapping[str, Points],
) -> Figure:
    """Steps 2 to 4 of the permutation-block argument.

    Args:
        sums: block size n to tail sums of one block over random permutations.
        mean: S / m at the level drawn.
        spreads: geometry to exact standard deviations and simulated ones, over block sizes.
        laws: geometry to the random block's law less the limit G, over x.
    """
    with style():
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.6))
        shades = LinearSegmentedColormap.from_list("", ["#d9d9d9", DATA_COLOUR])
        for row, (n, values) in enumerate(sums.items()):
            left.hist(
                values,
                bins=24,
                density=True,
                histtype="stepfilled",
                alpha=0.75,
                color=shades((row + 1) / len(sums)),
                label=f"n = {n:,}",
            )
        left.axvline(mean, color="black", ls="--", lw=1, label="S/m")
        left.set(
            xlabel="block tail sum Sₖ",
            ylabel="density",
            title="Block sums concentrate",
            yscale="log",
        )
        left.set_ylim(0.3, 10 * left.get_ylim()[1])  # room for the legend
        left.legend(fontsize=6.5, loc="upper left", handlelength=1.2)
        for (name, (exact, points)), mark in zip(spreads.items(), MARKS, strict=False):
            colour = DOMAIN_COLOURS[name]
            middle.plot(points.x, exact, color=colour, lw=1)
            middle.errorbar(
                points.x,
                points.y,
                points.error,
                fmt=mark,
                ms=3.5,
                color=colour,
                label=name,
            )
        middle.set(
            xscale="log",
            yscale="log",
            xlabel="block size n",
            ylabel="standard deviation of Sₖ",
            title="Lines exact, dots drawn",
        )
        middle.yaxis.set_minor_formatter(NullFormatter())
        middle.legend(fontsize=7)
        for (name, points), mark in zip(laws.items(), MARKS, strict=False):
            right.errorbar(
                points.x,
                points.y,
                points.error,
                fmt=f"{mark}-",
                ms=3,
                lw=1,
                color=DOMAIN_COLOURS[name],
            )
        right.axhline(0, color="black", ls="--", lw=1)
        right.set(
            xlabel="normalised value x", ylabel="block's law − G", title="Random block against G"
        )
    return figure


def counter_examples(
    x: np.ndarray,
    panels: Mapping[str, tuple[Mapping[str, np.ndarray], Points]],
    readings: Mapping[str, Points],
) -> Figure:
    """Limits of maxima without (I) or without (H), and the shape read from them level by level.

    Args:
        x: normalised values of the curves, shape ``(points,)``.
        panels: two titles, each to the distribution functions to draw by label (the first solid,
            further ones dashed) and to the simulated one.
        readings: law name to the shape read at each level psi.
    """
    colours = ("#D55E00", "#56B4E9", "#E69F00", "#009E73")
    with style():
        figure, axes = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.7))
        for panel, colour, (title, (curves, points)) in zip(
            axes, colours, panels.items(), strict=False
        ):
            panel.errorbar(
                points.x, points.y, points.error, fmt="o", ms=2.5, color=DATA_COLOUR, label="drawn"
            )
            for row, (label, values) in enumerate(curves.items()):
                dashed = {"color": (REFERENCE_COLOUR, "black")[row % 2], "ls": ("--", ":")[row % 2]}
                line = {"color": colour} if row == 0 else dashed
                panel.plot(x, values, label=label, **line)
            panel.set(
                title=title,
                xlabel="normalised value x",
                ylabel="distribution function",
                ylim=(-0.02, 1.02),
                xlim=(x[0], x[-1]),
            )
            panel.legend(fontsize=6.5, loc="lower right", handlelength=1.5)
        for colour, (name, points) in zip(colours, readings.items(), strict=False):
            axes[2].plot(points.x, points.y, "-", marker="o", ms=2.5, color=colour, label=name)
        axes[2].set(
            xscale="log",
            xlabel="level ψ = −log G (tail →)",
            ylabel="shape read there",
            title="Only a GEV law is flat",
        )
        axes[2].invert_xaxis()
        axes[2].legend(fontsize=6.5)
    return figure


def _histogram(values: np.ndarray, low: float, high: float, bins: int = 24) -> Points:
    """Densities in bins with two binomial standard errors."""
    counts, edges = np.histogram(values, bins=bins, range=(low, high))
    width = edges[1] - edges[0]
    share = counts / values.size
    error = 2 * np.sqrt(share * (1 - share) / values.size) / width
    return Points(0.5 * (edges[1:] + edges[:-1]), share / width, error)


def _positive(values: np.ndarray) -> np.ndarray:
    """Zeros, which a logarithmic axis cannot show, as gaps."""
    return np.where(values > 0, values, np.nan)
