"""Peaks over a threshold: the generalised Pareto fit with its profile-likelihood interval.

Above a high threshold u the excesses x - u of any law in a domain of attraction follow, in the
limit, the generalised Pareto distribution (Balkema-de Haan 1974, Pickands 1975),

    P(x - u > y) = (1 + xi y / sigma)_+^(-1/xi),  read as exp(-y / sigma) at xi = 0,

with the shape xi of paper Eq. (2.5): xi < 0 is the Weibull domain, with endpoint u - sigma / xi.
What maximum likelihood is worth depends on xi (Smith 1985, Biometrika 72, 67-90): regular for
xi > -1/2, consistent but irregular for -1 < xi <= -1/2, and without a maximum for xi <= -1.

The likelihood is maximised along a curve with one parameter. For excesses y_1..y_n write
theta = xi / sigma (Grimshaw 1993, Technometrics 35, 185-191) and

    L(theta) = mean log(1 + theta y),    g(theta) = mean 1 / (1 + theta y).

Grimshaw maximises over xi for a given theta. Here it is the other way about: for a given xi > -1
the log-likelihood has a single maximum in theta, at g(theta) = 1 / (1 + xi). g falls strictly from
infinity to 0 on theta > -1 / max y, so theta itself parametrises the whole profile over xi:

    xi(theta) = 1 / g - 1,    sigma(theta) = xi / theta,
    l(theta) = -n log sigma - n (1 + 1/xi) L,    dl/dxi = n (L - xi) / xi^2.

No inner optimisation is left, and xi covers (-1, infinity). At the lower end xi -> -1 and
sigma -> max y, the uniform distribution: l -> -n log max y. Below -1 the likelihood is unbounded.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import chi2

from ..checks import FloatArray, check_finite, check_fraction, check_values

Regime = Literal["regular", "irregular", "unbounded"]

#: Fewer exceedances than this say next to nothing about a tail's shape.
MIN_EXCEEDANCES = 10
#: Smith's bound: at or below it the information is infinite and drops are not chi-square.
REGULAR_ABOVE = -0.5
#: The least shape the likelihood can bound.
LEAST_SHAPE = -1.0

_NOTES: dict[Regime, str] = {
    "regular": (
        "Regular maximum likelihood (shape > -1/2): the estimate, its standard errors and the "
        "profile interval hold for independent exceedances"
    ),
    "irregular": (
        "Irregular maximum likelihood (-1 < shape <= -1/2): the estimate is consistent and the "
        "profile interval nearly keeps its level, but there is no standard error"
    ),
    "unbounded": (
        "No maximum-likelihood estimate: on shapes >= -1 the likelihood is highest at -1 and below "
        "it is unbounded, so only the interval's upper end is informative; with a known endpoint "
        "use fit_known_endpoint"
    ),
}
_OPEN_BELOW = (
    "; the interval runs into shape -1, below which the likelihood is unbounded, so read it as "
    "open below"
)

#: Grid step over s in units of log n; as s is about xi log n, this is about the step in xi.
GRID_STEP = 0.06
#: The scan goes up to this shape at least, in case the likelihood has a second hill there.
LEAST_TOP_SHAPE = 3.0
#: Least ratio of smallest to largest excess; far below any real sample, far above underflow.
LEAST_RATIO = 1e-200
#: Below this shape (xi - L) / xi^2 has lost half its digits and its limit is as good.
SMALL_SHAPE = 1.5e-8
#: Logarithms are taken of products of this many ratios, each between exp(-|s|) and exp(|s|)...
BLOCK = 16
#: ...which stay far from underflow and overflow for s up to this size.
LARGEST_S = 40.0
#: For fewer excesses than this one call costs more than their logarithms.
FEW = 500
#: For smaller s, 1 + theta y has lost digits of theta y.
SMALL_S = 0.01


def select_threshold(values: FloatArray, threshold: float | None, quantile: float) -> float:
    """The given threshold, or the order statistic at ``quantile``.

    It is an order statistic and not a point between two of them: only then are the values above
    it, given the threshold, an i.i.d. sample of the tail (Rényi's representation), as the exact
    interval of :func:`weince_lib.evt.fit_known_endpoint` supposes.

    Raises:
        ValueError: for a threshold that is not finite or a quantile outside (0, 1).
    """
    if threshold is not None:
        check_finite("threshold", threshold)
        return float(threshold)
    check_fraction("quantile", quantile)
    return float(np.quantile(values, quantile, method="lower"))


def select_exceedances(values: FloatArray, threshold: float) -> FloatArray:
    """The values strictly above ``threshold``, in their order, shape ``(k,)``.

    Raises:
        ValueError: if fewer than :data:`MIN_EXCEEDANCES` values exceed it.
    """
    above = values[values > threshold]
    if above.size < MIN_EXCEEDANCES:
        raise ValueError(
            f"only {above.size} of {values.size} values exceed the threshold {threshold:.6g}; "
            f"at least {MIN_EXCEEDANCES} are needed: lower the quantile or the threshold"
        )
    return above


@dataclass(frozen=True)
class GPDFit:
    """A generalised Pareto fit above a threshold.

    In the unbounded regime shape, scale, log-likelihood and endpoint are nan.

    Attributes:
        threshold: u, in the units of the values.
        exceedances: number of values strictly above the threshold.
        shape: xi.
        scale: sigma, in the units of the values.
        log_likelihood: at the estimate, of the exceedances in the units of the values.
        shape_low: lower end of the profile-likelihood interval for xi; -1 exactly where the
            interval runs into that bound, and is then open below.
        shape_high: upper end. In the unbounded regime the drop is taken from the likelihood's
            limit at shape -1, the highest among shapes >= -1.
        endpoint: u - sigma / xi for xi < 0, otherwise infinity.
        confidence: nominal level of the interval.
        regime: ``"regular"`` (xi > -1/2), ``"irregular"`` (-1 < xi <= -1/2) or ``"unbounded"``.
        note: one sentence on what of this is valid.
    """

    threshold: float
    exceedances: int
    shape: float
    scale: float
    log_likelihood: float
    shape_low: float
    shape_high: float
    endpoint: float
    confidence: float
    regime: Regime
    note: str


def fit_gpd(
    values: npt.ArrayLike,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> GPDFit:
    """Fit a generalised Pareto distribution to the exceedances by maximum likelihood.

    The maximum is taken over all shapes above -1, through the one-dimensional profile of
    :class:`GPDProfile`. Where the likelihood's limit at -1 is higher than every maximum above it,
    the tail may be too short for maximum likelihood, and no estimate is reported.

    The interval is the profile-likelihood one and never shape +- z standard errors, which at
    shape -0.6 covers 0.55 to 0.65 instead of 0.95. For shapes from 0 to -0.8 the profile interval
    is itself a little short, mostly at its upper end: in simulation 0.95 becomes 0.82 to 0.92 with
    20 exceedances, 0.86 to 0.95 with 100 and 0.89 to 0.95 with 500. It treats the exceedances as
    independent: cosines that share anchors are not, and their interval is shorter still.

    Args:
        values: sample, shape ``(n,)``, any real dtype; its upper tail is fitted.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: nominal level of the interval for the shape.

    Returns:
        A :class:`GPDFit`.

    Raises:
        ValueError: for values that are not a vector of finite real numbers, fewer than 10
            exceedances, exceedances that are all equal, and settings outside their range.
    """
    check_fraction("confidence", confidence)
    array = check_values(values)
    u = select_threshold(array, threshold, quantile)
    profile = GPDProfile(select_exceedances(array, u) - u)
    drop = likelihood_drop(confidence)
    points, best = profile.solve(drop)
    shape = scale = log_likelihood = endpoint = math.nan
    regime: Regime = "unbounded"
    if best is not None:
        shape, scale = best.shape, best.scale * profile.largest
        log_likelihood = profile.size * (best.log_likelihood - math.log(profile.largest))
        endpoint = u - scale / shape if shape < 0.0 else math.inf
        regime = "regular" if shape > REGULAR_ABOVE else "irregular"
    low, high = profile.interval(points, drop)
    note = _NOTES[regime]
    if low == LEAST_SHAPE and regime != "unbounded":
        note += _OPEN_BELOW
    return GPDFit(
        threshold=u,
        exceedances=profile.size,
        shape=shape,
        scale=scale,
        log_likelihood=log_likelihood,
        shape_low=low,
        shape_high=high,
        endpoint=endpoint,
        confidence=confidence,
        regime=regime,
        note=note + ".",
    )


@dataclass(frozen=True)
class ProfilePoint:
    """One point of the curve, for excesses divided by their maximum.

    Attributes:
        s: coordinate log(1 + theta), with theta in units of 1 / max y.
        shape: xi on the curve, in (-1, infinity).
        scale: sigma on the curve, in units of max y.
        log_likelihood: l / n, per excess; 0 is the uniform limit at xi = -1.
        score: (dl / dxi) / n along the curve.
        mean_log: L(theta).
    """

    s: float
    shape: float
    scale: float
    log_likelihood: float
    score: float
    mean_log: float


class GPDProfile:
    """The profile curve of one sample of positive excesses, shape ``(n,)``.

    The coordinate is s = log(1 + theta max y). It may be any real number, xi = 0 lies at s = 0,
    and s is roughly xi log n. Dividing by max y takes the units out of the fit.

    Raises:
        ValueError: if all excesses are equal, which leaves no tail to fit, or if they span more
            than 200 orders of magnitude.
    """

    def __init__(self, excesses: FloatArray) -> None:
        self.size = int(excesses.size)
        self.largest = float(excesses.max())
        smallest = float(excesses.min())
        if smallest == self.largest:
            raise ValueError(
                f"all {self.size} exceedances lie {self.largest:.6g} above the threshold: a point "
                "mass has no tail shape; take a lower threshold, drop repeated values, or jitter "
                "rounded data"
            )
        if not smallest > self.largest * LEAST_RATIO:
            raise ValueError(
                f"the exceedances lie {smallest:.3g} to {self.largest:.3g} above the threshold, "
                "too wide a range for double precision; rescale the values or take their logarithm"
            )
        self._unit = excesses / self.largest
        self._complement = 1.0 - self._unit
        self._ones = np.ones_like(self._unit)
        mean_square = float(np.square(self._unit).mean())
        self._exponential_score = mean_square / (2.0 * float(self._unit.mean()) ** 2) - 1.0

    def at(self, s: float) -> ProfilePoint:
        """The point of the curve at ``s``."""
        theta = math.expm1(s)
        if theta == 0.0:
            scale = float(self._unit.mean())
            value = -math.log(scale) - 1.0
            return ProfilePoint(s, 0.0, scale, value, self._exponential_score, 0.0)
        ratio = self._ratio(s)
        mean_log = self._mean_log(ratio, s)
        weight = np.divide(1.0, ratio, out=ratio)
        # This ratio is xi / theta without its 0 / 0 at theta = 0.
        scale = float(self._unit @ weight) / float(weight @ self._ones)
        shape = theta * scale
        value = -math.log(scale) - mean_log - mean_log / shape
        if abs(shape) < SMALL_SHAPE:
            score = self._exponential_score
        else:
            score = (mean_log - shape) / shape**2
        return ProfilePoint(s, shape, scale, value, score, mean_log)

    def mean_log(self, s: float) -> float:
        """L(theta) = mean log(1 + theta y) at ``s``, Grimshaw's estimate of xi for that theta."""
        return self._mean_log(self._ratio(s), s)

    def endpoint_log_likelihood(self, s: float, mean_log: float | None = None) -> float:
        """Profile log-likelihood per excess over the endpoint -1 / theta, Grimshaw's own profile.

        For a given theta the best shape is L(theta), or -1 where L lies below -1. For s >= 0 there
        is no endpoint, and the curve goes on all the same. ``mean_log`` is L(theta), if known.
        """
        theta = math.expm1(s)
        if theta == 0.0:
            return -math.log(self.mean) - 1.0
        if mean_log is None:
            mean_log = self.mean_log(s)
        if mean_log <= -1.0:
            return math.log(-theta)
        return -math.log(mean_log / theta) - mean_log - 1.0

    @property
    def mean(self) -> float:
        """Mean excess in units of max y, the limit of L(theta) / theta at theta = 0."""
        return float(self._unit.mean())

    def _ratio(self, s: float) -> FloatArray:
        """1 + theta y for every excess."""
        if s < -1.0:  # 1 + theta v cancels near v = 1; this sum of positive terms does not
            ratio = self._unit * math.exp(s)
            ratio += self._complement
        else:
            ratio = self._unit * math.expm1(s)
            ratio += 1.0
        return ratio

    def _mean_log(self, ratio: FloatArray, s: float) -> float:
        """Mean of log ratio; by one logarithm per block, as logarithms are the fit's whole cost."""
        if abs(s) < SMALL_S:
            return float(np.log1p(self._unit * math.expm1(s)).mean())
        if abs(s) > LARGEST_S or self.size < FEW:
            return float(np.log(ratio).sum()) / self.size
        whole = self.size - self.size % BLOCK
        products = np.multiply.reduce(ratio[:whole].reshape(BLOCK, -1), axis=0)
        total = float(np.log(products).sum()) + float(np.log(ratio[whole:]).sum())
        return total / self.size

    def scan(self, drop: float) -> list[ProfilePoint]:
        """A grid over the curve, ascending in s, wide enough to hold all its hills.

        Its heavy end lies at least ``drop`` nats of the whole sample below the highest point, so
        that the grid brackets the likelihood interval.
        """
        log_n = math.log(self.size)
        step = GRID_STEP * log_n
        # 1 + xi is below n exp(s): at s = -log n - 6 the curve nears the uniform limit, and at
        # -log n - 20, with 1 + xi < 2e-9, it is there.
        light = -step * np.arange(math.ceil((log_n + 6.0) / step), 0, -1)
        points = [self.at(float(s)) for s in (-log_n - 20.0, -log_n - 10.0, *light)]
        best = max(0.0, *(p.log_likelihood for p in points))
        s = 0.0
        while True:
            point = self.at(s)
            points.append(point)
            best = max(best, point.log_likelihood)
            low_enough = self.size * (best - point.log_likelihood) > drop
            if point.shape > LEAST_TOP_SHAPE and point.score < 0.0 and low_enough:
                return points
            s += step

    def maximum(self, points: list[ProfilePoint]) -> ProfilePoint | None:
        """The highest interior maximum, or ``None`` if the limit at xi = -1 is higher than any."""
        best: ProfilePoint | None = None
        for left, right in itertools.pairwise(points):
            if left.score > 0.0 >= right.score:
                s = brentq(lambda s: self.at(s).score, left.s, right.s, xtol=1e-13, rtol=1e-13)
                candidate = self.at(float(s))
                if best is None or candidate.log_likelihood > best.log_likelihood:
                    best = candidate
        return best if best is not None and best.log_likelihood > 0.0 else None

    def solve(self, drop: float) -> tuple[list[ProfilePoint], ProfilePoint | None]:
        """The scan with the maximum in its place, and the maximum itself if there is one."""
        points = self.scan(drop)
        best = self.maximum(points)
        if best is not None:
            points = sorted([*points, best], key=lambda point: point.s)
        return points, best

    def level(self, points: list[ProfilePoint], drop: float) -> float:
        """Log-likelihood per excess that lies ``drop`` below the highest, of the whole sample."""
        return max(0.0, *(p.log_likelihood for p in points)) - drop / self.size

    def interval(self, points: list[ProfilePoint], drop: float) -> tuple[float, float]:
        """Least and greatest xi whose profile log-likelihood is within ``drop`` of the highest.

        The supremum over xi >= -1 counts as the highest, so that an interval that reaches the
        uniform limit has the lower end -1 exactly. ``points`` are those of :meth:`solve`.
        """
        level = self.level(points, drop)
        inside = [i for i, p in enumerate(points) if p.log_likelihood >= level]
        if level <= 0.0 or inside[0] == 0:
            low = -1.0
        else:
            low = self._crossing(points[inside[0] - 1], points[inside[0]], level)
        if not inside:  # the level lies within rounding of the limit at -1
            return low, -1.0
        return low, self._crossing(points[inside[-1]], points[inside[-1] + 1], level)

    def _crossing(self, left: ProfilePoint, right: ProfilePoint, level: float) -> float:
        s = brentq(lambda s: self.at(s).log_likelihood - level, left.s, right.s, xtol=1e-10)
        return self.at(float(s)).shape


def likelihood_drop(confidence: float) -> float:
    """Nats that bound a profile-likelihood interval: half a chi-square quantile."""
    return 0.5 * float(chi2.ppf(confidence, df=1))


def moment_fit(excesses: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Shape and scale by probability-weighted moments, which exist for every shape below 1.

    With a_0 = E Y and a_1 = E Y (1 - F(Y)) the law has (Hosking and Wallis 1987, Technometrics 29,
    339-349, with k = -xi)

        xi = 2 - a_0 / (a_0 - 2 a_1),    sigma = 2 a_0 a_1 / (a_0 - 2 a_1).

    Maximum likelihood is more efficient for shapes above -1/2, but has no estimate at or below -1.

    Args:
        excesses: over the threshold, shape ``(..., n)``, n at least 3 and not all equal; each row
            is a sample.

    Returns:
        xi (below 1) and sigma (units of the excesses), shape ``(...)`` each. The implied endpoint
        -sigma / xi may lie below the largest excess.
    """
    y = np.sort(np.asarray(excesses, dtype=np.float64), axis=-1)
    n = y.shape[-1]
    mean = y.mean(axis=-1)
    weighted = (y * ((n - 1.0 - np.arange(n)) / (n - 1.0))).mean(axis=-1)
    spread = mean - 2.0 * weighted
    return np.asarray(2.0 - mean / spread), np.asarray(2.0 * mean * weighted / spread)
