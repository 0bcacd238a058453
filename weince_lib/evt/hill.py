"""The Hill estimator: the shape of a heavy tail, the Frechet counterpart of a known endpoint.

With P(X > x | X > u) = (x / u)^(-1/xi) for x > u > 0, the logarithms log(x / u) are exponential
with mean xi, so their mean is the maximum-likelihood estimate (Hill 1975, Ann. Statist. 3,
1163-1174) and n xi_hat / xi ~ Gamma(n, 1). For shortfalls from a known endpoint the same estimator
is :func:`weince_lib.evt.fit_known_endpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from .exceedances import check_confidence, check_values, select_exceedances, select_threshold


@dataclass(frozen=True)
class HillFit:
    """A power-law tail that falls to no endpoint, above a threshold.

    Attributes:
        threshold: u > 0, in the units of the values.
        total: number of values.
        exceedances: number n of values strictly above the threshold.
        shape: xi_hat > 0.
        shape_low: lower end of the exact interval for xi.
        shape_high: upper end.
        alpha: tail exponent 1 / xi_hat.
        alpha_low: lower end of the exact interval for alpha.
        alpha_high: upper end.
        confidence: level of the interval.
        note: one sentence on what of this is valid.
    """

    threshold: float
    total: int
    exceedances: int
    shape: float
    shape_low: float
    shape_high: float
    alpha: float
    alpha_low: float
    alpha_high: float
    confidence: float
    note: str


def fit_hill(
    values: npt.ArrayLike,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> HillFit:
    """Estimate the shape of a tail that is a power of the value itself.

    Positive by construction: on a tail with an endpoint it tends to 0 as the threshold rises and
    says nothing. It depends on the origin the values are counted from.

    Args:
        values: sample, shape ``(n,)``, any real dtype; its upper tail is fitted.
        threshold: u, positive; by default the quantile below.
        quantile: level of the threshold when none is given; 0.99 as in the other fits.
        confidence: level of the interval, exact for independent exceedances.

    Returns:
        A :class:`HillFit`.

    Raises:
        ValueError: for values that are not a vector of finite real numbers, a threshold that is
            not positive, fewer than 10 exceedances, and settings outside their range.
    """
    check_confidence(confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    if u <= 0.0:
        raise ValueError(
            f"the threshold {u:.6g} is not positive, and a power of the value starts from there; "
            "raise the threshold, or count the values from another origin"
        )
    logs = np.log(select_exceedances(array, u) / u)
    n, total_log = int(logs.size), float(logs.sum())
    gamma_low = float(gammaincinv(n, 0.5 * (1.0 - confidence)))
    gamma_high = float(gammaincinv(n, 0.5 * (1.0 + confidence)))
    return HillFit(
        threshold=u,
        total=int(array.size),
        exceedances=n,
        shape=total_log / n,
        shape_low=total_log / gamma_high,
        shape_high=total_log / gamma_low,
        alpha=n / total_log,
        alpha_low=gamma_low / total_log,
        alpha_high=gamma_high / total_log,
        confidence=confidence,
        note=(
            "The interval is exact for independent exceedances whose tail is a power of the value "
            "above the threshold, and biased otherwise."
        ),
    )
