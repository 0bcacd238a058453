"""The release's objective as explicit loops in float64, written from the project's audit.

Nothing here comes from the library: the tail, the fit of beta and the three cross-entropies are
spelt out once more. Cosines and the WEINCE term are those of ``transcribed_weince``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import transcribed_weince as transcribed
from transcribed_weince import negatives_of, positive_of


def cosines(z0: np.ndarray, z1: np.ndarray) -> np.ndarray:
    return transcribed.cosines(transcribed.stacked_unit_rows(z0, z1)[0])


def fitted_beta(s: np.ndarray) -> tuple[float, float]:
    """Slope of log F on log delta over the batch's smallest shortfalls, and R^2."""
    m = len(s)
    delta = sorted(max(1.0 - s[i, j], 1e-6) for i in range(m) for j in negatives_of(i, m))
    k = min(max(1024, math.floor(0.05 * len(delta))), len(delta))
    points = [(math.log(delta[r - 1]), math.log(r / (k + 1))) for r in range(1, k + 1)]
    x, y = np.transpose(points[math.floor(0.05 * k) :])
    fit = np.polynomial.Polynomial.fit(x, y, 1).convert()
    residual = ((y - fit(x)) ** 2).sum()
    return float(fit.coef[1]), float(1.0 - residual / ((y - y.mean()) ** 2).sum())


def running_beta(old: float, slope: float, r2: float) -> float:
    return 0.9 * old + 0.1 * min(max(slope, 0.5), 16.0) if r2 >= 0.85 else old


def over_the_hardest(s: np.ndarray, logit: Callable[[float], float], count: int) -> float:
    """Cross-entropy over the positive and the hardest negatives, the mean over anchors."""
    m, terms = len(s), []
    for i in range(m):
        hardest = sorted(negatives_of(i, m), key=lambda j, i=i: -s[i, j])[:count]
        logits = [logit(s[i, j]) for j in (positive_of(i, m), *hardest)]
        top = max(logits)
        terms.append(top + math.log(sum(math.exp(x - top) for x in logits)) - logits[0])
    return float(np.mean(terms))


def top_softmax(z0: np.ndarray, z1: np.ndarray, temperature: float, count: int = 50) -> float:
    return over_the_hardest(cosines(z0, z1), lambda x: x / temperature, count)


def top_weibit(z0: np.ndarray, z1: np.ndarray, beta: float, count: int = 50) -> float:
    return over_the_hardest(cosines(z0, z1), lambda x: -beta * math.log(max(1 - x, 1e-6)), count)


def released(z0: np.ndarray, z1: np.ndarray, temperature: float, beta: float) -> float:
    """The whole objective at a given running beta."""
    blend = transcribed.weince(z0, z1, temperature, tail_index="unit")[0]
    return blend + 0.5 * top_weibit(z0, z1, beta) + 0.5 * top_softmax(z0, z1, temperature)
