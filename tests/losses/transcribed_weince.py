"""The losses once more, written from the equations alone, for the tests to compare with.

Float64, one loop over anchors and one over candidates, no code shared with the library: sums are
``math.fsum``, lines are fitted by their normal equations, and the gradient is the closed formula
instead of automatic differentiation. Slow on purpose.

All rows that take part (both batches, further negatives, a queue) make one universe. An anchor is
an index into it, with its positive's and its negatives' indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Matrix = np.ndarray


@dataclass(frozen=True)
class Anchor:
    """One term of the loss; ``counted`` is the number of negatives the tail is a share of."""

    row: int
    positive: int
    negatives: list[int]
    counted: int


@dataclass(frozen=True)
class Reading:
    """What one anchor's negatives say: rho, beta, Delta AIC and the blend weight lambda."""

    rho: float
    beta: float
    delta_aic: float
    lam: float


def stacked_unit_rows(*views: Matrix) -> tuple[Matrix, np.ndarray]:
    """Unit rows of all views, shape (2N, d), and the rows' lengths before, shape (2N,)."""
    rows = [np.asarray(row, dtype=np.float64) for view in views for row in view]
    lengths = [math.sqrt(math.fsum(x * x for x in row)) for row in rows]
    return np.array([row / n for row, n in zip(rows, lengths, strict=True)]), np.array(lengths)


def cosines(unit: Matrix) -> Matrix:
    """s_ij for all pairs of rows."""
    s = np.empty((len(unit), len(unit)))
    for i, u in enumerate(unit):
        for j, v in enumerate(unit[: i + 1]):
            s[i, j] = s[j, i] = math.fsum(u * v)
    return s


def positive_of(i: int, m: int) -> int:
    """The other view of view i among m = 2N views."""
    return i + m // 2 if i < m // 2 else i - m // 2


def negatives_of(i: int, m: int) -> list[int]:
    """Every view that is neither the anchor nor its positive."""
    return [j for j in range(m) if j != i and j != positive_of(i, m)]


def two_view_anchors(m: int) -> list[Anchor]:
    return [Anchor(i, positive_of(i, m), negatives_of(i, m), m - 2) for i in range(m)]


# The tail ------------------------------------------------------------------------------------


def nearest_rank(values: list[float], q: float) -> float:
    """The ceil(q n)-th smallest, with q read as the decimal number it is written as."""
    rank = math.ceil(Fraction(repr(q)) * len(values))
    return sorted(values)[max(rank, 1) - 1]


