"""Which threshold? Parameter stability and mean residual life."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..evt import GPDFit, MeanExcess, StabilityPoint
from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

_WEIBULL, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))


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
    with style():
        figure, (shape, scale) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.9))
        _bars(
            shape,
            position - 0.08,
            [(p.fit.shape, p.fit.shape_low, p.fit.shape_high) for p in points],
            _WEIBULL,
            "generalised Pareto",
        )
        _bars(
            scale,
            position - 0.08,
            [(p.modified_scale, p.modified_scale_low, p.modified_scale_high) for p in points],
            _WEIBULL,
        )
        _bars(
            shape,
            beside,
            [(k.shape, k.shape_low, k.shape_high) for _, k in known],
            _KNOWN,
            "endpoint known",
        )
        _bars(
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
                shape.annotate(
                    name,
                    (1.0, level),
                    xycoords=("axes fraction", "data"),
                    xytext=(2, 0),
                    textcoords="offset points",
                    va="center",
                    fontsize=7,
                    color=DATA_COLOUR,
                )
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
        figure.legend(
            *shape.get_legend_handles_labels(), loc="outside lower center", ncols=3, markerscale=1.2
        )
    return figure


def mean_residual_life(points: Sequence[MeanExcess], fit: GPDFit | None = None) -> Figure:
    """Mean excess over thresholds, and the straight line of a generalised Pareto fit.

    Args:
        points: from :func:`weince_lib.evt.mean_residual_life`.
        fit: its line, (sigma + xi (u - u_0)) / (1 - xi), is drawn above its threshold u_0 if there
            is an estimate with xi < 1.
    """
    threshold = np.array([p.threshold for p in points])
    with style():
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
        if fit is not None and fit.shape < 1.0:
            end = min(fit.endpoint, float(threshold[-1]))
            u = np.array([fit.threshold, max(end, fit.threshold)])
            name = f"generalised Pareto, ξ̂ = {fit.shape:.2f}".replace("-", "−")
            line = (fit.scale + fit.shape * (u - fit.threshold)) / (1.0 - fit.shape)
            axes.plot(u, line, color=_WEIBULL, label=name)
            axes.axvline(fit.threshold, color=REFERENCE_COLOUR, lw=0.8, ls=":")
        axes.set(
            xlabel="threshold u (units of the scores)",
            ylabel="mean excess over u",
            title="Straight above a good threshold: falling for ξ < 0, level for ξ = 0",
        )
        axes.legend()
    return figure


def _bars(
    axes: Axes,
    position: np.ndarray,
    triples: Sequence[tuple[float, float, float]],
    colour: str,
    label: str | None = None,
) -> None:
    """Estimates with their intervals; an interval without an estimate is a bare line."""
    if not triples:
        return
    centre, low, high = np.array(triples).T
    axes.vlines(position, low, high, color=colour, lw=1)
    axes.plot(position, centre, "o", ms=3, color=colour, label=label)
