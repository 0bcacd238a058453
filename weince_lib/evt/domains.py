"""Laws in a domain of attraction, with their normalising constants and exact laws of maxima.

The limits themselves are in :mod:`weince_lib.evt.gev`, standard laws in
:mod:`weince_lib.evt.families`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .exceedances import FloatArray
from .gev import check_levels


@dataclass(frozen=True)
class Family:
    """A continuous law in a domain of attraction, with the exact laws of its maxima.

    One choice of constants serves all three domains (von Mises 1936): the level that one of n
    exceeds on average, and the mean excess over it that the hazard rate implies,

        F_bar(b_n) = 1 / n,    a_n = F_bar(b_n) / f(b_n).

    Bounded laws are stored by their shortfall from the endpoint, so that nothing is lost to
    rounding where 1 - X is far below the precision of 1; ``y`` below is X for an unbounded law and
    X - endpoint for a bounded one.

    Attributes:
        name: for tables and legends.
        shape: xi of the limit.
        law: frozen scipy distribution of X, or of ``endpoint - X`` for a bounded law.
        endpoint: upper end of the support; infinity means ``law`` is the law of X itself.
        rate: exponent r of the distance to the limit, n^(-r) with the constants above; 0 where
            only a power of log n is gained.
    """

    name: str
    shape: float
    law: Any
    endpoint: float = math.inf
    rate: float = 1.0

    @property
    def bounded(self) -> bool:
        """Whether the law has a finite endpoint."""
        return math.isfinite(self.endpoint)

    @property
    def geometry(self) -> str:
        """Name of the limit law: Fréchet, Gumbel or Weibull."""
        return "Gumbel" if self.shape == 0.0 else "Fréchet" if self.shape > 0.0 else "Weibull"

    def survival(self, y: npt.ArrayLike) -> FloatArray:
        """F_bar: P(X > y), or P(X - endpoint > y) for a bounded law."""
        y = np.asarray(y, dtype=np.float64)
        return np.asarray(self.law.cdf(-y) if self.bounded else self.law.sf(y))

    def density(self, y: npt.ArrayLike) -> FloatArray:
        """Density f in the same coordinate."""
        y = np.asarray(y, dtype=np.float64)
        return np.asarray(self.law.pdf(-y if self.bounded else y))

    def exceedance_level(self, p: npt.ArrayLike) -> FloatArray:
        """The y that is exceeded with probability p, the inverse of :meth:`survival`."""
        p = np.asarray(p, dtype=np.float64)
        return np.asarray(-self.law.ppf(p) if self.bounded else self.law.isf(p))

    def sample(self, size: int | tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draws of y, independent."""
        drawn = np.asarray(self.law.rvs(size=size, random_state=rng))
        return -drawn if self.bounded else drawn

    def constants(self, n: float) -> tuple[float, float]:
        """Normalising constants ``(a_n, b_n)`` of the maximum of n, b_n in the coordinate y.

        Args:
            n: sample size, at least 2; any real number.

        Raises:
            ValueError: for n below 2.
        """
        if not 2.0 <= n < math.inf:
            raise ValueError(f"n must be at least 2 and finite, got {n}")
        b = float(self.exceedance_level(1.0 / n))
        return float(1.0 / (n * self.density(b))), b

    def tail_ratio(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """F_bar(b_n + a_n x) / F_bar(b_n), which tends to the canonical tail (paper Eq. 2.5).

        Args:
            x: normalised values, any shape.
            n: sample size that sets the level, at least 2.
        """
        a, b = self.constants(n)
        return np.asarray(n * self.survival(b + a * np.asarray(x, dtype=np.float64)))

    def maximum_cdf(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """Exact P((M_n - b_n) / a_n <= x) = (1 - F_bar(b_n + a_n x))^n.

        Args:
            x: normalised values, any shape.
            n: sample size, at least 2.
        """
        a, b = self.constants(n)
        return power_of_cdf(self.survival(b + a * np.asarray(x, dtype=np.float64)), n)

    def maximum_density(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """Exact density of the normalised maximum, n a_n f(y) (1 - F_bar(y))^(n - 1).

        Args:
            x: normalised values, any shape.
            n: sample size, at least 2.
        """
        a, b = self.constants(n)
        y = b + a * np.asarray(x, dtype=np.float64)
        return np.asarray(n * a * self.density(y) * power_of_cdf(self.survival(y), n - 1.0))

    def maximum_quantile(self, p: npt.ArrayLike, n: float) -> FloatArray:
        """Exact quantile of M_n in the coordinate y.

        Args:
            p: levels in (0, 1), any shape.
            n: sample size.
        """
        return self.exceedance_level(-np.expm1(np.log(check_levels(p)) / n))

    def sample_maxima(self, n: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Normalised maxima of ``size`` samples of n, each drawn in full, shape ``(size,)``."""
        a, b = self.constants(n)
        return (self.sample((size, n), rng).max(axis=1) - b) / a

    def distance(self, n: float, points: int = 4001) -> float:
        """Largest distance between the exact law of the normalised maximum and its limit G.

        Taken over a grid of quantiles of G that reaches psi from 1e-9 to 40, which leaves at most
        1e-9 of either law outside.

        Args:
            n: sample size.
            points: of the grid.
        """
        psi = np.geomspace(40.0, 1e-9, points)
        x = -np.log(psi) if self.shape == 0.0 else np.expm1(-self.shape * np.log(psi)) / self.shape
        return float(np.max(np.abs(self.maximum_cdf(x, n) - np.exp(-psi))))


def power_of_cdf(survival: npt.ArrayLike, n: float) -> FloatArray:
    """(1 - F_bar)^n without cancellation, for F_bar in [0, 1]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(n * np.log1p(-np.asarray(survival, dtype=np.float64))))
