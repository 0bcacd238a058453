"""The generalised extreme value family, max-stability, and laws of one type.

For independent X_1..X_n with distribution function F, the normalised maximum (M_n - b_n) / a_n can
converge only to (Fisher and Tippett 1928; Gnedenko 1943; paper section 2.2.1)

    G(x) = exp(-psi(x)),    psi(x) = (1 + xi x)_+^(-1/xi),  read as exp(-x) at xi = 0,

with psi the canonical tail of paper Eq. (2.5): Frechet for xi > 0, Gumbel for xi = 0, Weibull for
xi < 0. This is the field's sign of the shape; scipy's ``genextreme`` has c = -xi.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..checks import FloatArray, check_finite, check_positive

#: A quantile function: levels in (0, 1) to values, elementwise.
Quantile = Callable[[FloatArray], FloatArray]

#: Levels at which laws of one type are matched; the quartiles are far from both tails.
MATCH_LEVELS = (0.25, 0.75)


def canonical_tail(x: npt.ArrayLike, shape: float) -> FloatArray:
    """Canonical tail psi(x) = (1 + xi x)_+^(-1/xi), read as exp(-x) at xi = 0 (paper Eq. 2.5).

    Args:
        x: normalised values, any shape.
        shape: xi, finite.

    Returns:
        psi, the shape of ``x``: 0 from the endpoint -1/xi on for xi < 0, infinity up to the lower
        end -1/xi for xi > 0.

    Raises:
        ValueError: for a shape that is not finite.
    """
    check_finite("shape", shape)
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        if shape == 0.0:
            return np.asarray(np.exp(-x))
        return np.asarray(np.exp(-np.log1p(np.maximum(shape * x, -1.0)) / shape))


def gev_cdf(x: npt.ArrayLike, shape: float) -> FloatArray:
    """Generalised extreme value distribution function G(x) = exp(-psi(x)), location 0, scale 1.

    Arguments and errors are those of :func:`canonical_tail`.
    """
    return np.asarray(np.exp(-canonical_tail(x, shape)))


def gev_density(x: npt.ArrayLike, shape: float) -> FloatArray:
    """Density psi^(1 + xi) exp(-psi) of :func:`gev_cdf`; 0 outside the support."""
    psi = canonical_tail(x, shape)
    inside = np.isfinite(psi) & (psi > 0.0)
    log_psi = np.log(np.where(inside, psi, 1.0))
    return np.asarray(np.where(inside, np.exp((1.0 + shape) * log_psi - psi), 0.0))


def gev_quantile(p: npt.ArrayLike, shape: float) -> FloatArray:
    """Quantile ((-log p)^(-xi) - 1) / xi of :func:`gev_cdf`, -log(-log p) at xi = 0.

    Raises:
        ValueError: for levels outside (0, 1) or a shape that is not finite.
    """
    check_finite("shape", shape)
    p = check_levels(p)
    log_psi = np.log(-np.log(p))
    return np.asarray(-log_psi if shape == 0.0 else np.expm1(-shape * log_psi) / shape)


def max_stable_constants(copies: float, shape: float) -> tuple[float, float]:
    """Scale alpha(t) = t^xi and location beta(t) = (t^xi - 1) / xi of the maximum of t copies.

    They satisfy G(alpha(t) x + beta(t))^t = G(x): the maximum of t copies of a standard law has the
    law of alpha(t) X + beta(t). beta(t) = log t at xi = 0 (paper section A.9). The form
    G(x)^m = G(alpha_m x + beta_m) asks for the inverse map, which is the same at t = 1 / m.

    Args:
        copies: t > 0; a whole number of copies in the theorem, any positive number in its proof.
        shape: xi.

    Returns:
        ``(alpha, beta)``.

    Raises:
        ValueError: for copies that are not positive and finite, or a shape that is not finite.
    """
    check_finite("shape", shape)
    check_positive("copies", copies)
    log_alpha = shape * math.log(copies)
    beta = math.log(copies) if shape == 0.0 else math.expm1(log_alpha) / shape
    return math.exp(log_alpha), beta


def match_types(
    source: Quantile, target: Quantile, levels: tuple[float, float] = MATCH_LEVELS
) -> tuple[float, float]:
    """The affine map that carries two quantiles of one law to those of another.

    If the laws are of one type (equal up to location and scale) it carries the whole law; this is
    how the convergence of types is proved (paper Lemma A.3).

    Args:
        source: quantile function of X.
        target: quantile function of Y.
        levels: two levels 0 < p < q < 1.

    Returns:
        ``(scale, location)`` with Q_Y = scale Q_X + location at both levels.

    Raises:
        ValueError: for levels that are not in order, or a law that is degenerate between them.
    """
    low, high = levels
    if not 0.0 < low < high < 1.0:
        raise ValueError(f"levels must satisfy 0 < p < q < 1, got {levels}")
    x, y = (np.asarray(q(np.array([low, high])), dtype=np.float64) for q in (source, target))
    if not (x[1] > x[0] and y[1] > y[0]):
        raise ValueError(f"a law has equal quantiles at the levels {levels}: choose others")
    scale = float((y[1] - y[0]) / (x[1] - x[0]))
    return scale, float(y[0] - scale * x[0])


def copies_quantile(quantile: Quantile, copies: float) -> Quantile:
    """Quantile function of the maximum of t > 0 independent copies, Q(p^(1/t))."""
    return lambda p: quantile(np.asarray(p, dtype=np.float64) ** (1.0 / copies))


def max_stability_gap(quantile: Quantile, copies: float, levels: npt.ArrayLike) -> float:
    """How far the maximum of several copies is from the type of a single one.

    The largest distance between both quantile functions after :func:`match_types`, in units of the
    interquartile range of one copy; 0 for max-stable laws. They are compared at ``levels``, which
    lie in (0, 1).
    """
    p = check_levels(levels)
    several = copies_quantile(quantile, copies)
    scale, location = match_types(quantile, several)
    quartiles = quantile(np.array(MATCH_LEVELS))
    gap = (several(p) - location) / scale - quantile(p)
    return float(np.max(np.abs(gap)) / (quartiles[1] - quartiles[0]))


def shape_of_type(quantile: Quantile, ratio: float = 4.0, top: float = 1.0) -> float:
    """The shape xi read from three quantiles, free of location and scale (after Pickands 1975).

    Where psi = -log p falls as c, c/t, c/t^2, spacings of the GEV law grow by t^xi, whatever the
    level c. A law whose reading depends on the level is no extreme value law.

    Args:
        quantile: of the (near) extreme value law.
        ratio: t > 1; 4 puts the levels p at 0.37, 0.78 and 0.94 for c = 1.
        top: c > 0, the largest psi.

    Raises:
        ValueError: for a ratio that is not above 1 or a top that is not positive.
    """
    if not 1.0 < ratio < math.inf:
        raise ValueError(f"ratio must be above 1, got {ratio}")
    check_positive("top", top)
    q = quantile(np.exp(-(top * ratio ** -np.arange(3.0))))
    return math.log(float((q[2] - q[1]) / (q[1] - q[0]))) / math.log(ratio)


def check_levels(p: npt.ArrayLike) -> FloatArray:
    """Return ``p`` as float64, or raise ``ValueError`` naming a level outside (0, 1)."""
    p = np.asarray(p, dtype=np.float64)
    outside = ~((p > 0.0) & (p < 1.0))
    if outside.any():
        raise ValueError(f"levels must lie in (0, 1), got {p[outside].ravel()[0]}")
    return p
