r"""Exact winner probabilities of independent utilities, and the tail weights that approach them.

With distribution functions F_j and densities f_j, all in one coordinate,

    P(i wins) = int prod_{j != i} F_j(t) f_i(t) dt = int exp(L(t)) f_i(t) / F_i(t) dt,
    L(t) = sum_j log F_j(t).

The product over 10^5 factors is one sum of logarithms for all i together; each is taken as
log1p(-survival), which keeps the tiny survival probabilities that decide where the maximum lies.
Panels follow the quantiles of the noise, spaced evenly on the scale -log(-log F), on which the
maximum of n variables has about the same spread for every n; each panel is halved until
Gauss-Legendre rules on the whole and on the halves agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from ..links import Array
from .random_utility import IndexModel

if TYPE_CHECKING:
    from .random_utility import Noise

#: (nodes,) -> log F and log f, each of shape (nodes, entries).
Evaluate = Callable[[Array], tuple[Array, Array]]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(14)
#: Absolute error of a probability; leaves room below 1e-10.
_TOLERANCE = 1e-11
#: Values of log F held in memory at a time.
_BLOCK = 2_000_000
#: Probability that may be cut off at either end.
_NEGLIGIBLE = 1e-15
#: Support ends of single candidates at which panels are split; more of them are left to halving.
_MOST_KINKS = 200
_MOST_HALVINGS = 60


def top1_probabilities(model: IndexModel) -> Array:
    """Probability that a candidate has the largest utility, by quadrature.

    Entries with the same index are computed once, so that counts cost nothing. Ten thousand
    candidates with an index each take a few seconds, 10^5 half a minute and some 300 MB.

    Args:
        model: the candidates.

    Returns:
        Probability of one candidate of each entry, shape ``(entries,)``; with the counts as
        weights they sum to 1.

    Raises:
        RuntimeError: if the error is not below 1e-11, which takes a density with many jumps or
            one that grows without bound at an end of some candidate's support.
    """
    index, inverse = np.unique(model.index, return_inverse=True)
    counts = np.bincount(inverse, weights=model.counts).astype(np.float64)
    top = float(index[-1])

    def evaluate(t: Array) -> tuple[Array, Array]:
        x = t[:, None] - index
        return _log_cdf(model.noise_survival(x), model.noise_log_cdf, x), model.noise_log_density(x)

    edges = top + model.noise_level(_survival_grid(model.candidates))
    low, high = model.noise_support()
    kinks = np.concatenate([index + low, index + high])
    return _integrate(evaluate, counts, edges, kinks)[inverse.reshape(-1)]


def top1_probabilities_of_laws(laws: Sequence[Noise]) -> Array:
    """Probability that each of several independent variables, of any laws, is the largest.

    Args:
        laws: frozen continuous laws of scipy's, one per candidate.

    Returns:
        Shape ``(candidates,)``.

    Raises:
        ValueError: for fewer than two laws.
        RuntimeError: as :func:`top1_probabilities` does.
    """
    if len(laws) < 2:
        raise ValueError(f"a choice needs two candidates or more, got {len(laws)}")

    def evaluate(t: Array) -> tuple[Array, Array]:
        log_cdf = [_log_cdf(np.asarray(law.sf(t)), law.logcdf, t) for law in laws]
        return np.stack(log_cdf, axis=1), np.stack([law.logpdf(t) for law in laws], axis=1)

    survival = _survival_grid(len(laws))
    edges = np.concatenate([np.asarray(law.isf(survival)) for law in laws])
    kinks = np.array([float(end) for law in laws for end in law.support()])
    return _integrate(evaluate, np.ones(len(laws)), edges, kinks)


def maximum_level(model: IndexModel) -> float:
    """The level b_n that one candidate passes on average, sum_j P(T(X_j) > b_n) = 1.

    For identical candidates it is the (1 - 1/n) quantile, the paper's normalising level.

    Returns:
        b_n in the coordinate T.
    """
    n = model.candidates
    lowest, highest = float(model.index.min()), float(model.index.max())
    below, above = model.noise_level(np.array([1.5 / n, 0.5 / n]))

    def excess(t: float) -> float:
        return float(np.log(model.counts @ model.noise_survival(t - model.index)))

    return float(brentq(excess, lowest + float(below), highest + float(above), xtol=1e-13))


def tail_weights(model: IndexModel) -> Array:
    """Theorem 2.4's approximation to the winner probabilities.

    P(T(X_i) > b_n) / sum_j P(T(X_j) > b_n) at the :func:`maximum_level` b_n. It asks that no
    candidate passes b_n for sure.

    Args:
        model: the candidates.

    Returns:
        Log-weight of one candidate of each entry, shape ``(entries,)``; with the counts as weights
        the weights sum to 1.
    """
    log_survival = model.noise_log_survival(maximum_level(model) - model.index)
    return log_survival - float(logsumexp(log_survival, b=model.counts))


def _survival_grid(candidates: int) -> Array:
    """Survival probabilities at which panels end.

    In the upper tail every 2 on the scale -log(-log F), and as evenly in the lower one, which
    matters for few candidates.
    """
    below = 1.0 - 10.0 ** np.arange(-14.0, -1.0)
    return np.concatenate([below, -np.expm1(-np.exp(-np.arange(-1.0, 36 + np.log(candidates), 2)))])


def _log_cdf(survival: Array, log_cdf: Callable[[Array], Array], t: Array) -> Array:
    """Logarithm of F: from the survival function where F is near 1, else the law's own."""
    with np.errstate(divide="ignore"):
        result = np.log1p(-survival)
    low = survival > 0.5
    if low.any():
        result[low] = log_cdf(t[low])
    return result


