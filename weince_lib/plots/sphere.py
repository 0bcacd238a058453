"""The sphere at finite thresholds, and the dimension of real embeddings beside it."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from .maxima import MARKS, Points
from .style import PAGE_WIDTH, REFERENCE_COLOUR, style


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
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.8))
        for colour, mark, (d, (limit, exact, points)) in zip(
            colours, MARKS, shapes.items(), strict=False
        ):
            left.plot(points.x, exact, color=colour, lw=1)
            left.axhline(limit, color=colour, ls=":", lw=1)
            left.errorbar(
                points.x, points.y, points.error, fmt=mark, ms=3.5, color=colour, label=f"d = {d}"
            )
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
        right.plot(
            neighbours, values, color=REFERENCE_COLOUR, ls="--", label=f"even, d = {dimension}"
        )
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
