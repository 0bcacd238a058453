"""Appendix C.1 in figures: what a wrong link converges to, how fast, and what intervals cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from .style import DATA_COLOUR, LOSS_COLOURS, PAGE_WIDTH, REFERENCE_COLOUR, note, style

_SOFTMAX, _ENDPOINT = LOSS_COLOURS["infonce"], LOSS_COLOURS["weibit"]
_COLOURS = {"softmax": _SOFTMAX, "endpoint link": _ENDPOINT}
_NAIVE = "#E69F00"


@dataclass(frozen=True)
class Simulated:
    """A simulated curve over the number of winners and what it is judged against.

    Attributes:
        size: numbers of winners n, shape ``(points,)``.
        value: Monte-Carlo mean at each n.
        error: its standard error.
        curve: the theory's ``(n, value)``, drawn as a line; none by default.
    """

    size: np.ndarray
    value: np.ndarray
    error: np.ndarray
    curve: tuple[np.ndarray, np.ndarray] | None = field(default=None)


@style()
def pseudo_true_link(
    scores: np.ndarray,
    probabilities: Mapping[str, np.ndarray],
    temperature: np.ndarray,
    divergence: np.ndarray,
    squared_error: np.ndarray,
    fitted: float,
) -> Figure:
    """Winner probabilities of truth and closest softmax; what every other temperature would do.

    Args:
        scores: of the candidates, shape ``(K,)``.
        probabilities: ``"truth"`` and ``"softmax"``, each of shape ``(K,)``.
        temperature: grid of tau.
        divergence: KL(p* || softmax) at each, in nats.
        squared_error: of the top candidate's log-odds at each.
        fitted: the pseudo-true temperature.
    """
    figure, (bars, left, right) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.5))
    place = np.arange(len(scores))
    for shift, name, colour in (
        (-0.2, "truth", _ENDPOINT),
        (0.2, "softmax", _SOFTMAX),
    ):
        label = {"truth": "truth (endpoint)", "softmax": "closest softmax"}[name]
        bars.bar(place + shift, probabilities[name], 0.38, color=colour, label=label)
    bars.set_xticks(place, [f"{s:g}" for s in scores])
    bars.set(xlabel="score of the candidate", ylabel="probability to win", ylim=(0, 0.72))
    bars.legend(loc="upper left")
    for axes, values, ylabel in (
        (left, divergence, "divergence KL(p* ‖ p) (nats)"),
        (right, squared_error, "squared error of log-odds"),
    ):
        axes.plot(temperature, values, color=_SOFTMAX)
        axes.axvline(fitted, color=DATA_COLOUR, ls="--", lw=1)
        axes.set(xscale="log", xlabel="softmax temperature τ", ylabel=ylabel)
        axes.set_xticks([0.2, 0.4, 0.8], ["0.2", "0.4", "0.8"])
        axes.minorticks_off()
    left.set(ylim=(0, None))
    note(left, f"best: τ = {fitted:.2f}", (fitted, left.get_ylim()[1]), (4, -10))
    right.set(yscale="log", ylim=(1e-4, None))
    return figure


@style()
def noise_floor(
    curves: Mapping[str, Simulated], floor: float, ylabel: str, crossing: float | None = None
) -> Figure:
    """Figure 5: mean squared error against the number of winners.

    Args:
        curves: ``"softmax"`` and ``"endpoint link"``; bars are 95 % Monte-Carlo intervals.
        floor: the softmax's limit.
        ylabel: what the error is of.
        crossing: number of winners with which the right link's error equals the floor.
    """
    figure, axes = plt.subplots(figsize=(PAGE_WIDTH, 3.1))
    for name, data in curves.items():
        _simulated(axes, data, name, _COLOURS[name])
    axes.axhline(floor, color=REFERENCE_COLOUR, ls="--", lw=1)
    note(axes, f"floor {floor:.4f}", (axes.get_xlim()[1], floor), (-4, -11), ha="right")
    if crossing is not None:
        axes.plot([crossing], [floor], "o", mfc="none", color=DATA_COLOUR, ms=8)
        note(axes, f"{crossing:.0f} winners", (crossing, floor), (-6, -14), ha="right")
    axes.set(xscale="log", yscale="log", xlabel="number of winners n", ylabel=ylabel)
    _size_ticks(axes, curves)
    axes.legend(loc="lower left")
    return figure


@style()
def sampling_law(
    standardised: Mapping[int, np.ndarray],
    ratio: float,
    distance: tuple[np.ndarray, np.ndarray],
) -> Figure:
    """The estimates' law around the pseudo-true value, against the normal law of the theorem.

    Args:
        standardised: n to sqrt(n) (estimate - pseudo-true) / sqrt(sandwich variance), two of them.
        ratio: naive over sandwich standard deviation.
        distance: ``(n, largest difference of distribution functions)``, exact.
    """
    grid = np.linspace(-4, 4, 300)
    figure, panels = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.6))
    for axes, (size, values) in zip(panels, standardised.items(), strict=False):
        heights, edges = np.histogram(values, bins=33, range=(-4, 4), density=True)
        axes.stairs(heights, edges, fill=True, color=_SOFTMAX, alpha=0.35, label="estimates")
        axes.plot(grid, norm.pdf(grid), color=DATA_COLOUR, label="sandwich")
        axes.plot(grid, norm.pdf(grid, scale=ratio), color=_NAIVE, ls="--", label="naive")
        axes.set(xlabel="standardised estimate", title=f"n = {size:,}", ylim=(0, 0.55))
    panels[0].set(ylabel="density")
    panels[0].legend(loc="upper left", handlelength=1.2, fontsize=7)
    n, gap = distance
    panels[2].plot(n, gap, "o-", ms=3, color=_SOFTMAX, label="exact")
    panels[2].plot(n, gap[-1] * np.sqrt(n[-1] / n), color=REFERENCE_COLOUR, ls=":", label="1/√n")
    panels[2].set(
        xscale="log",
        yscale="log",
        xlabel="number of winners n",
        ylabel="largest difference",
        title="Distance from the normal",
    )
    panels[2].legend(loc="lower left")
    return figure


@style()
def interval_coverage(
    at_pseudo_true: Mapping[str, Simulated],
    at_truth: Mapping[str, Simulated],
    limits: Sequence[tuple[str, float]],
) -> Figure:
    """Share of 95 % intervals that hold the pseudo-true value, and the true one.

    Args:
        at_pseudo_true: ``"sandwich"`` and ``"naive"``; bars are 95 % Monte-Carlo intervals.
        at_truth: the same for the true value, with the normal approximation as curves.
        limits: for the left panel, each covariance's limit as n grows.
    """
    colours = {"sandwich": DATA_COLOUR, "naive": _NAIVE}
    figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.7))
    for axes, curves in ((left, at_pseudo_true), (right, at_truth)):
        for name, data in curves.items():
            _simulated(axes, data, name, colours[name])
        axes.set(xscale="log", xlabel="number of winners n")
        _size_ticks(axes, curves)
    for name, limit in limits:
        left.axhline(limit, color=colours[name], lw=1, ls="--")
    ends = [c.value - 2.2 * c.error for c in at_pseudo_true.values()]
    tops = [c.value + 2.2 * c.error for c in at_pseudo_true.values()]
    left.set(
        ylabel="share of 95 % intervals",
        title="… that hold the pseudo-true value",
        ylim=(min(0.9, np.min(ends)), max(0.97, np.max(tops))),
    )
    right.set(title="… that hold the true value", ylim=(-0.03, 1.03))
    right.legend(loc="upper right")
    return figure


def _size_ticks(axes: Axes, curves: Mapping[str, Simulated]) -> None:
    """Few sizes are named one by one: within a decade or two a log axis has no good ticks."""
    size = next(iter(curves.values())).size
    if len(size) < 6:
        axes.set_xticks(size, [f"{n:,}" for n in size])
        axes.minorticks_off()


def _simulated(axes: Axes, data: Simulated, name: str, colour: str) -> None:
    if data.curve is not None:
        axes.plot(*data.curve, color=colour, lw=1.2)
    axes.errorbar(
        data.size,
        data.value,
        1.96 * data.error,
        fmt="o",
        ms=3.5,
        lw=1,
        capsize=2,
        color=colour,
        label=name,
    )
