"""Laws in a domain of attraction: normalising constants, exact laws of maxima, standard families.

The limits themselves are in :mod:`weince_lib.evt.gev`. Rates are those of the constants in
:class:`Family`. Two errors compete: (1 - r/n)^n against exp(-r), which is of order 1/n for every
law, and the tail ratio's own distance from its limit, of order n^(-r) where the survival function
is c y^(-1/xi) (1 + O(n^(-r))) at the level of one in n (de Haan and Resnick 1996). For the normal
law the latter is 1 / (2 log n).
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq

from ..checks import FloatArray, check_fraction, check_positive
from .gev import check_levels


@dataclass(frozen=True)
class Family:
    """A continuous law in a domain of attraction, with the exact laws of its maxima.

    One choice of constants serves all three domains (von Mises 1936): the level that one of n
    exceeds on average, and the mean excess over it that the hazard rate implies,

        F_bar(b_n) = 1 / n,    a_n = F_bar(b_n) / f(b_n).

    Bounded laws are stored by their shortfall from the endpoint, so that nothing is lost to
    rounding where 1 - X is far below the precision of 1. In the methods ``y`` is X for an unbounded
    law and X - endpoint for a bounded one, ``x`` a normalised value (y - b_n) / a_n, ``n`` a sample
    size (any real number from 2 on) and ``p`` a probability. Arrays may have any shape.

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

        Raises:
            ValueError: for n below 2.
        """
        if not 2.0 <= n < math.inf:
            raise ValueError(f"n must be at least 2 and finite, got {n}")
        b = float(self.exceedance_level(1.0 / n))
        return float(1.0 / (n * self.density(b))), b

    def tail_ratio(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """F_bar(b_n + a_n x) / F_bar(b_n), which tends to the canonical tail (paper Eq. 2.5)."""
        a, b = self.constants(n)
        return np.asarray(n * self.survival(b + a * np.asarray(x, dtype=np.float64)))

    def maximum_cdf(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """Exact P((M_n - b_n) / a_n <= x) = (1 - F_bar(b_n + a_n x))^n."""
        a, b = self.constants(n)
        return power_of_cdf(self.survival(b + a * np.asarray(x, dtype=np.float64)), n)

    def maximum_density(self, x: npt.ArrayLike, n: float) -> FloatArray:
        """Exact density of the normalised maximum, n a_n f(y) (1 - F_bar(y))^(n - 1)."""
        a, b = self.constants(n)
        y = b + a * np.asarray(x, dtype=np.float64)
        return np.asarray(n * a * self.density(y) * power_of_cdf(self.survival(y), n - 1.0))

    def maximum_quantile(self, p: npt.ArrayLike, n: float) -> FloatArray:
        """Exact quantile of M_n in the coordinate y, for levels p in (0, 1)."""
        return self.exceedance_level(-np.expm1(np.log(check_levels(p)) / n))

    def sample_maxima(self, n: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Normalised maxima of ``size`` samples of n, each drawn in full, shape ``(size,)``."""
        a, b = self.constants(n)
        return (self.sample((size, n), rng).max(axis=1) - b) / a

    def distance(self, n: float, points: int = 4001) -> float:
        """Largest distance between the exact law of the normalised maximum and its limit G.

        Taken over a grid of quantiles of G with so many points. It reaches psi from 1e-9 to 40,
        which leaves at most 1e-9 of either law outside.
        """
        psi = np.geomspace(40.0, 1e-9, points)
        x = -np.log(psi) if self.shape == 0.0 else np.expm1(-self.shape * np.log(psi)) / self.shape
        return float(np.max(np.abs(self.maximum_cdf(x, n) - np.exp(-psi))))


def power_of_cdf(survival: FloatArray, n: float) -> FloatArray:
    """(1 - F_bar)^n without cancellation, for F_bar in [0, 1]."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(n * np.log1p(-survival)))


def exponential() -> Family:
    """Standard exponential; xi = 0 with a_n = 1, b_n = log n, and rate 1/n."""
    return Family("exponential", 0.0, stats.expon())


def gumbel() -> Family:
    """Standard Gumbel, the max-stable law of its domain."""
    return Family("Gumbel", 0.0, stats.gumbel_r())


def logistic() -> Family:
    """Standard logistic; xi = 0."""
    return Family("logistic", 0.0, stats.logistic())


def normal() -> Family:
    """Standard normal; xi = 0, and the slowest of all: distance of order 1 / log n."""
    return Family("normal", 0.0, stats.norm(), rate=0.0)


def pareto(alpha: float = 2.0) -> Family:
    """Pareto with survival x^(-alpha) beyond 1; xi = 1 / alpha."""
    check_positive("alpha", alpha)
    return Family(f"Pareto, α = {alpha:g}", 1.0 / alpha, stats.pareto(alpha))


def frechet(alpha: float = 2.0) -> Family:
    """Frechet, exp(-x^(-alpha)); the max-stable law with xi = 1 / alpha."""
    check_positive("alpha", alpha)
    return Family(f"Fréchet, α = {alpha:g}", 1.0 / alpha, stats.invweibull(alpha))


def student_t(degrees: float = 3.0) -> Family:
    """Student's t, Cauchy at one degree of freedom; xi = 1 / degrees, rate min(1, 2 / degrees)."""
    check_positive("degrees", degrees)
    name = "Cauchy" if degrees == 1.0 else f"Student t, ν = {degrees:g}"
    law = stats.cauchy() if degrees == 1.0 else stats.t(degrees)
    return Family(name, 1.0 / degrees, law, rate=min(1.0, 2.0 / degrees))


