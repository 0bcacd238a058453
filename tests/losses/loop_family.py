"""The endpoint family, the self-setting rules and the rivals once more: loops in float64 numpy.

A problem is a list of (positive cosine, negative cosines) of every anchor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

Problem = list[tuple[float, list[float]]]


def two_view_problem(z0: np.ndarray, z1: np.ndarray, ids: list[int] | None = None) -> Problem:
    """Each of the 2N views, its partner, and all others that are not of its identity."""
    z = np.concatenate([z0, z1])
    z = z / np.sqrt((z**2).sum(1))[:, None]
    n = len(z0)
    names = [*(ids or range(n))] * 2
    return [
        (
            float(z[i] @ z[(i + n) % (2 * n)]),
            [float(z[i] @ z[j]) for j in range(2 * n) if names[j] != names[i]],
        )
        for i in range(2 * n)
    ]


def log_sum_exp(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def family_logit(s: float, temperature: float, g: float) -> float:
    if g == 0.0:
        return s / temperature
    return -math.log(max(1.0 - g * s, 1e-6 * g)) / (g * temperature)


def mean_nll(
    problem: Problem, logit: Callable[[float], float], *, decoupled: bool = False
) -> float:
    losses = []
    for positive, negatives in problem:
        competing = [logit(s) for s in negatives] + ([] if decoupled else [logit(positive)])
        losses.append(log_sum_exp(competing) - logit(positive) if negatives else 0.0)
    return math.fsum(losses) / len(losses)


def lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) + 1) // 2 - 1]


def hill(negatives: list[float]) -> float:
    """Maximum-likelihood tail index of the paper's tail, within the bounds of the rule."""
    delta = sorted(max(1.0 - s, 1e-6) for s in negatives)
    k = min(max(32, round(0.1 * len(delta))), len(delta))
    tail = delta[: min(k + 1, len(delta))]
    index = (len(tail) - 1) / math.fsum(math.log(tail[-1] / x) for x in tail[:-1])
    return min(max(index, 0.5), 16.0)


def statistics(problem: Problem) -> dict[str, float]:
    return {
        "positive_shortfall": lower_median([1.0 - p for p, _ in problem]),
        "negative_shortfall": lower_median(
            [lower_median([1.0 - s for s in n]) for _, n in problem]
        ),
        "tail_index": lower_median([hill(n) for _, n in problem]),
    }


def tail_rule(problem: Problem, means: dict[str, float]) -> float:
    r = means["positive_shortfall"] / means["negative_shortfall"]
    epsilon, b = r / (1.0 - r), 2.0 * means["tail_index"]
    return mean_nll(problem, lambda s: -b * math.log(1.0 + epsilon - s), decoupled=True)


def median_rule(problem: Problem, means: dict[str, float]) -> float:
    temperature = means["negative_shortfall"] / math.log(len(problem[0][1]))
    return mean_nll(problem, lambda s: s / temperature)


def hill_rule(problem: Problem, means: dict[str, float], factor: float) -> float:
    beta = factor * means["tail_index"]
    return mean_nll(problem, lambda s: -beta * math.log(max(1.0 - s, 1e-6)))


def kl_rule(problem: Problem) -> float:
    """The ball's margin by scipy's scalar minimiser instead of the entropy's root."""
    losses = []
    for positive, negatives in problem:
        n = len(negatives)
        k = max(0.01 * n, 2.0)

        def bound(log_tau: float, negatives: list[float] = negatives, k: float = k) -> float:
            tau = math.exp(log_tau)
            mean = log_sum_exp([s / tau for s in negatives]) - math.log(len(negatives))
            return tau * (mean + math.log(len(negatives) / k))

        best = minimize_scalar(
            bound,
            bounds=(math.log(0.01), math.log(10.0)),
            method="bounded",
            options={"xatol": 1e-9},
        )
        losses.append(best.fun - positive)
    return math.fsum(losses) / len(losses)


def hard_negatives(problem: Problem, temperature: float, beta: float, tau_plus: float) -> float:
    """Robinson et al. (2021) as in section 4: importance, debiasing, lower bound."""
    losses = []
    for positive, negatives in problem:
        n = len(negatives)
        plus = math.exp(positive / temperature)
        e = [math.exp(s / temperature) for s in negatives]
        w = [x**beta for x in e]
        reweighted = math.fsum(a * b for a, b in zip(w, e, strict=True)) / (math.fsum(w) / n)
        bound = n * math.exp(-1.0 / temperature)
        competing = max((reweighted - tau_plus * n * plus) / (1.0 - tau_plus), bound)
        losses.append(-math.log(plus / (plus + competing)))
    return math.fsum(losses) / len(losses)


def slopes(
    of: Callable[[np.ndarray, np.ndarray], float], z0: np.ndarray, z1: np.ndarray
) -> np.ndarray:
    """Central differences in ``z0``."""
    step, found = 1e-5, np.zeros_like(z0)
    for index in np.ndindex(*z0.shape):
        up, down = z0.copy(), z0.copy()
        up[index] += step
        down[index] -= step
        found[index] = (of(up, z1) - of(down, z1)) / (2 * step)
    return found
