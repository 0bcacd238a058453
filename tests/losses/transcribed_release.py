"""The release's objective as explicit loops in float64, written from the project's audit.

Nothing here comes from the library: cosines, tails, the fit of beta and the three cross-entropies
are spelt out once more. The WEINCE term is that of ``transcribed_weince``.
"""

from __future__ import annotations

import math

import numpy as np
import transcribed_weince as transcribed


def cosines(z0: np.ndarray, z1: np.ndarray) -> np.ndarray:
    z = np.concatenate([z0, z1])
    z = z / np.sqrt((z * z).sum(axis=1, keepdims=True))
    return z @ z.T


def negatives_of(i: int, n: int) -> list[int]:
    return [j for j in range(2 * n) if j not in (i, (i + n) % (2 * n))]


def hardest(s: np.ndarray, i: int, n: int, count: int) -> list[int]:
    return sorted(negatives_of(i, n), key=lambda j: -s[i, j])[:count]


def cross_entropy(logits: list[float]) -> float:
    """Of the first logit among all."""
    top = max(logits)
    return top + math.log(sum(math.exp(x - top) for x in logits)) - logits[0]


def fitted_beta(s: np.ndarray, n: int) -> tuple[float, float]:
    """Slope of log F on log delta over the batch's smallest shortfalls, and R^2."""
    delta = sorted(max(1.0 - s[i, j], 1e-6) for i in range(2 * n) for j in negatives_of(i, n))
    k = min(max(1024, math.floor(0.05 * len(delta))), len(delta))
    points = [(math.log(delta[m - 1]), math.log(m / (k + 1))) for m in range(1, k + 1)]
    points = points[math.floor(0.05 * k) :]
    fit = np.polynomial.Polynomial.fit(*np.transpose(points), 1).convert()
    x, y = np.transpose(points)
    residual = ((y - fit(x)) ** 2).sum()
    return float(fit.coef[1]), float(1.0 - residual / ((y - y.mean()) ** 2).sum())


def running_beta(old: float, slope: float, r2: float) -> float:
    return 0.9 * old + 0.1 * min(max(slope, 0.5), 16.0) if r2 >= 0.85 else old


def top_softmax(z0: np.ndarray, z1: np.ndarray, temperature: float, count: int = 50) -> float:
    s, n = cosines(z0, z1), len(z0)
    terms = []
    for i in range(2 * n):
        few = [(i + n) % (2 * n), *hardest(s, i, n, count)]
        terms.append(cross_entropy([s[i, j] / temperature for j in few]))
    return float(np.mean(terms))


def top_weibit(z0: np.ndarray, z1: np.ndarray, beta: float, count: int = 50) -> float:
    s, n = cosines(z0, z1), len(z0)
    terms = []
    for i in range(2 * n):
        few = [(i + n) % (2 * n), *hardest(s, i, n, count)]
        terms.append(cross_entropy([-beta * math.log(max(1.0 - s[i, j], 1e-6)) for j in few]))
    return float(np.mean(terms))


def released(z0: np.ndarray, z1: np.ndarray, temperature: float, beta: float) -> float:
    """The whole objective at a given running beta."""
    blend = transcribed.weince(z0, z1, temperature, tail_index="unit")[0]
    return blend + 0.5 * top_weibit(z0, z1, beta) + 0.5 * top_softmax(z0, z1, temperature)
