"""Does a tail's fit follow it, and how well is it known? Quantiles, probabilities, profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from ..evt import GPDFit, KnownEndpointFit, ProfileCurve
from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, style

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


def probability_probability(
    values: np.ndarray, fit: GPDFit, known: KnownEndpointFit | None = None
) -> Figure:
    """Observed shares against each model's probabilities; the difference, with 95 % bands.

    A probability plot looks at the body of the excesses, a quantile plot at their top.

    Args:
        values: the sample that was fitted, shape ``(n,)``.
        fit: generalised Pareto fit; without an estimate it is left out.
        known: fit with a known endpoint, above the same threshold.

    Raises:
        ValueError: for a ``known`` fit above another threshold.
    """
    excess, laws = _laws(values, fit, known)
    ranks = _ranks(excess.size)
    share = ranks / (excess.size + 1)
    with style():
        figure, (whole, rest) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.9))
        low, high = _band(ranks, excess.size)
        rest.fill_between(share, low - share, high - share, color=DATA_COLOUR, alpha=0.15, lw=0)
        for name, (law, colour) in laws.items():
            model = law.cdf(excess[ranks - 1])
            whole.plot(share, model, color=colour, label=name)
            rest.plot(share, model - share, color=colour)
        whole.plot([0, 1], [0, 1], color=REFERENCE_COLOUR, lw=0.8, ls=":")
        rest.axhline(0.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
        whole.set(
            xlabel="observed share of excesses below",
            ylabel="model probability",
            title=f"{excess.size:,} excesses over u = {fit.threshold:.3f}",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        rest.set(
            xlabel="observed share of excesses below",
            ylabel="model − observed",
            title="Difference, with a pointwise 95 % band",
            xlim=(0, 1),
        )
        figure.legend(*whole.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def profile_likelihood(
    curves: Sequence[ProfileCurve], known_endpoint: float | None = 1.0
) -> Figure:
    """Profile log-likelihoods with their intervals, one panel a parameter.

    The endpoint's panel says so where the drop does not give a valid interval; there the
    largest-share interval of :func:`weince_lib.evt.fit_endpoint` does.

    Args:
        curves: of the shape, of the endpoint, or both.
        known_endpoint: marked on an endpoint's panel if it lies within it; 1 is the cap of a
            cosine.
    """
    with style():
        figure, panels = plt.subplots(
            1, len(curves), figsize=(PAGE_WIDTH, 2.7), squeeze=False, sharey=True
        )
        for axes, curve in zip(panels[0], curves, strict=True):
            right = _right_end(curve)
            axes.axvspan(curve.low, min(curve.high, right), color=_WEIBULL, alpha=0.12, lw=0)
            axes.plot(curve.values, curve.relative, color=_WEIBULL)
            axes.axhline(-curve.drop, color=REFERENCE_COLOUR, lw=0.8, ls="--")
            if np.isfinite(curve.estimate) and curve.estimate <= right:
                axes.plot(curve.estimate, 0.0, "o", ms=4, color=_WEIBULL)
            mark, name, symbol = (
                (0.0, "ξ = 0 (Gumbel)", "shape ξ")
                if curve.parameter == "shape"
                else (known_endpoint, "known endpoint", "endpoint (units of the scores)")
            )
            left = float(curve.values[0])
            if mark is not None and left <= mark <= right:
                axes.axvline(mark, color=_KNOWN, lw=1, ls=":", label=name)
                axes.legend(loc="lower center")
            axes.ticklabel_format(axis="x", useOffset=False)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            title = f"profile {100 * curve.confidence:g} % interval"
            title += f" {_interval(curve.low, curve.high)}"
            if curve.parameter == "endpoint" and curve.regime != "regular":
                title += "\nnot valid at ξ ≤ −½: see the largest share"
            axes.set(
                xlabel=symbol,
                xlim=(left, right),
                ylim=(float(min(c.relative.min() for c in curves)), 0.3),
                title=title,
            )
        panels[0, 0].set(ylabel="log-likelihood below its top (nats)")
    return figure


def _interval(low: float, high: float) -> str:
    """Both ends, with two digits of their distance."""
    width = high - low if np.isfinite(high) else abs(low)
    digits = max(0, 1 - int(np.floor(np.log10(width)))) if width > 0 else 3
    end = f"{high:.{digits}f}" if np.isfinite(high) else "∞"
    return f"[{low:.{digits}f}, {end}]".replace("-", "−")


def _right_end(curve: ProfileCurve) -> float:
    """Where an endpoint's panel ends: beyond its interval, or where the curve has flattened."""
    last = float(curve.values[-1])
    if curve.parameter == "shape":
        return last
    first = float(curve.values[0])
    end = curve.high if np.isfinite(curve.high) else curve.estimate
    if not np.isfinite(end):
        end = float(np.median(curve.values))
    return min(last, first + 2.0 * (end - first))


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
