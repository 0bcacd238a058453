"""Figures of notebook 02: the three limits of maxima, how fast, random blocks, the sphere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
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

    def draw(self, axes: Axes, fmt: str, **look: Any) -> None:
        """Draw them on axes, ``fmt`` and look as matplotlib's ``errorbar`` takes them."""
        axes.errorbar(self.x, self.y, self.error, fmt=fmt, **look)


@style()
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
        points.draw(above, "o", ms=2.2, lw=0.8, color=DATA_COLOUR)
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


@style()
def convergence_rates(
    laws: Sequence[Family], sizes: np.ndarray, distances: Mapping[str, np.ndarray]
) -> Figure:
    """Distance of the exact law of the maximum from its limit, against n, one panel a domain.

    Args:
        laws: in any order.
        sizes: sample sizes n, shape ``(points,)``.
        distances: law name to distances, shape ``(points,)``.
    """
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


@style()
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
        points.draw(middle, mark, ms=3.5, color=colour, label=name)
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
        points.draw(right, f"{mark}-", ms=3, lw=1, color=DOMAIN_COLOURS[name])
    right.axhline(0, color="black", ls="--", lw=1)
    right.set(xlabel="normalised value x", ylabel="block's law − G", title="Random block against G")
    return figure


@style()
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
    figure, axes = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.7))
    for panel, colour, (title, (curves, points)) in zip(
        axes, colours, panels.items(), strict=False
    ):
        points.draw(panel, "o", ms=2.5, color=DATA_COLOUR, label="drawn")
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


@style()
def sphere_and_embeddings(
    shapes: Mapping[int, tuple[float, np.ndarray, Points]],
    embeddings: Mapping[str, np.ndarray],
    even: tuple[np.ndarray, np.ndarray],
    dimension: int,
) -> Figure:
    """Left: the sphere's shape at finite thresholds. Right: intrinsic dimension of embeddings.

    Args:
        shapes: dimension to limit, exact values over the share above the threshold, and estimates
            (whose x is that share).
        embeddings: label to local intrinsic dimensions over the neighbours of ``even``.
        even: numbers of neighbours k, and the value for vectors spread evenly over the sphere.
        dimension: of the embedding space.
    """
    colours = ("#009E73", "#D55E00", "#0072B2", "#CC79A7", "#E69F00")
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.8))
    for colour, mark, (d, (limit, exact, points)) in zip(
        colours, MARKS, shapes.items(), strict=False
    ):
        left.plot(points.x, exact, color=colour, lw=1)
        left.axhline(limit, color=colour, ls=":", lw=1)
        points.draw(left, mark, ms=3.5, color=colour, label=f"d = {d}")
    left.set(
        xscale="log",
        xlabel="share of pairs above the threshold",
        ylabel="shape ξ̂, endpoint known",
        title="Sphere: dots drawn, lines exact, dotted −2/(d − 1)",
    )
    left.title.set_fontsize(8)
    left.invert_xaxis()
    left.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 0.32), fontsize=7)
    neighbours, values = even
    right.plot(neighbours, values, color=REFERENCE_COLOUR, ls="--", label=f"even, d = {dimension}")
    right.axhline(dimension - 1, color=REFERENCE_COLOUR, ls=":", lw=1)
    for colour, mark, (label, line) in zip(colours, MARKS, embeddings.items(), strict=False):
        right.plot(neighbours, line, marker=mark, ms=3.5, lw=1, color=colour, label=label)
    right.set(
        xscale="log",
        yscale="log",
        xlabel="neighbours k",
        ylabel="local intrinsic dimension 2β̂",
        title="Dimension of the embeddings",
        xticks=neighbours,
        yticks=[1, 2, 5, 10, 20, 50, 100],
        ylim=(1, 100),
    )
    right.set_xticklabels([f"{k:g}" for k in neighbours])
    right.set_yticklabels(["1", "2", "5", "10", "20", "50", "100"])
    right.minorticks_off()
    right.legend(fontsize=6.5, ncols=2, loc="center", bbox_to_anchor=(0.5, 0.53))
    return figure
