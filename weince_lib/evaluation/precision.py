"""How precise a comparison is: which effect its seeds can see, and what the test images add."""

from __future__ import annotations

import math
from functools import lru_cache

from scipy import stats
from scipy.optimize import brentq

from ..checks import check_at_least
from .block_model import critical

#: The probability with which an effect should be seen for a design to count as able to see it.
POWER = 0.8


def power_of(
    effect: float, error: float, df: float, *, tests: int = 1, level: float = 0.05
) -> float:
    """Probability that a true effect is seen, which is that its interval excludes 0 on that side.

    The half-width of the interval is no measure of that: a true effect as large as the expected
    half-width is seen with a probability of little more than one half.

    Args:
        effect: the true difference; its sign does not matter.
        error: standard error of the estimated difference, in the same unit.
        df: degrees of freedom of the error's variance.
        tests: contrasts that share the level, by Bonferroni's rule.
        level: of the two-sided test.

    Returns:
        A tail of the noncentral t distribution; NaN without degrees of freedom or error.
    """
    if df < 1 or not error > 0:
        return math.nan
    return float(stats.nct.sf(critical(df, level, tests), df, abs(effect) / error))


def detectable_effect(
    error: float, df: float, *, tests: int = 1, level: float = 0.05, power: float = POWER
) -> float:
    """The true effect that is seen with probability ``power``; arguments as :func:`power_of`.

    Returns:
        In the unit of ``error``, larger than the half-width of the interval; NaN without degrees
        of freedom or error.

    Raises:
        ValueError: for a power outside [0.5, 1).
    """
    _check_power(power)
    if df < 1 or not error > 0:
        return math.nan
    return _detectable(df, tests, level, power) * error


@lru_cache(maxsize=256)
def _detectable(df: float, tests: int, level: float, power: float) -> float:
    """The effect for an error of 1."""

    def missing(effect: float) -> float:
        return power - power_of(effect, 1.0, df, tests=tests, level=level)

    high = critical(df, level, tests) + 1.0
    while missing(high) > 0:
        high *= 2.0
    return float(brentq(missing, 0.0, high, xtol=1e-12))


def seeds_to_tell(
    effect: float,
    deviation: float,
    *,
    settings: int = 2,
    tests: int = 1,
    level: float = 0.05,
    power: float = POWER,
    most: int = 1000,
) -> int | None:
    """Fewest seeds with which a true effect is seen with probability ``power``.

    Args:
        effect: the true difference.
        deviation: standard deviation of one seed's difference, or of one seed's value if that is
            what is compared with a number. From the residual deviation ``s`` of a
            :class:`.BlockModel` it is ``s * sqrt(2)``.
        settings: of the model that the variance is taken from; ``n`` seeds give it
            ``(settings - 1)(n - 1)`` degrees of freedom. 2 is the paired t-test.
        tests: as in :func:`power_of`.
        level: as in :func:`power_of`.
        power: 0.8 by convention.
        most: where to stop.

    Returns:
        The number, at least 2; ``None`` if more than ``most`` are needed, or for an effect or a
        deviation that is not above 0.

    Raises:
        ValueError: for fewer than two settings or a power outside [0.5, 1).
    """
    _check_power(power)
    check_at_least("settings", settings, 2)
    if not (effect > 0 and deviation > 0):
        return None

    def enough(n: int) -> bool:
        error, df = deviation / math.sqrt(n), (settings - 1) * (n - 1)
        return power_of(effect, error, df, tests=tests, level=level) >= power

    if most < 2 or not enough(most):
        return None
    low, high = 1, most  # power grows with n: bisection
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def paired_image_error(a: float, b: float, images: int) -> tuple[float, float]:
    """Bounds of the standard error that the choice of test images gives the difference a - b.

    Both accuracies are of the same images. An image adds 1 to the difference where only the first
    is right, -1 where only the second is. The error depends on how often the two disagree, which
    accuracies alone do not tell. The lower bound is for two that disagree as rarely as their
    accuracies allow, the upper one for two that disagree as often as possible; two with independent
    mistakes lie in between. The upper bound also holds for means over seeds of encoders, evaluated
    on the same images, as averaging makes what an image adds vary less. The lower one does not.

    Seeds do not see this error, since all are tested on the same images. A statement about new
    encoders *and* new images has a variance of at most the sum of the two squares.

    Args:
        a: first accuracy, in percent.
        b: second accuracy, in percent.
        images: of the test set.

    Returns:
        The lower and the upper bound, in percentage points.

    Raises:
        ValueError: for an accuracy outside [0, 100] or no images.
    """
    check_at_least("images", images, 1)
    for accuracy in (a, b):
        if not 0.0 <= accuracy <= 100.0:
            raise ValueError(f"an accuracy must lie in [0, 100] percent, got {accuracy}")
    p, q = a / 100.0, b / 100.0
    rarely, often = abs(p - q), min(p + q, 2.0 - p - q)
    low, high = (100.0 * math.sqrt(max(0.0, d - (p - q) ** 2) / images) for d in (rarely, often))
    return low, high


def _check_power(power: float) -> None:
    if not 0.5 <= power < 1.0:
        raise ValueError(f"power must lie in [0.5, 1), got {power}")
