"""Does a fitted tail law follow the exceedances? A quantile plot."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..evt import GPDFit, KnownEndpointFit
from .style import LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

_WEIBULL, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))
#: Dots a plot shows beside the top ones; more would only fill the file.
_SHOWN = 400


def quantile_quantile(
    values: np.ndarray, fit: GPDFit, known: KnownEndpointFit | None = None
) -> Figure:
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
    ranks = _ranks(excess.size)
    with style():
        figure, (whole, rest) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.9))
        for name, (law, colour) in laws.items():
            model = law.ppf(ranks / (excess.size + 1))
            observed = excess[ranks - 1]
            low, high = law.ppf(_band(ranks, excess.size))
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
        figure.legend(
            *whole.get_legend_handles_labels(), loc="outside lower center", ncols=3, markerscale=3
        )
    return figure


def _laws(
    values: np.ndarray, fit: GPDFit, known: KnownEndpointFit | None
) -> tuple[np.ndarray, dict[str, tuple[Any, str]]]:
    """Ordered excesses, and each model's law of them with its colour, by name."""
    excess = np.sort(values[values > fit.threshold] - fit.threshold)
    laws: dict[str, tuple[Any, str]] = {}
    if np.isfinite(fit.shape):
        name = f"generalised Pareto, ξ̂ = {fit.shape:.2f}".replace("-", "−")
        laws[name] = (stats.genpareto(fit.shape, scale=fit.scale), _WEIBULL)
    if known is not None:
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


def _ranks(size: int) -> np.ndarray:
    """Ranks to draw, ascending: some of the body, all of the top."""
    body = np.linspace(1, size, min(size, _SHOWN)).astype(int)
    top = np.arange(max(1, size - 100), size + 1)
    return np.unique(np.concatenate([body, top]))


def _band(ranks: np.ndarray, size: int) -> np.ndarray:
    """2.5 % and 97.5 % points of the probabilities of order statistics, shape ``(2, ranks)``."""
    return np.array([stats.beta.ppf(p, ranks, size + 1 - ranks) for p in (0.025, 0.975)])
