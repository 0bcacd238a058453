"""Cosines near the cap: the sphere's exact law, what a finite threshold does, and dimension.

The shortfall is half a squared chord, delta = r^2 / 2, so a tail P(delta <= x) ~ c x^beta is the
same statement as P(r <= t) ~ c' t^(2 beta): the local intrinsic dimension is twice the tail index.
On the sphere S^(d-1) in R^d it is d - 1, the dimension of the sphere itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad

from ..checks import check_fraction
from .exceedances import FloatArray
from .families import Family


def intrinsic_dimension(beta: npt.ArrayLike) -> FloatArray:
    """Local intrinsic dimension 2 beta that belongs to a tail index of the shortfall.

    Args:
        beta: tail index or indices, any shape.
    """
    return 2.0 * np.asarray(beta, dtype=np.float64)


def nearest_tail_index(shortfall: npt.ArrayLike, tail: int) -> FloatArray:
    """Tail index of each anchor from its nearest candidates (Hill; Levina and Bickel 2004).

        beta_hat = k / sum_{m <= k} log(delta_(k+1) / delta_(m)).

    Unlike :func:`~weince_lib.evt.fit_known_endpoint`, one estimate per anchor and no interval; for
    independent shortfalls with an exact power law, k beta / beta_hat is Gamma(k, 1).

    Args:
        shortfall: 1 - cosine to every candidate, shape ``(anchors, candidates)``, positive.
        tail: k, from 2 to the number of candidates less one.

    Returns:
        Shape ``(anchors,)``.

    Raises:
        ValueError: for another shape, a tail that does not fit, or a shortfall that is not positive
            and finite (leave the anchor itself and its exact duplicates out).
    """
    shortfall = np.asarray(shortfall, dtype=np.float64)
    if shortfall.ndim != 2:
        raise ValueError(f"shortfall must have shape (anchors, candidates), got {shortfall.shape}")
    if not 2 <= tail < shortfall.shape[1]:
        raise ValueError(
            f"tail must lie between 2 and {shortfall.shape[1] - 1} for {shortfall.shape[1]} "
            f"candidates, got {tail}"
        )
    nearest = np.sort(np.partition(shortfall, tail, axis=1)[:, : tail + 1], axis=1)
    if not (np.isfinite(nearest).all() and (nearest > 0.0).all()):
        raise ValueError(
            "shortfalls must be positive and finite; leave the anchor itself and its exact "
            "duplicates out"
        )
    if not (nearest[:, 0] < nearest[:, -1]).all():
        raise ValueError("an anchor's nearest shortfalls are all equal; take a longer tail")
    return np.asarray(tail / np.log(nearest[:, -1:] / nearest[:, :-1]).sum(axis=1))


def shape_above(family: Family, quantile: float) -> float:
    """What the known-endpoint estimate of xi tends to above a fixed quantile of a bounded law.

    Exactly -E[log(w_u / W) | W < w_u] = -int_0^1 F_W(w_u t) / (t F_W(w_u)) dt with W the shortfall
    and w_u its level; the family's own shape as the quantile goes to 1.

    Args:
        family: with a finite endpoint.
        quantile: of X, in (0, 1).

    Raises:
        ValueError: for a family without an endpoint or a quantile outside (0, 1).
    """
    if not family.bounded:
        raise ValueError(f"{family.name} has no endpoint to know")
    check_fraction("quantile", quantile)
    top = -float(family.exceedance_level(1.0 - quantile))
    # With t = e^-v the integral is that of the conditional distribution function over v > 0.
    value, _ = quad(
        lambda v: float(family.survival(-top * np.exp(-v))), 0.0, np.inf, epsabs=0.0, epsrel=1e-10
    )
    return -value / (1.0 - quantile)
