"""The top-1 links of paper Table 1: scores in, log-probabilities of winning out.

In each tail geometry a utility is a function of the score plus noise in a coordinate T of its own,
and the link is the softmax of that function:

=======================  =======================  ===================
geometry                 utility                  p_j proportional to
=======================  =======================  ===================
Gumbel, xi = 0           X_s = s + a eps          exp(s_j / a)
Frechet, xi = 1 / alpha  X_s = s Z                s_j^alpha
Weibull, xi = -1 / beta  X_s = x_F - (x_F - s) W  (x_F - s_j)^(-beta)
=======================  =======================  ===================

The scores here play the part of eta(s), rho(s) and x_F - q(s) in the table: apply a function of
your own first. Everything is float64; the losses have the same links for torch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from .checks import check_finite, check_positive

Array = npt.NDArray[np.float64]


def gumbel_link(scores: npt.ArrayLike, temperature: float = 1.0) -> Array:
    """Softmax, the link of translated Gumbel noise: p_j proportional to exp(s_j / tau).

    Args:
        scores: eta(s_j) over the last axis, shape ``(..., candidates)``.
        temperature: tau, the scale of the noise; 1 is standard Gumbel noise.

    Returns:
        Log-probabilities in nats, the shape of ``scores``.

    Raises:
        ValueError: for fewer than two candidates, a score that is not finite, or a temperature
            that is not positive.
    """
    s = check_scores(scores)
    return _log_probabilities(s / check_positive("temperature", temperature))


def frechet_link(scores: npt.ArrayLike, alpha: float) -> Array:
    """Link of scaled Frechet noise: p_j proportional to s_j^alpha.

    Args:
        scores: scales rho(s_j) > 0 over the last axis, shape ``(..., candidates)``.
        alpha: tail index, 1 / xi.

    Returns:
        Log-probabilities in nats, the shape of ``scores``.

    Raises:
        ValueError: for fewer than two candidates, a score that is not positive and finite, or an
            alpha that is not positive.
    """
    s = check_scores(scores)
    if not (s > 0).all():
        raise ValueError(f"the Frechet link needs scores above 0, got {s.min():g}")
    return _log_probabilities(check_positive("alpha", alpha) * np.log(s))


def weibull_link(scores: npt.ArrayLike, beta: float, endpoint: float = 1.0) -> Array:
    """Link of scaled Weibull shortfalls: p_j proportional to (x_F - s_j)^(-beta).

    Args:
        scores: below the endpoint, over the last axis, shape ``(..., candidates)``. Shortfalls q
            that are known more precisely than 1 - s can be given as ``-q`` with ``endpoint=0``.
        beta: tail index, -1 / xi.
        endpoint: x_F, which utilities do not pass; 1 is the cosine's.

    Returns:
        Log-probabilities in nats, the shape of ``scores``.

    Raises:
        ValueError: for fewer than two candidates, a score that is not finite or not below the
            endpoint, or a beta that is not positive.
    """
    s = check_scores(scores)
    check_finite("endpoint", endpoint)
    if not (s < endpoint).all():
        raise ValueError(
            f"scores must lie below the endpoint {endpoint:g}, got {s.max():g}; "
            "clip them or raise the endpoint"
        )
    return _log_probabilities(-check_positive("beta", beta) * np.log(endpoint - s))


def check_scores(scores: npt.ArrayLike) -> Array:
    """Scores as float64, finite, two or more on the last axis.

    Raises:
        ValueError: naming what is wrong.
    """
    s = np.asarray(scores, dtype=np.float64)
    if s.ndim == 0 or s.shape[-1] < 2:
        raise ValueError(
            f"a choice needs two candidates or more on the last axis, got shape {s.shape}"
        )
    if not np.isfinite(s).all():
        bad = s[~np.isfinite(s)][0]
        raise ValueError(f"scores must be finite, got {bad}")
    return s


def _log_probabilities(logits: Array) -> Array:
    """Softmax over the last axis, in logarithms."""
    return np.asarray(log_softmax(logits, axis=-1), dtype=np.float64)