def uniform() -> Family:
    """Uniform on (0, 1); xi = -1, shortfall index beta = 1."""
    return Family("uniform", -1.0, stats.uniform(), endpoint=1.0)


def beta(a: float = 2.0, b: float = 3.0) -> Family:
    """Beta(a, b); xi = -1 / b, since the shortfall from 1 has the index b.

    The rate is min(1, 1 / b), and 1 for a = 1, whose tail is an exact power.
    """
    check_positive("a", a)
    check_positive("b", b)
    rate = 1.0 if a == 1.0 else min(1.0, 1.0 / b)
    # The shortfall 1 - X of a Beta(a, b) variable is Beta(b, a).
    return Family(f"Beta({a:g}, {b:g})", -1.0 / b, stats.beta(b, a), endpoint=1.0, rate=rate)


def weibull_shortfall(index: float = 2.0) -> Family:
    """X = -W with P(W > w) = exp(-w^beta); the max-stable law with xi = -1 / beta."""
    check_positive("index", index)
    law = stats.weibull_min(index)
    return Family(f"Weibull shortfall, β = {index:g}", -1.0 / index, law, endpoint=0.0)


def sphere_shape(dimension: int) -> float:
    """Shape xi = -2 / (d - 1) of the cosine between a fixed and a uniform direction in R^d.

    The cosine s has density proportional to (1 - s^2)^((d - 3) / 2), so P(1 - s <= x) falls like
    x^beta with beta = (d - 1) / 2: a tail whose answer is known (paper Eq. 2.5 with endpoint 1).

    Raises:
        ValueError: for a dimension below 2, on which there is no angle.
        TypeError: for a dimension that is not an integer.
    """
    d = operator.index(dimension)
    if d < 2:
        raise ValueError(f"dimension must be at least 2, got {dimension}")
    return -1.0 / ((d - 1) / 2)


def sphere_cosine(dimension: int = 6) -> Family:
    """Cosine of a uniform direction in R^d to a fixed one; xi = -2 / (d - 1), endpoint 1.

    Exact: (1 - s) / 2 is Beta((d - 1)/2, (d - 1)/2). The rate is 2 / (d - 1), and 1 for d <= 3.

    Raises:
        ValueError: as :func:`sphere_shape`.
    """
    shape = sphere_shape(dimension)
    half = -1.0 / shape
    law = stats.beta(half, half, scale=2.0)
    rate = min(1.0, -shape)
    return Family(f"sphere, d = {dimension}", shape, law, endpoint=1.0, rate=rate)


def standard_families() -> list[Family]:
    """Four laws of each domain: Frechet, then Gumbel, then Weibull."""
    return [
        pareto(),
        frechet(),
        student_t(),
        student_t(1.0),
        exponential(),
        gumbel(),
        logistic(),
        normal(),
        uniform(),
        beta(),
        weibull_shortfall(),
        sphere_cosine(),
    ]


def shape_above(family: Family, quantile: float) -> float:
    """What the known-endpoint estimate of xi tends to above a fixed quantile of a bounded law.

    Exactly -E[log(w_u / W) | W < w_u] = -int_0^1 F_W(w_u t) / (t F_W(w_u)) dt with W the shortfall
    and w_u its level; the family's own shape as the quantile goes to 1.

    Args:
        family: with a finite endpoint.
        quantile: of X, in (0, 1).

    Raises:
        ValueError: for a family without an endpoint or a quantile outside (0, 1).
    """
    if not family.bounded:
        raise ValueError(f"{family.name} has no endpoint to know")
    check_fraction("quantile", quantile)
    top = -float(family.exceedance_level(1.0 - quantile))
    # With t = e^-v the integral is that of the conditional distribution function over v > 0.
    value, _ = quad(
        lambda v: float(family.survival(-top * np.exp(-v))), 0.0, np.inf, epsabs=0.0, epsrel=1e-10
    )
    return -value / (1.0 - quantile)


def oscillating() -> Family:
    """A law in no domain: survival (1 + sin(log x) / 3) / x beyond 1, whose ratio never settles.

    It stays within a third of a Pareto tail with alpha = 1, whose shape it is given to be compared
    with; neither its tail ratio nor its maxima converge.
    """
    return Family("oscillating tail", 1.0, _OscillatingTail(), rate=0.0)


class _OscillatingTail:
    """What :class:`Family` asks of a frozen scipy distribution."""

    amplitude = 1.0 / 3.0

    def sf(self, y: npt.ArrayLike) -> FloatArray:
        t = np.log(np.maximum(y, 1.0))
        return np.asarray((1.0 + self.amplitude * np.sin(t)) * np.exp(-t))

    def pdf(self, y: npt.ArrayLike) -> FloatArray:
        t = np.log(np.maximum(y, 1.0))
        slope = 1.0 + self.amplitude * (np.sin(t) - np.cos(t))
        return np.asarray(np.where(np.asarray(y) < 1.0, 0.0, slope * np.exp(-2.0 * t)))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        # log(1 + a sin t) - t falls in t; its root lies within log(1 -+ a) of -log p.
        low, high = np.log1p(-self.amplitude), np.log1p(self.amplitude)

        def level(log_p: float) -> float:
            root = brentq(
                lambda t: np.log1p(self.amplitude * np.sin(t)) - t - log_p,
                low - log_p,
                high - log_p,
                xtol=1e-14,
            )
            return float(np.exp(root))

        return np.asarray(np.vectorize(level, otypes=[np.float64])(np.log(p)))
