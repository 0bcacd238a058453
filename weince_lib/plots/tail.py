"""Figure 3's three looks at a score tail: density, quantiles, shape against threshold."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..evt import GPDFit, KnownEndpointFit
from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

_WEIBULL, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))


def peaks_over_threshold(
    values: np.ndarray,
    fit: GPDFit,
    known: KnownEndpointFit,
    by_quantile: Sequence[tuple[float, GPDFit, KnownEndpointFit]],
) -> Figure:
    """Exceedances with their fits, a QQ plot, and the shape over thresholds.

    Args:
        values: negative cosines of a frozen encoder, shape ``(pairs,)``.
        fit: maximum-likelihood generalised Pareto fit. Where it has no maximum (shape at or below
            -1) only the known-endpoint fit is drawn.
        known: fit with the endpoint known to be cosine 1.
        by_quantile: ``(quantile, fit, known)`` for several thresholds.
    """
    excess = np.sort(values[values > fit.threshold] - fit.threshold)
    room = 1.0 - fit.threshold
    models = {
        "endpoint at 1 (Weibull)": (
            stats.genpareto(known.shape, scale=-known.shape * room),
            _KNOWN,
        ),
        "exponential (Gumbel, ξ = 0)": (stats.expon(scale=excess.mean()), _GUMBEL),
    }
    if np.isfinite(fit.shape) and fit.regime != "unbounded":
        name = f"generalised Pareto, ξ̂ = {fit.shape:.2f}".replace("-", "−")
        models = {name: (stats.genpareto(fit.shape, scale=fit.scale), _WEIBULL)} | models
    with style():
        figure, (density, qq, shape) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.9))
        grid = np.linspace(0, 1.25 * room, 400)
        heights, edges = np.histogram(excess, bins=60, range=(0, room), density=True)
        density.stairs(heights, edges, fill=True, color=DATA_COLOUR, alpha=0.3, label="scores")
        points = (np.arange(excess.size) + 0.5) / excess.size
        # A thinned QQ plot shows the same; its top points, the ones that matter, are all kept.
        shown = np.unique(
            np.r_[
                np.linspace(0, excess.size - 1, 300).astype(int), excess.size - 1 - np.arange(100)
            ]
        )
        shown = shown[shown >= 0]
        for name, (law, colour) in models.items():
            density.plot(
                grid, np.where(law.pdf(grid) > 0, law.pdf(grid), 0.0), color=colour, label=name
            )
            qq.plot(law.ppf(points[shown]), excess[shown], ".", ms=3, color=colour)
        density.axvline(room, color=REFERENCE_COLOUR, ls=":", lw=1)
        density.set(
            xlabel=f"excess over u = {fit.threshold:.3f} (cosine)",
            ylabel="density",
            title=f"{excess.size:,} exceedances",
            xlim=(0, 1.25 * room),
            ylim=(0, 1.6 * heights.max()),
        )
        limit = 1.3 * float(excess[-1])
        qq.plot([0, limit], [0, limit], color=REFERENCE_COLOUR, lw=0.8, ls=":")
        qq.set(
            xlabel="model quantile",
            ylabel="observed excess",
            title="Quantiles: a fit is the diagonal",
            xlim=(0, limit),
            ylim=(0, limit),
        )
        _shapes(shape, by_quantile)
        figure.legend(
            *density.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8
        )
    return figure


def _shapes(axes: plt.Axes, by_quantile: Sequence[tuple[float, GPDFit, KnownEndpointFit]]) -> None:
    """Shape estimates with their 95 % intervals against the threshold's quantile."""
    position = np.arange(len(by_quantile))
    curves = (
        (-0.08, [row[1] for row in by_quantile], _WEIBULL),
        (0.08, [row[2] for row in by_quantile], _KNOWN),
    )
    for offset, fits, colour in curves:
        centre = np.array([f.shape for f in fits])
        low = np.array([f.shape_low for f in fits])
        high = np.array([f.shape_high for f in fits])
        axes.errorbar(
            position + offset,
            centre,
            np.abs(np.array([centre - low, high - centre])),
            fmt="o",
            ms=3,
            lw=1,
            color=colour,
        )
    axes.axhline(0.0, color=_GUMBEL, lw=1)
    axes.set_xticks(position, [f"{row[0]:g}" for row in by_quantile])
    axes.set(
        xlabel="threshold quantile",
        ylabel="shape ξ̂",
        title="Shape, with 95 % intervals*",
    )