def _integrate(evaluate: Evaluate, counts: Array, edges: Array, kinks: Array) -> Array:
    """Adaptive Gauss-Legendre quadrature of all win probabilities together."""
    ends = np.unique(edges[np.isfinite(edges)])
    kinks = np.unique(kinks[(kinks > ends[0]) & (kinks < ends[-1])])
    if len(kinks) <= _MOST_KINKS:
        ends = np.union1d(ends, kinks)
    ends = _relevant(evaluate, counts, ends)
    left, right = ends[:-1], ends[1:]
    allowed = _TOLERANCE / max(64, 2 * len(left))
    whole = _panels(evaluate, counts, left, right)
    total = np.zeros(len(counts))
    for _ in range(_MOST_HALVINGS):
        middle = 0.5 * (left + right)
        first = _panels(evaluate, counts, left, middle)
        second = _panels(evaluate, counts, middle, right)
        done = np.abs(first + second - whole).max(axis=1) <= allowed
        total += (first + second)[done].sum(axis=0)
        if done.all():
            break
        again = ~done
        left, right = (
            np.concatenate([left[again], middle[again]]),
            np.concatenate([middle[again], right[again]]),
        )
        whole = np.concatenate([first[again], second[again]])
    missing = abs(float(counts @ total) - 1.0)
    if not done.all() or not missing <= 10 * _TOLERANCE:
        raise RuntimeError(
            f"winner probabilities miss the tolerance {_TOLERANCE:g}: they sum to 1 up to "
            f"{missing:.1e}; use smoother noise"
        )
    return total


def _relevant(evaluate: Evaluate, counts: Array, ends: Array) -> Array:
    """Leave out panels in which the maximum hardly ever lies."""
    log_cdf = np.concatenate([evaluate(ends[i : i + 1])[0] for i in range(len(ends))])
    with np.errstate(invalid="ignore"):
        of_maximum = log_cdf @ counts
    below = np.exp(of_maximum) < _NEGLIGIBLE
    above = -of_maximum < _NEGLIGIBLE
    first = max(0, int(np.flatnonzero(below)[-1]) if below.any() else 0)
    last = int(np.flatnonzero(above)[0]) if above.any() else len(ends) - 1
    return ends[first : last + 1]


def _panels(evaluate: Evaluate, counts: Array, left: Array, right: Array) -> Array:
    """Integrals over panels, shape ``(panels, entries)``."""
    half = 0.5 * (right - left)
    nodes = (0.5 * (left + right))[:, None] + half[:, None] * _NODES
    weights = half[:, None] * _WEIGHTS
    result = np.zeros((len(left), len(counts)))
    for i in range(0, len(left), step := max(1, _BLOCK // (_NODES.size * len(counts)))):
        t, w = nodes[i : i + step].ravel(), weights[i : i + step]
        log_cdf, log_density = evaluate(t)
        with np.errstate(invalid="ignore", over="ignore"):
            log_density -= log_cdf
            log_density += (log_cdf @ counts)[:, None]
            value = np.exp(log_density)
        # Where an F_j is 0 the maximum is never found; 0 * inf there is a 0.
        value[~np.isfinite(value)] = 0.0
        result[i : i + step] = np.einsum("pq,pqe->pe", w, value.reshape(*w.shape, -1))
    return result