def line(x: list[float], y: list[float]) -> tuple[float, float]:
    """Slope and squared error of the least-squares line, by Cramer's rule."""
    n = len(x)
    sx, sy = math.fsum(x), math.fsum(y)
    sxx = math.fsum(a * a for a in x)
    sxy = math.fsum(a * b for a, b in zip(x, y, strict=True))
    determinant = n * sxx - sx * sx
    intercept = (sy * sxx - sx * sxy) / determinant
    slope = (n * sxy - sx * sy) / determinant
    sse = math.fsum((b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    return slope, sse


def two_lines(tail: list[float]) -> tuple[float, float] | None:
    """Beta and Delta AIC of the two line fits to K ascending shortfalls; None if impossible."""
    size = len(tail)
    first = max(1, size // 20)
    log_delta, log_f, log_minus_log_f = [], [], []
    for k in range(first + 1, size + 1):
        f = k / (size + 1)
        log_delta.append(math.log(tail[k - 1]))
        log_f.append(math.log(f))
        log_minus_log_f.append(math.log(-math.log(f)))
    n = len(log_delta)
    if n < 3 or len(set(log_delta)) == 1:
        return None
    beta, sse_weibull = line(log_delta, log_f)
    c, sse_gumbel = line(log_delta, log_minus_log_f)
    if beta <= 0:
        sse_weibull += 1e6
    if c >= 0:
        sse_gumbel += 1e6
    aic_weibull = n * math.log(sse_weibull / n) + 2 * 2
    aic_gumbel = n * math.log(sse_gumbel / n) + 2 * 2
    return max(beta, 0.0), aic_gumbel - aic_weibull


def two_likelihoods(smallest: list[float]) -> tuple[float, float] | None:
    """Hill's beta and the likelihood Delta AIC; the last shortfall is the threshold."""
    *tail, threshold = smallest
    k = len(tail)
    if k < 2 or tail[0] == threshold:
        return None
    beta = k / math.fsum(math.log(threshold / d) for d in tail)
    weibull = k * math.log(beta / threshold)
    weibull += (beta - 1) * math.fsum(math.log(d / threshold) for d in tail)
    excess = math.fsum(threshold - d for d in tail) / k
    exponential = -k * math.log(excess) - k
    return beta, (2 - 2 * exponential) - (2 - 2 * weibull)


def sigmoid(x: float) -> float:
    """Logistic function, without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def read_tail(
    scores: Matrix,
    anchors: list[Anchor] | None = None,
    *,
    tail_index: str = "line",
    evidence: str = "line-aic",
    cap_quantile: float = 0.2,
    tail_fraction: float = 0.10,
    min_tail: int = 32,
    cap_sharpness: float = 10.0,
    evidence_sharpness: float = 1.0,
    evidence_margin: float = 2.0,
    floor: float = 1e-6,
) -> list[Reading]:
    """Eq. (3.2) for each anchor of a matrix of cosines; of two views by default."""
    anchors = anchors or two_view_anchors(len(scores))
    tails = [sorted(max(1 - scores[a.row, j], floor) for j in a.negatives) for a in anchors]
    nearest = [tail[0] for tail in tails if tail]
    rho_0 = nearest_rank(nearest, cap_quantile) if nearest else math.inf
    readings = []
    for anchor, deltas in zip(anchors, tails, strict=True):
        size = min(max(min_tail, round(tail_fraction * anchor.counted)), anchor.counted)
        lines = likelihoods = None
        if deltas and len(deltas) >= min(size + 1, anchor.counted):
            lines = two_lines(deltas[:size])
            likelihoods = two_likelihoods(deltas[: size + 1])
        index = {
            "line": lines and lines[0],
            "hill": likelihoods and likelihoods[0],
            "unit": 1.0,
        }[tail_index]
        gain = {"line-aic": lines, "likelihood": likelihoods}[evidence]
        rho = deltas[0] if deltas else math.inf
        if index is None or gain is None:  # too few negatives for the fit: InfoNCE
            readings.append(Reading(rho, 0.0, 0.0, 0.0))
            continue
        near_cap = sigmoid(cap_sharpness * math.log(rho_0 / rho))
        endpoint = sigmoid(evidence_sharpness * (gain[1] - evidence_margin))
        readings.append(Reading(rho, index, gain[1], near_cap * endpoint))
    return readings


# The loss and its gradient -------------------------------------------------------------------


def scores_loss(
    scores: Matrix,
    anchors: list[Anchor],
    readings: list[Reading],
    slope: float,
    floor: float = 1e-6,
) -> tuple[float, Matrix, float]:
    """Mean loss for frozen lambda and beta, its gradient in the scores, and that in 1 / tau.

    (p_ij - 1[j = i+]) ((1 - lambda_i) / tau + lambda_i beta_i / (1 - s_ij)) / A, with p_ij over the
    candidates of each anchor (Eq. 3.1).
    """
    gradient, by_slope, losses = np.zeros_like(scores), 0.0, []
    for anchor, reading in zip(anchors, readings, strict=True):
        i, lam, power = anchor.row, reading.lam, reading.lam * reading.beta
        columns = [anchor.positive, *anchor.negatives]
        logits = [
            (1 - lam) * slope * scores[i, j] - power * math.log(max(1 - scores[i, j], floor))
            for j in columns
        ]
        top = max(logits)
        total = math.fsum(math.exp(x - top) for x in logits)
        losses.append(top + math.log(total) - logits[0])
        for place, (j, x) in enumerate(zip(columns, logits, strict=True)):
            residual = (math.exp(x - top) / total - (place == 0)) / len(anchors)
            steepness = (1 - lam) * slope + power / max(1 - scores[i, j], floor)
            gradient[i, j] += residual * steepness
            by_slope += residual * (1 - lam) * scores[i, j]
    return math.fsum(losses) / len(anchors), gradient, by_slope


def row_gradient(g: Matrix, unit: Matrix, lengths: np.ndarray) -> Matrix:
    """The score gradient carried to the rows.

    s_ij = u_i . u_j gives dL/du_i = sum_j (G_ij + G_ji) u_j, and u = x/|x| projects that on the
    tangent plane and divides by |x|.
    """
    rows = []
    for i, u in enumerate(unit):
        du = sum((g[i, j] + g[j, i]) * unit[j] for j in range(len(unit)))
        rows.append((du - math.fsum(du * u) * u) / lengths[i])
    return np.array(rows)


def universe_loss(
    rows: Matrix, anchors: list[Anchor], slope: float, settings: dict[str, Any] | None
) -> tuple[float, Matrix, float, list[Reading]]:
    """Loss, gradient in every row, derivative in 1 / tau, readings; InfoNCE without settings."""
    unit, lengths = stacked_unit_rows(rows)
    scores = cosines(unit)
    readings = [Reading(math.nan, 0.0, 0.0, 0.0)] * len(anchors)
    if settings is not None:
        readings = read_tail(scores, anchors, **settings)
    floor = (settings or {}).get("floor", 1e-6)
    value, gradient, by_slope = scores_loss(scores, anchors, readings, slope, floor)
    return value, row_gradient(gradient, unit, lengths), by_slope, readings


def loss_of(
    z0: Matrix, z1: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> float:
    """The loss of two views for given, frozen lambda and beta."""
    scores = cosines(stacked_unit_rows(z0, z1)[0])
    return scores_loss(scores, two_view_anchors(len(scores)), readings, 1 / temperature, floor)[0]


def frozen(
    z0: Matrix, z1: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> tuple[float, Matrix, Matrix]:
    """Loss and gradients of both views for given, frozen lambda and beta."""
    unit, lengths = stacked_unit_rows(z0, z1)
    anchors = two_view_anchors(len(unit))
    value, gradient, _ = scores_loss(cosines(unit), anchors, readings, 1 / temperature, floor)
    rows = row_gradient(gradient, unit, lengths)
    return value, rows[: len(z0)], rows[len(z0) :]


def weince(
    z0: Matrix, z1: Matrix, temperature: float, **settings: Any
) -> tuple[float, Matrix, Matrix, list[Reading]]:
    """Loss, gradients of both views and the readings of one batch."""
    readings = read_tail(cosines(stacked_unit_rows(z0, z1)[0]), **settings)
    floor = settings.get("floor", 1e-6)
    return *frozen(z0, z1, readings, temperature, floor), readings


def infonce(z0: Matrix, z1: Matrix, temperature: float) -> tuple[float, Matrix, Matrix]:
    """Loss and gradients of both views of one batch."""
    return frozen(z0, z1, [Reading(math.nan, 0.0, 0.0, 0.0)] * 2 * len(z0), temperature)
