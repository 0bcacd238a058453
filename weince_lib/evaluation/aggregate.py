"""From single runs to a table's entry (paper Appendix F.1, F.3 and F.4).

Replicates (probe seeds, split seeds) are averaged within their encoder; encoder seeds are the
independent replicates that an interval is over.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import stats

from ..checks import check_fraction, check_values

Configuration = TypeVar("Configuration", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """A mean over independent replicates with its confidence interval.

    Attributes:
        mean: sample mean.
        low: lower bound; NaN for a single value.
        high: upper bound; NaN for a single value.
        n: number of values.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the interval's length, what the paper prints after the plus-minus sign."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a - b over the encoder seeds that both have.

    Attributes:
        interval: mean difference with its t-interval.
        p_value: one-sided p of the paired t-test against "a is not greater than b"; NaN for a
            single pair and for differences without any spread.
        seeds: the seeds compared, ascending; those that only one of the two has are left out.
    """

    interval: Interval
    p_value: float
    seeds: tuple[int, ...]


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean and t-interval, mean +- t_(n-1) s / sqrt(n).

    Args:
        values: independent replicates, for instance one accuracy per encoder seed.
        confidence: two-sided coverage; 0.95 is the paper's.

    Returns:
        An :class:`Interval` in the unit of ``values``. One value has no interval: its bounds are
        NaN.

    Raises:
        ValueError: for no values, a value that is not finite, or a confidence outside (0, 1).
    """
    data = check_values(values, "values")
    check_fraction("confidence", confidence)
    mean, n = float(data.mean()), len(data)
    if n == 1:
        return Interval(mean, math.nan, math.nan, n)
    half = float(stats.t.ppf(0.5 + confidence / 2.0, n - 1) * data.std(ddof=1) / math.sqrt(n))
    return Interval(mean, mean - half, mean + half, n)


def worst_deviation(deviation: np.ndarray, error: np.ndarray) -> Interval:
    """The largest deviation from what was expected, by its simultaneous interval.

    Args:
        deviation: of several simulated values, any shape.
        error: their standard errors, same shape.

    Returns:
        The deviation whose interval reaches farthest from 0, as ``mean``, with bounds that hold
        for all of them at once at 95 % (Bonferroni); ``n`` is their number.
    """
    z = float(stats.norm.isf(0.025 / deviation.size))
    at = int(np.argmax(np.abs(deviation) + z * error))
    value, half = float(deviation.flat[at]), z * float(error.flat[at])
    return Interval(value, value - half, value + half, deviation.size)


def mean_within(replicates: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Average the replicates of each encoder seed.

    Args:
        replicates: values by encoder seed, for instance one per probe seed; the same number for
            every encoder.

    Returns:
        The mean by encoder seed, in the order given.

    Raises:
        ValueError: for no encoders, an encoder without values or with another number of them than
            the first (a run is missing), or a value that is not finite.
    """
    if not replicates:
        raise ValueError("no encoder seeds to average")
    means: dict[int, float] = {}
    expected = len(next(iter(replicates.values())))
    for seed, values in replicates.items():
        if len(values) != expected:
            raise ValueError(
                f"encoder seed {seed} has {len(values)} replicates, the first has {expected}; "
                "finish the missing runs first"
            )
        means[seed] = float(check_values(values, f"encoder seed {seed}").mean())
    return means


def paired_difference(
    a: Mapping[int, float], b: Mapping[int, float], confidence: float = 0.95
) -> PairedDifference:
    """Difference a - b over shared encoder seeds, with its interval and one-sided p-value.

    Args:
        a: a metric by encoder seed, for instance WEINCE's linear accuracy.
        b: the same metric of what it is compared with.
        confidence: two-sided coverage of the interval; 0.95 is the paper's.

    Returns:
        A :class:`PairedDifference` in the unit of the metric.

    Raises:
        ValueError: if no seed is shared, or a value is not finite.
    """
    seeds = tuple(sorted(a.keys() & b.keys()))
    if not seeds:
        raise ValueError(f"no shared encoder seed: a has {sorted(a)}, b has {sorted(b)}")
    first = check_values([a[seed] for seed in seeds], "a")
    second = check_values([b[seed] for seed in seeds], "b")
    interval = t_interval((first - second).tolist(), confidence)
    error = float((first - second).std(ddof=1)) / math.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
    # Differences that agree to rounding carry no information on their own spread.
    rounding = 8 * np.finfo(float).eps * float(max(np.abs(first).max(), np.abs(second).max()))
    p = float(stats.t.sf(interval.mean / error, len(seeds) - 1)) if error > rounding else math.nan
    return PairedDifference(interval, p, seeds)


def select_on_validation(
    validation: Mapping[Configuration, Mapping[int, float]],
) -> Configuration:
    """Choose the configuration with the largest mean validation metric.

    The test set has no part in it: report the chosen configuration's test result.

    Args:
        validation: by configuration, the validation metric (larger is better) by encoder seed.

    Returns:
        The best configuration; the first one given on a tie.

    Raises:
        ValueError: for no configurations, seeds that differ between configurations (their means
            would not compare), or a value that is not finite.
    """
    if not validation:
        raise ValueError("no configurations to choose from")
    seeds = next(iter(validation.values())).keys()
    means: dict[Configuration, float] = {}
    for name, values in validation.items():
        if values.keys() != seeds:
            raise ValueError(
                f"configuration {name!r} has encoder seeds {sorted(values)}, the first has "
                f"{sorted(seeds)}; compare configurations on the same seeds"
            )
        means[name] = statistics.fmean(
            check_values(list(values.values()), f"configuration {name!r}")
        )
    return max(means, key=lambda name: means[name])
