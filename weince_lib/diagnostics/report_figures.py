"""The figures of a diagnosis: cosines and their tail, shapes over thresholds, what WEINCE does."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..plots import LOSS_COLOURS, PAGE_WIDTH, quantile_quantile, style
from ..plots.style import DATA_COLOUR, REFERENCE_COLOUR
from ..plots.tail import draw_intervals
from .batch_correction import Correction
from .shape_verdict import MARGIN, ShapeAt

__all__ = ["correction", "cosines_and_tail", "quantile_quantile", "shapes_over_thresholds"]

_FREE, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))
_PRESET_COLOURS = {
    "paper": LOSS_COLOURS["weince"],
    "release": LOSS_COLOURS["weince-release"],
    "calibrated": LOSS_COLOURS["weince-calibrated"],
}
_bars = functools.partial(draw_intervals, width=1.2, size=3.5)


def cosines_and_tail(sample: np.ndarray, excesses: np.ndarray, main: ShapeAt) -> Figure:
    """All negative cosines, and the excesses over the main threshold with three laws.

    Args:
        sample: cosines of random negative pairs, shape ``(n,)``.
        excesses: s - u of the pairs above the main threshold, shape ``(m,)``.
        main: their fits.
    """
    room = 1.0 - main.threshold
    with style():
        figure, (every, tail) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.7))
        every.hist(sample, bins=120, color=DATA_COLOUR, alpha=0.45, density=True)
        every.axvline(main.threshold, color=_FREE, lw=1.2, label=f"main threshold, {main.level:g}")
        every.axvline(1.0, color=REFERENCE_COLOUR, lw=1, ls=":", label="cap, cosine 1")
        every.set(xlabel="cosine of a negative pair", ylabel="density", title="All negative pairs")
        every.set_ylim(0, 1.45 * every.get_ylim()[1])
        every.legend(loc="upper left")
        top = min(1.05 * room, 1.5 * float(excesses.max()))
        heights, edges = np.histogram(excesses, bins=50, range=(0.0, top), density=True)
        tail.stairs(heights, edges, fill=True, color=DATA_COLOUR, alpha=0.3)
        grid = np.linspace(0.0, top, 400)
        laws = {
            "endpoint at cosine 1": (stats.genpareto(main.known, scale=-main.known * room), _KNOWN),
            "exponential (ξ = 0)": (stats.expon(scale=float(excesses.mean())), _GUMBEL),
        }
        if main.shape > -1.0:
            # A shape of 0 has no endpoint to take the scale from.
            scale = (
                -main.shape * (main.endpoint - main.threshold)
                if np.isfinite(main.endpoint)
                else float(excesses.mean()) * (1.0 - main.shape)
            )
            name = f"generalised Pareto, ξ̂ = {main.shape:.2f}".replace("-", "−")
            laws[name] = (stats.genpareto(main.shape, scale=scale), _FREE)
        for name, (law, colour) in laws.items():
            density = law.pdf(grid)
            # Dashed, as it often lies on another.
            dash = "--" if colour == _FREE else "-"
            shown = np.where(density > 0, density, np.nan)
            tail.plot(grid, shown, color=colour, ls=dash, label=name)
        if room <= top:
            tail.axvline(room, color=REFERENCE_COLOUR, ls=":", lw=1)
        tail.set(
            xlabel=f"excess over u = {main.threshold:.4g} (cosine)",
            ylabel="density",
            title=f"{main.exceedances:,} pairs above it",
            xlim=(0.0, top),
            ylim=(0.0, 1.6 * float(heights.max())),
        )
        tail.legend(loc="upper right")
    return figure


def shapes_over_thresholds(shapes: Sequence[ShapeAt], main: ShapeAt) -> Figure:
    """Shape and implied endpoint at every threshold, with intervals over rows.

    Args:
        shapes: ascending, at least one.
        main: the one the verdict is read at; its dot is filled.
    """
    x = np.arange(len(shapes), dtype=float)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 3.4))
        reference = np.array([s.reference for s in shapes])
        wide = np.r_[-0.5, x, len(shapes) - 0.5]
        padded = np.r_[reference[0], reference, reference[-1]]
        left.plot(wide, padded, color=_GUMBEL, lw=1, label="normal law")
        left.fill_between(
            wide,
            padded - MARGIN,
            padded,
            color=_GUMBEL,
            alpha=0.12,
            lw=0,
            label=f"margin, {MARGIN:g}",
        )
        _bars(left, x - 0.08, [(s.shape, s.low, s.high) for s in shapes], _FREE, "free endpoint")
        _bars(
            left,
            x + 0.08,
            [(s.known, s.known_low, s.known_high) for s in shapes],
            _KNOWN,
            "endpoint at cosine 1",
        )
        left.axhline(0.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
        left.set(ylabel="shape ξ̂", title="Shape, with 95 % intervals over rows")
        ends = [s.endpoint for s in shapes if np.isfinite(s.endpoint)]
        lows = [s.endpoint_low for s in shapes if np.isfinite(s.endpoint_low)]
        highest = max(1.0, 1.1 * max(min(max(ends, default=1.0), 1.8), max(lows, default=1.0)))
        highest = min(max(highest, 1.15), 2.2)
        _bars(
            right,
            x,
            [
                (
                    s.endpoint if s.endpoint <= highest else np.nan,
                    min(s.endpoint_low, highest),
                    min(s.endpoint_high, highest),
                )
                for s in shapes
            ],
            _FREE,
        )
        beyond = [k for k, s in enumerate(shapes) if s.endpoint_high > highest]
        if beyond:
            right.plot(x[beyond], np.full(len(beyond), highest), "^", ms=4, color=_FREE)
        right.plot(x, [s.threshold for s in shapes], "_", ms=9, color=DATA_COLOUR, label="u")
        right.axhline(1.0, color=REFERENCE_COLOUR, lw=1, ls=":", label="cap, cosine 1")
        right.set(
            ylabel="cosine",
            title="Implied endpoint (arrow: goes on)",
            ylim=(min(s.threshold for s in shapes) - 0.05, highest + 0.04),
        )
        for axes in (left, right):
            axes.set_xticks(x, [f"{s.level:g}" for s in shapes], rotation=45)
            axes.get_xticklabels()[list(shapes).index(main)].set_fontweight("bold")
            axes.set(xlabel="threshold quantile (bold: main)", xlim=(-0.5, len(shapes) - 0.5))
        handles, names = left.get_legend_handles_labels()
        more, other_names = right.get_legend_handles_labels()
        figure.legend(
            handles + more, names + other_names, loc="outside lower center", ncols=3, fontsize=8
        )
    return figure


def correction(rho: np.ndarray, corrections: Sequence[Correction]) -> Figure:
    """How near the hardest negatives are, lambda over anchors, and where the gradient goes.

    Args:
        rho: shortfall of each anchor's hardest negative, shape ``(anchors,)``.
        corrections: one per preset.
    """
    with style():
        figure, (near, lam, bars) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.6))
        finite = rho[np.isfinite(rho)]
        # A few duplicates shall not squeeze the rest: what lies below is put into the first bin.
        finite = np.maximum(finite, max(float(np.quantile(finite, 0.005)), 1e-8))
        low, high = np.floor(np.log10(finite.min())), np.ceil(np.log10(finite.max()))
        near.hist(finite, bins=np.logspace(low, max(high, low + 1), 40), color=DATA_COLOUR)
        near.set(
            xscale="log", xlabel="ρ: 1 − s of the\nhardest negative", ylabel="anchors", title="ρ"
        )
        bins = np.linspace(0.0, 1.0, 21)
        names, x = [], np.arange(len(corrections) + 1)
        for c in corrections:
            colour = _PRESET_COLOURS.get(c.preset, _FREE)
            share = np.histogram(c.lam, bins)[0] / max(c.lam.size, 1)
            lam.stairs(share, bins, color=colour, lw=1.6, label=c.preset)
            names.append(c.preset)
        lam.set(
            xlabel="λ, blend weight\nof an anchor",
            ylabel="share of anchors",
            title="λ in batches",
            ylim=(
                0,
                1.35 * max(np.histogram(c.lam, bins)[0].max() / c.lam.size for c in corrections),
            ),
        )
        lam.legend(loc="upper right")
        heights = [100 * corrections[0].hardest_infonce]
        heights += [100 * c.hardest_weince for c in corrections]
        colours = [LOSS_COLOURS["infonce"]]
        colours += [_PRESET_COLOURS.get(c.preset, _FREE) for c in corrections]
        bars.bar(x, heights, color=colours, width=0.65)
        for k, height in zip(x, heights, strict=True):
            bars.annotate(f"{height:.1f}", (float(k), height), ha="center", va="bottom", fontsize=8)
        bars.set_xticks(x, ["InfoNCE", *names], fontsize=7)
        bars.set(
            xlabel="loss",
            ylabel="% of the gradient",
            title="On the hardest 1 %",
            ylim=(0, 1.15 * max(heights) + 1e-9),
        )
    return figure
