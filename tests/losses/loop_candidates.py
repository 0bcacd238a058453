"""Any candidate set once more, as explicit loops in float64 over lists of negatives.

All rows that take part (both batches, further negatives, a queue) make one universe; an anchor is
an index into it, with its positive's and its negatives' indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from transcribed_weince import nearest_rank, sigmoid, two_likelihoods, two_lines


@dataclass(frozen=True)
class Anchor:
    """One term of the loss; ``counted`` is the number of negatives the tail is a share of."""

    row: int
    positive: int
    negatives: list[int]
    counted: int


def universe_loss(
    rows: np.ndarray, anchors: list[Anchor], slope: float, settings: dict[str, Any] | None
) -> tuple[float, np.ndarray, float, list[float]]:
    """Loss, gradient in every row, derivative in 1 / tau, and lambda; InfoNCE without settings."""
    lengths = np.sqrt((rows**2).sum(1))
    unit = rows / lengths[:, None]
    scores = unit @ unit.T
    value, by_score, by_slope, lams = scores_loss(scores, anchors, slope, settings)
    by_unit = (by_score + by_score.T) @ unit
    along = (by_unit * unit).sum(1, keepdims=True)
    return value, (by_unit - along * unit) / lengths[:, None], by_slope, lams


def scores_loss(
    scores: np.ndarray, anchors: list[Anchor], slope: float, settings: dict[str, Any] | None
) -> tuple[float, np.ndarray, float, list[float]]:
    """The same in a matrix of scores; ``Anchor.row`` is its row."""
    floor = (settings or {}).get("floor", 1e-6)
    lams, betas = [0.0] * len(anchors), [0.0] * len(anchors)
    if settings is not None:
        lams, betas = read(scores, anchors, settings)
    gradient, by_slope, losses = np.zeros_like(scores), 0.0, []
    for anchor, lam, beta in zip(anchors, lams, betas, strict=True):
        i = anchor.row
        columns = [anchor.positive, *anchor.negatives]
        logits = [
            (1 - lam) * slope * scores[i, j] - lam * beta * math.log(max(1 - scores[i, j], floor))
            for j in columns
        ]
        top = max(logits)
        total = math.fsum(math.exp(x - top) for x in logits)
        losses.append(top + math.log(total) - logits[0])
        for place, (j, x) in enumerate(zip(columns, logits, strict=True)):
            residual = (math.exp(x - top) / total - (place == 0)) / len(anchors)
            steepness = (1 - lam) * slope + lam * beta / max(1 - scores[i, j], floor)
            gradient[i, j] += residual * steepness
            by_slope += residual * (1 - lam) * scores[i, j]
    return math.fsum(losses) / len(anchors), gradient, by_slope, lams


def read(
    scores: np.ndarray, anchors: list[Anchor], settings: dict[str, Any]
) -> tuple[list[float], list[float]]:
    """Lambda and beta of each anchor (Eq. 3.2)."""
    tails = [
        sorted(max(1 - scores[a.row, j], settings["floor"]) for j in a.negatives) for a in anchors
    ]
    with_negatives = [tail[0] for tail in tails if tail]
    rho_0 = nearest_rank(with_negatives, settings["cap_quantile"]) if with_negatives else math.inf
    lams, betas = [], []
    for anchor, tail in zip(anchors, tails, strict=True):
        share = round(settings["tail_fraction"] * anchor.counted)
        size = min(max(settings["min_tail"], share), anchor.counted)
        lines = likelihoods = None
        if tail and len(tail) >= min(size + 1, anchor.counted):
            lines = two_lines(tail[:size])
            likelihoods = two_likelihoods(tail[: size + 1])
        beta = {
            "line": lines and lines[0],
            "hill": likelihoods and likelihoods[0],
            "unit": 1.0,
        }[settings["tail_index"]]
        gain = {"line-aic": lines, "likelihood": likelihoods}[settings["evidence"]]
        if beta is None or gain is None:
            lams.append(0.0)
            betas.append(0.0)
            continue
        near_cap = sigmoid(settings["cap_sharpness"] * math.log(rho_0 / tail[0]))
        supported = sigmoid(
            settings["evidence_sharpness"] * (gain[1] - settings["evidence_margin"])
        )
        lams.append(near_cap * supported)
        betas.append(beta)
    return lams, betas
