"""Figures of a score tail: density, quantiles, shape over thresholds, the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from ..evt import GPDFit, KnownEndpointFit, MeanExcess, StabilityPoint
from .style import (
    DATA_COLOUR,
    LOSS_COLOURS,
    PAGE_WIDTH,
    REFERENCE_COLOUR,
    legend_below,
    note,
    style,
)

_WEIBULL, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))
#: Dots a quantile plot shows beside the top ones; more would only fill the file.
_SHOWN = 400


@style()
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
    excess, laws = _laws(values, fit, known)
    names = {_KNOWN: "endpoint at 1 (Weibull)", _GUMBEL: "exponential (Gumbel, ξ = 0)"}
    room = 1.0 - fit.threshold
    figure, (density, qq, shape) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.9))
    grid = np.linspace(0, 1.25 * room, 400)
    heights, edges = np.histogram(excess, bins=60, range=(0, room), density=True)
    density.stairs(heights, edges, fill=True, color=DATA_COLOUR, alpha=0.3, label="scores")
    points = (np.arange(excess.size) + 0.5) / excess.size
    # A thinned QQ plot shows the same; its top points, the ones that matter, are all kept.
    shown = np.unique(
        np.r_[np.linspace(0, excess.size - 1, 300).astype(int), excess.size - 1 - np.arange(100)]
    )
    shown = shown[shown >= 0]
    for name, (law, colour) in laws.items():
        label = names.get(colour, name)
        height = law.pdf(grid)
        density.plot(grid, np.where(height > 0, height, 0.0), color=colour, label=label)
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
    legend_below(figure, density, 2)
    return figure


def _shapes(axes: Axes, by_quantile: Sequence[tuple[float, GPDFit, KnownEndpointFit]]) -> None:
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


@style()
def quantile_quantile(values: np.ndarray, fit: GPDFit, known: KnownEndpointFit) -> Figure:
    """Observed excesses against each model's quantiles; the difference, with 95 % bands.

    The bands are pointwise, for independent excesses drawn from the model: order statistic i of n
    has the probability law Beta(i, n + 1 - i).

    Args:
        values: the sample that was fitted, shape ``(n,)``.
        fit: generalised Pareto fit; without an estimate it is left out.
        known: fit with a known endpoint, above the same threshold.

    Raises:
        ValueError: for a ``known`` fit above another threshold.
    """
    excess, laws = _laws(values, fit, known)
    # Some of the body, all of the top.
    body = np.linspace(1, excess.size, min(excess.size, _SHOWN)).astype(int)
    ranks = np.union1d(body, np.arange(max(1, excess.size - 100), excess.size + 1))
    band = np.array([stats.beta.ppf(p, ranks, excess.size + 1 - ranks) for p in (0.025, 0.975)])
    figure, (whole, rest) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.9))
    for name, (law, colour) in laws.items():
        model = law.ppf(ranks / (excess.size + 1))
        observed = excess[ranks - 1]
        low, high = law.ppf(band)
        whole.plot(model, observed, ".", ms=3, color=colour, label=name)
        if colour != _GUMBEL:
            rest.fill_between(model, low - model, high - model, color=colour, alpha=0.15, lw=0)
            rest.plot(model, observed - model, ".", ms=2.5, color=colour)
    top = 1.15 * float(excess[-1])
    whole.plot([0, top], [0, top], color=REFERENCE_COLOUR, lw=0.8, ls=":")
    rest.axhline(0.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
    whole.set(
        xlabel="model quantile of the excess",
        ylabel="observed excess",
        title=f"{excess.size:,} excesses over u = {fit.threshold:.3f}",
        xlim=(0, top),
        ylim=(0, top),
    )
    rest.set(
        xlabel="model quantile of the excess",
        ylabel="observed − model",
        title="Difference, with pointwise 95 % bands",
        xlim=(0, top),
    )
    legend_below(figure, whole, 3, markerscale=3)
    return figure


def _laws(
    values: np.ndarray, fit: GPDFit, known: KnownEndpointFit
) -> tuple[np.ndarray, dict[str, tuple[Any, str]]]:
    """Ordered excesses, and each model's law of them with its colour, by name."""
    excess = np.sort(values[values > fit.threshold] - fit.threshold)
    laws: dict[str, tuple[Any, str]] = {}
    if np.isfinite(fit.shape):
        name = f"generalised Pareto, ξ̂ = {fit.shape:.2f}".replace("-", "−")
        laws[name] = (stats.genpareto(fit.shape, scale=fit.scale), _WEIBULL)
    if known.threshold != fit.threshold:
        raise ValueError(
            f"the fits lie above different thresholds, {fit.threshold:.6g} and "
            f"{known.threshold:.6g}: fit both above one"
        )
    room = known.endpoint - known.threshold
    name = f"endpoint at {known.endpoint:g}, ξ̂ = {known.shape:.2f}".replace("-", "−")
    laws[name] = (stats.genpareto(known.shape, scale=-known.shape * room), _KNOWN)
    laws["exponential (ξ = 0)"] = (stats.expon(scale=excess.mean()), _GUMBEL)
    return excess, laws


