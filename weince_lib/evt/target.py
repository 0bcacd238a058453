"""Profile-likelihood intervals for functions of the generalised Pareto parameters.

Write the log-likelihood in theta = xi / sigma and sigma,

    l / n = -log sigma - L(theta) - L(theta) / (theta sigma),    L(theta) = mean log(1 + theta y),

with L(theta) / theta = mean y at theta = 0. A modified scale, held at a value, leaves a curve of
parameters, so its profile is a maximum over the shapes on that curve. L is computed once on a grid,
which finds the hill; the maximum itself is taken with L exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize_scalar

from .exceedances import FloatArray
from .profile import GPDProfile, ProfilePoint

#: (theta, sigma) along the curve on which the function has a given value, elementwise in the
#: shape; in units of the largest excess. sigma is nan or negative where there is no such law.
Curve = Callable[[FloatArray, float], tuple[FloatArray, FloatArray]]

#: Doublings of the step after which an end of an interval counts as infinite.
_MAX_STEPS = 60
#: Stands for minus infinity where a root finder needs a number.
_VERY_LOW = -1e6


class TargetProfile:
    """The profile likelihood of one function of the parameters.

    Args:
        profile: of the excesses.
        points: its scan with its maximum, ascending in s.
        drop: in nats of the whole sample, half a chi-square quantile.
        curve: the parameters for each shape xi, given the function's value.
    """

    def __init__(
        self,
        profile: GPDProfile,
        points: list[ProfilePoint],
        drop: float,
        curve: Curve,
    ) -> None:
        self._profile, self._curve = profile, curve
        self.level = max(0.0, *(p.log_likelihood for p in points)) - drop / profile.size
        nodes = list(points)
        # Beyond the last node no scale whatever may reach the level.
        while profile.endpoint_log_likelihood(nodes[-1].s) > self.level:
            nodes.append(profile.at(2.0 * nodes[-1].s - nodes[-2].s))
        s = np.array([p.s for p in nodes])
        self._nodes = np.array([p.shape for p in nodes])
        self._mean_log = CubicSpline(s, [p.mean_log for p in nodes], extrapolate=False)

    def height(self, value: float) -> float:
        """Highest log-likelihood per excess with the function held at ``value``."""
        theta, scale = self._curve(self._nodes, value)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_log = self._mean_log(np.log1p(theta))
        heights = self._log_likelihood(theta, scale, mean_log)
        best = int(np.argmax(heights))

        def lost(x: float) -> float:
            theta, scale = self._curve(np.array([x]), value)
            if not theta[0] > -1.0:
                return -_VERY_LOW
            mean_log = np.array([self._profile.mean_log(math.log1p(float(theta[0])))])
            return -max(float(self._log_likelihood(theta, scale, mean_log)[0]), _VERY_LOW)

        left, right = self._nodes[max(best - 1, 0)], self._nodes[min(best + 1, heights.size - 1)]
        found = minimize_scalar(
            lost, bounds=(float(left), float(right)), method="bounded", options={"xatol": 1e-6}
        )
        return -float(found.fun)

    def interval(self, estimate: float, step: float, least: float) -> tuple[float, float]:
        """Both ends around the estimate.

        Args:
            estimate: value at the highest likelihood.
            step: first step outwards; doubled until the likelihood is below the level.
            least: the function's least possible value; minus infinity if there is none.
        """
        return self._end(estimate, -step, least), self._end(estimate, step, least)

    def _end(self, estimate: float, step: float, least: float) -> float:
        inside = estimate
        for _ in range(_MAX_STEPS):
            outside = max(inside + step, 0.5 * (inside + least)) if step < 0 else inside + step
            if self.height(outside) < self.level:
                found = brentq(
                    lambda value: self.height(value) - self.level,
                    inside,
                    outside,
                    xtol=1e-12,
                    rtol=1e-8,
                )
                return float(found)
            inside, step = outside, 2.0 * step
        return math.inf if step > 0 else least

    def _log_likelihood(
        self, theta: FloatArray, scale: FloatArray, mean_log: FloatArray
    ) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            over_theta = np.where(theta == 0.0, self._profile.mean, mean_log / theta)
            heights = -np.log(scale) - mean_log - over_theta / scale
            allowed = (scale > 0.0) & (theta > -1.0) & (theta * scale >= -1.0)
        return np.where(allowed & np.isfinite(heights), heights, -math.inf)
