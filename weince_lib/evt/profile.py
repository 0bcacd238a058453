"""The profile likelihood of the generalised Pareto distribution as a curve with one parameter.

For excesses y_1..y_n with density (1/sigma) (1 + xi y / sigma)^(-1 - 1/xi), write
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

import numpy as np
from scipy.optimize import brentq

from .exceedances import FloatArray

#: Grid step over s in units of log n: s is about xi log n, so it is about this much in xi.
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
#: Step in s of the central difference behind the standard error; error about its square.
DIFFERENCE_STEP = 1e-3


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
    """The profile curve of one sample of positive excesses.

    The coordinate is s = log(1 + theta max y): any real number is allowed, xi = 0 lies at s = 0,
    and s is roughly xi log n. Dividing by max y takes the units out of the fit.

    Args:
        excesses: positive, shape ``(n,)``.

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

        For a given theta the best shape is L(theta). Shapes below -1 are left out, as everywhere:
        where L lies below -1, the best shape in reach is -1.

        Args:
            s: log(1 + theta); for s >= 0 there is no endpoint, and the curve goes on all the same.
            mean_log: L(theta), if it is known already.
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

        Args:
            drop: the heavy end of the grid lies at least this much below the highest point (in
                nats of the whole sample), so that it brackets the likelihood interval.
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

    def interval(self, points: list[ProfilePoint], drop: float) -> tuple[float, float]:
        """Least and greatest xi whose profile log-likelihood is within ``drop`` of the highest.

        The supremum over xi >= -1 counts as the highest, so that an interval that reaches the
        uniform limit has the lower end -1 exactly.

        Args:
            points: ascending in s, the maximum among them.
            drop: in nats of the whole sample, half a chi-square quantile.
        """
        level = max(0.0, *(p.log_likelihood for p in points)) - drop / self.size
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

    def standard_errors(self, point: ProfilePoint) -> tuple[float, float]:
        """Standard errors of xi and sigma from the observed information at the maximum.

        The curvature of a profile is the inverse of the parameter's entry of the inverse
        information, so xi needs dscore/dxi alone; with it, by the same block inversion,
        var sigma = 1 / I_sigma,sigma + (dsigma/dxi)^2 var xi along the curve.

        Returns:
            The error of xi, and of sigma in units of max y.
        """
        before, after = self.at(point.s - DIFFERENCE_STEP), self.at(point.s + DIFFERENCE_STEP)
        shape_step = after.shape - before.shape
        shape_variance = -shape_step / (after.score - before.score) / self.size
        slope = (after.scale - before.scale) / shape_step
        ratio = 1.0 + math.expm1(point.s) * self._unit
        information = (1.0 + point.shape) * float((self._unit / ratio**2).sum()) / point.scale**3
        return math.sqrt(shape_variance), math.sqrt(1.0 / information + slope**2 * shape_variance)