@style()
def parameter_stability(points: Sequence[StabilityPoint]) -> Figure:
    """Shape and modified scale over thresholds: above a good one both are level.

    Where maximum likelihood has no estimate an arrow shows that the shape lies at or below -1, the
    modified scale stays empty, and the fits with a known endpoint, if there are any, go on.

    Args:
        points: from :func:`weince_lib.evt.parameter_stability`, at least one.
    """
    position = np.arange(len(points), dtype=float)
    known = [(x, p.known) for x, p in zip(position, points, strict=True) if p.known is not None]
    beside = np.array([x + 0.08 for x, _ in known])
    figure, (shape, scale) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.9))
    draw_intervals(
        shape,
        position - 0.08,
        [(p.fit.shape, p.fit.shape_low, p.fit.shape_high) for p in points],
        _WEIBULL,
        "generalised Pareto",
    )
    draw_intervals(
        scale,
        position - 0.08,
        [(p.modified_scale, p.modified_scale_low, p.modified_scale_high) for p in points],
        _WEIBULL,
    )
    draw_intervals(
        shape,
        beside,
        [(k.shape, k.shape_low, k.shape_high) for _, k in known],
        _KNOWN,
        "endpoint known",
    )
    draw_intervals(
        scale,
        beside,
        [
            (-k.shape * k.endpoint, -k.shape_high * k.endpoint, -k.shape_low * k.endpoint)
            for _, k in known
        ],
        _KNOWN,
    )
    missing = [x for x, p in zip(position, points, strict=True) if np.isnan(p.fit.shape)]
    if missing:
        shape.plot(
            np.array(missing) - 0.08,
            np.full(len(missing), -1.0),
            "v",
            ms=5,
            mfc="none",
            color=_WEIBULL,
            label="no maximum: ξ ≤ −1",
        )
    for level, name in ((-0.5, "−½"), (-1.0, "−1")):
        if shape.get_ylim()[0] < level:
            shape.axhline(level, color=REFERENCE_COLOUR, lw=0.8, ls=":")
            look = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 7}
            note(shape, name, (1.0, level), (2, 0), **look)
    shape.axhline(0.0, color=_GUMBEL, lw=1)
    labels = [f"{p.quantile:g}\n{p.fit.exceedances:,}" for p in points]
    for axes, title, symbol in (
        (shape, "Shape", "shape ξ̂"),
        (scale, "Modified scale", "σ̂ − ξ̂ u  (units of the scores)"),
    ):
        axes.set_xticks(position, labels)
        axes.set(
            xlabel="threshold quantile, exceedances",
            ylabel=symbol,
            title=f"{title}, with {100 * points[0].fit.confidence:g} % intervals",
        )
    legend_below(figure, shape, 3, markerscale=1.2)
    return figure


@style()
def mean_residual_life(points: Sequence[MeanExcess]) -> Figure:
    """Mean excess over thresholds: a straight line above a good one.

    Args:
        points: from :func:`weince_lib.evt.mean_residual_life`.
    """
    threshold = np.array([p.threshold for p in points])
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 2.8))
    axes.fill_between(
        threshold,
        [p.low for p in points],
        [p.high for p in points],
        color=DATA_COLOUR,
        alpha=0.18,
        lw=0,
        label=f"{100 * points[0].confidence:g} % interval",
    )
    axes.plot(threshold, [p.mean for p in points], color=DATA_COLOUR, label="mean excess")
    axes.set(
        xlabel="threshold u (units of the scores)",
        ylabel="mean excess over u",
        title="Straight above a good threshold: falling for ξ < 0, level for ξ = 0",
    )
    axes.legend()
    return figure


def draw_intervals(
    axes: Axes,
    position: np.ndarray,
    triples: Sequence[tuple[float, float, float]],
    colour: str,
    label: str | None = None,
    *,
    width: float = 1.0,
    size: float = 3.0,
) -> None:
    """Estimates with their intervals; an interval without an estimate is a bare line."""
    if not triples:
        return
    centre, low, high = np.array(triples).T
    axes.vlines(position, low, high, color=colour, lw=width)
    axes.plot(position, centre, "o", ms=size, color=colour, label=label)
