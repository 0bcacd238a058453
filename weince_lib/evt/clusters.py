"""Intervals for tail statistics of dependent pairs: resampling clusters, not pairs.

Cosines that share an anchor, an image or a batch are dependent, and an interval that takes them for
independent is too short. Three kinds of dependence, one notation:

- pairs in independent batches: one label a pair, its batch;
- each anchor with its own row of scores: one label a pair, its anchor;
- all pairs (i, j) of one set of points: two labels a pair, i and j. A statistic of such pairs is
  a function of a U-statistic, whose variance the delete-one-point jackknife estimates
  (Arvesen 1969, Ann. Math. Statist. 40, 2076-2100): leaving out i leaves out every pair with i.
  Labels of one end alone are not enough there: with points of unequal concentration the nominal
  0.95 was 0.95 with both labels, 0.73 to 0.80 with one and 0.60 to 0.68 without any.

The interval is estimate +- t standard errors with one degree of freedom less than clusters, so few
clusters widen it. (The percentile bootstrap has no such correction and is too short there.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from ..checks import FloatArray, check_at_least, check_fraction, check_values

Statistic = Callable[[FloatArray], float]


@dataclass(frozen=True)
class ClusterInterval:
    """A statistic of dependent values with an interval over clusters.

    Attributes:
        estimate: of all values.
        low: lower end.
        high: upper end.
        standard_error: over clusters.
        clusters: number of clusters (or groups of them) that were left out in turn; with fewer than
            10 the interval is rough.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    clusters: int


def cluster_interval(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike,
    statistic: Statistic,
    *,
    confidence: float = 0.95,
    max_groups: int = 200,
    seed: int = 0,
) -> ClusterInterval:
    """Put an interval on a statistic whose values depend on each other within clusters.

    Fix the threshold inside the statistic (``lambda x: fit_gpd(x, threshold=u).shape``): the
    interval is then for the tail above that threshold.

    Args:
        values: sample, shape ``(n,)``.
        clusters: labels, shape ``(n,)``, or ``(n, 2)`` for pairs that depend through either of
            two points. Integers or strings.
        statistic: of a vector of values; smooth, such as a shape. Not an endpoint at shapes at or
            below -1/2, where it hangs on the largest value alone.
        confidence: nominal level of the interval.
        max_groups: clusters are merged at random into at most this many groups, which costs
            nothing but a few degrees of freedom. 200 keeps it to seconds.
        seed: of the merging.

    Returns:
        A :class:`ClusterInterval`.

    Raises:
        ValueError: for labels that do not fit the values, fewer than 2 clusters (3 with two
            labels), a statistic that is not finite (it says which cluster was left out), and
            settings outside their range.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    labels = _check_clusters(clusters, array.size)
    names, codes = np.unique(labels, return_inverse=True)
    codes = codes.reshape(labels.shape)
    least = labels.shape[1] + 1
    if names.size < least:
        raise ValueError(
            f"clusters names {names.size} clusters, at least {least} are needed: without "
            "independent clusters there is no interval"
        )
    check_at_least("max_groups", max_groups, least)
    estimate = _finite(statistic(array), "all values")
    count = min(int(names.size), max_groups)
    groups = np.random.default_rng(seed).permutation(names.size) % count
    error = _jackknife_error(array, groups[codes], count, statistic)
    half = float(student.ppf(0.5 + confidence / 2, count - 1)) * error
    return ClusterInterval(estimate, estimate - half, estimate + half, error, count)


def _check_clusters(clusters: npt.ArrayLike, size: int) -> np.ndarray:
    """Return labels with shape ``(n, 1)`` or ``(n, 2)``, or raise one clear error."""
    labels = np.asarray(clusters)
    if labels.shape not in ((size,), (size, 1), (size, 2)):
        raise ValueError(
            f"clusters must have shape ({size},) or ({size}, 2), one row per value, "
            f"got {labels.shape}"
        )
    if labels.dtype.kind not in "iuUS":
        raise ValueError(
            f"clusters must be integer or string labels, got dtype {labels.dtype}; "
            "number them with numpy.unique(..., return_inverse=True)"
        )
    return labels.reshape(size, -1)


def _jackknife_error(
    values: FloatArray, groups: np.ndarray, count: int, statistic: Statistic
) -> float:
    left = []
    for group in range(count):
        kept = values[(groups != group).all(axis=1)]
        left.append(_finite(statistic(kept), f"the values without group {group} of {count}"))
    spread = np.array(left) - math.fsum(left) / count
    return math.sqrt((count - 1) / count * float(spread @ spread))


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise ValueError(
            f"the statistic of {what} is {value}: use one that exists for every shape, such as "
            "the known-endpoint shape, or a lower threshold"
        )
    return float(value)
