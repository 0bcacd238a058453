"""The share of the largest of n exponential variables in their sum: an exact pivot.

For Z_1..Z_n independent and exponential with one unknown mean, the share G = max Z / sum Z does not
depend on that mean (Fisher 1929, Proc. R. Soc. A 125, 54-59):

    P(G > g) = sum_{j >= 1, j g < 1} (-1)^(j-1) C(n, j) (1 - j g)^(n-1).

With the right endpoint x_F the logarithms Z = log((x_F - u) / (x_F - x)) of a power tail are such
variables, whatever its shape, so G tests an endpoint and, turned round, gives an exact interval.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from .exceedances import FloatArray

#: Terms of the alternating sum that are looked at; near the quantiles in use about 20 count.
_TERMS = 400
#: Above this bound on the sum of the terms' sizes their cancellation costs digits that matter.
_SAFE_SUM = 1e8


def share_survival(share: float, n: int) -> float:
    """P(G > share) for n exponential variables.

    Args:
        share: g; below 1 / n the probability is 1, at 1 and above it is 0.
        n: number of variables, at least 2.

    Returns:
        The probability, to about 1e-8; one further from 0 or 1 than that is resolved.
    """
    if share <= 1.0 / n:
        return 1.0
    if share >= 1.0:
        return 0.0
    j = np.arange(1, min(n, _TERMS, math.ceil(1.0 / share) - 1) + 1, dtype=np.float64)
    log_terms = gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1)
    log_terms += (n - 1) * np.log1p(-j * share)
    # Terms this large belong to a share far in the lower tail, where the answer is 1.
    if float(log_terms.max()) > math.log(_SAFE_SUM):
        return 1.0
    signs = np.where(j % 2 == 1, 1.0, -1.0)
    return min(1.0, max(0.0, float((signs * np.exp(log_terms)).sum())))


@functools.lru_cache(maxsize=4096)
def share_quantile(probability: float, n: int) -> float:
    """The g with P(G <= g) = probability, for n exponential variables."""
    found = brentq(
        lambda log_g: share_survival(math.exp(log_g), n) - (1.0 - probability),
        -math.log(n),
        0.0,
        xtol=1e-13,
    )
    return math.exp(float(found))


def largest_share(unit: FloatArray, endpoint: float) -> float:
    """The share G of the largest log ratio for an endpoint.

    Args:
        unit: excesses over the threshold divided by their largest, shape ``(n,)``.
        endpoint: x_F - u in the same units, above 1; infinity gives the exponential tail, whose Z
            are the excesses themselves.
    """
    if math.isinf(endpoint):
        return 1.0 / float(unit.sum())
    logs = -np.log1p(-unit / endpoint)
    return float(logs.max() / logs.sum())


def endpoint_at_share(unit: FloatArray, share: float) -> float:
    """The endpoint at which the largest log ratio has this share; G falls as the endpoint rises.

    Returns:
        x_F - u in units of the largest excess; infinity where no finite endpoint gives so small a
        share.
    """
    if share <= largest_share(unit, math.inf):
        return math.inf
    # log(x_F - x_max), so that endpoints next to the largest value keep their digits.
    rest = np.sort(1.0 - unit)[1:]

    def excess_share(log_gap: float) -> float:
        gap = math.exp(log_gap)
        log_top = math.log1p(gap)
        largest = log_top - log_gap
        others = log_top - np.log(rest + gap)
        return largest / (largest + float(others.sum())) - share

    low, high = 0.0, 0.0
    while excess_share(low) < 0.0:
        low -= 8.0
        if low < -700.0:
            return 1.0
    while excess_share(high) > 0.0:
        high += 4.0
        if high > 40.0:
            return math.inf
    return 1.0 + math.exp(float(brentq(excess_share, low, high, xtol=1e-12)))
