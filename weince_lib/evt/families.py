"""Standard laws of each domain of attraction, with the rate at which their maxima converge.

Rates are those of the constants in :class:`weince_lib.evt.domains.Family`. Two errors compete:
(1 - r/n)^n against exp(-r), which is of order 1/n for every law, and the tail ratio's own distance
from its limit, of order n^(-r) where the survival function is c y^(-1/xi) (1 + O(n^(-r))) at the
level of one in n (de Haan and Resnick 1996). For the normal law the latter is 1 / (2 log n).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

from ..checks import check_positive
from .domains import Family
from .endpoint import sphere_shape
from .exceedances import FloatArray


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


def sphere_cosine(dimension: int = 6) -> Family:
    """Cosine of a uniform direction in R^d to a fixed one; xi = -2 / (d - 1), endpoint 1.

    Exact: (1 - s) / 2 is Beta((d - 1)/2, (d - 1)/2), the density of s being proportional to
    (1 - s^2)^((d - 3)/2). The rate is 2 / (d - 1), and 1 for d <= 3.

    Args:
        dimension: d of the ambient space, at least 2.

    Raises:
        ValueError: for a dimension below 2.
        TypeError: for a dimension that is not an integer.
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
