"""The losses once more, written from the equations alone, for the tests to compare with.

Float64, one loop over anchors and one over candidates, no code shared with the library: sums are
``math.fsum``, lines are fitted by their normal equations, and the gradient is the closed formula
instead of automatic differentiation. Slow on purpose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Matrix = np.ndarray


@dataclass(frozen=True)
class Reading:
    """What one anchor's negatives say: rho, beta, Delta AIC and the blend weight lambda."""

    rho: float
    beta: float
    delta_aic: float
    lam: float


def stacked_unit_rows(z0: Matrix, z1: Matrix) -> tuple[Matrix, np.ndarray]:
    """Unit rows of both views, shape (2N, d), and the rows' lengths before, shape (2N,)."""
    rows = [np.asarray(row, dtype=np.float64) for row in (*z0, *z1)]
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
    """Eq. (3.2) for each anchor of a (2N, 2N) matrix of cosines."""
    m = len(scores)
    sorted_shortfalls = [
        sorted(max(1 - scores[i, j], floor) for j in negatives_of(i, m)) for i in range(m)
    ]
    rho_0 = nearest_rank([deltas[0] for deltas in sorted_shortfalls], cap_quantile)
    size = min(max(min_tail, round(tail_fraction * (m - 2))), m - 2)
    readings = []
    for deltas in sorted_shortfalls:
        lines = two_lines(deltas[:size])
        likelihoods = two_likelihoods(deltas[: size + 1])
        index = {
            "line": lines and lines[0],
            "hill": likelihoods and likelihoods[0],
            "unit": 1.0,
        }[tail_index]
        gain = {"line-aic": lines, "likelihood": likelihoods}[evidence]
        if index is None or gain is None:  # too few negatives for the fit: InfoNCE
            readings.append(Reading(deltas[0], 0.0, 0.0, 0.0))
            continue
        near_cap = sigmoid(cap_sharpness * math.log(rho_0 / deltas[0]))
        endpoint = sigmoid(evidence_sharpness * (gain[1] - evidence_margin))
        readings.append(Reading(deltas[0], index, gain[1], near_cap * endpoint))
    return readings


# The loss and its gradient -------------------------------------------------------------------


def candidate_probabilities(
    scores: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> tuple[Matrix, float]:
    """p_ij over the candidates of each anchor (Eq. 3.1), and the mean loss."""
    m = len(scores)
    p = np.zeros((m, m))
    losses = []
    for i, reading in enumerate(readings):
        logits = {}
        for j in range(m):
            if j == i:
                continue
            endpoint = -reading.beta * math.log(max(1 - scores[i, j], floor))
            logits[j] = (1 - reading.lam) * scores[i, j] / temperature + reading.lam * endpoint
        top = max(logits.values())
        log_sum = top + math.log(math.fsum(math.exp(value - top) for value in logits.values()))
        for j, value in logits.items():
            p[i, j] = math.exp(value - log_sum)
        losses.append(log_sum - logits[positive_of(i, m)])
    return p, math.fsum(losses) / m


def infonce_readings(m: int) -> list[Reading]:
    """The blend weights that make Eq. (3.1) InfoNCE."""
    return [Reading(math.nan, 0.0, 0.0, 0.0)] * m


def loss_of(
    z0: Matrix, z1: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> float:
    """The loss for given, frozen lambda and beta."""
    unit, _ = stacked_unit_rows(z0, z1)
    return candidate_probabilities(cosines(unit), readings, temperature, floor)[1]


def score_gradient(
    scores: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> Matrix:
    """(p_ij - 1[j = i+]) ((1 - lambda_i)/tau + lambda_i beta_i/(1 - s_ij)) / 2N."""
    m = len(scores)
    p, _ = candidate_probabilities(scores, readings, temperature, floor)
    gradient = np.zeros((m, m))
    for i, reading in enumerate(readings):
        for j in range(m):
            if j == i:
                continue
            residual = p[i, j] - (1.0 if j == positive_of(i, m) else 0.0)
            slope = (1 - reading.lam) / temperature
            slope += reading.lam * reading.beta / max(1 - scores[i, j], floor)
            gradient[i, j] = residual * slope / m
    return gradient


def embedding_gradient(
    z0: Matrix, z1: Matrix, readings: list[Reading], temperature: float, floor: float = 1e-6
) -> tuple[Matrix, Matrix]:
    """The score gradient carried to both views, with lambda and beta frozen.

    s_ij = u_i . u_j gives dL/du_i = sum_j (G_ij + G_ji) u_j, and u = x/|x| projects that on the
    tangent plane and divides by |x|.
    """
    unit, lengths = stacked_unit_rows(z0, z1)
    g = score_gradient(cosines(unit), readings, temperature, floor)
    rows = []
    for i, u in enumerate(unit):
        du = sum((g[i, j] + g[j, i]) * unit[j] for j in range(len(unit)))
        rows.append((du - math.fsum(du * u) * u) / lengths[i])
    half = len(rows) // 2
    return np.array(rows[:half]), np.array(rows[half:])


def weince(
    z0: Matrix, z1: Matrix, temperature: float, **settings: Any
) -> tuple[float, Matrix, Matrix, list[Reading]]:
    """Loss, gradients of both views and the readings of one batch."""
    floor = settings.get("floor", 1e-6)
    unit, _ = stacked_unit_rows(z0, z1)
    readings = read_tail(cosines(unit), **settings)
    return (
        loss_of(z0, z1, readings, temperature, floor),
        *embedding_gradient(z0, z1, readings, temperature, floor),
        readings,
    )


def infonce(z0: Matrix, z1: Matrix, temperature: float) -> tuple[float, Matrix, Matrix]:
    """Loss and gradients of both views of one batch."""
    readings = infonce_readings(2 * len(z0))
    return (
        loss_of(z0, z1, readings, temperature),
        *embedding_gradient(z0, z1, readings, temperature),
    )
