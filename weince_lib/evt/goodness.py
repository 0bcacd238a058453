"""Does the fitted law follow the exceedances? Anderson-Darling and Cramer-von Mises tests.

With z_1 <= ... <= z_n the fitted distribution function at the ordered excesses (Stephens 1974),

    A^2 = -n - sum (2 i - 1) (log z_i + log(1 - z_(n+1-i))) / n,
    W^2 = 1 / (12 n) + sum (z_i - (2 i - 1) / (2 n))^2.

Because the parameters are fitted to the same excesses, the textbook critical values do not hold;
for the generalised Pareto law they depend on the shape (Choulakian and Stephens 2001). So the
p-values come from refitting samples drawn from the fit, p = (b + 1) / (B + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .endpoint import select_shortfalls
from .exceedances import FloatArray, check_values, select_exceedances, select_threshold
from .profile import GPDProfile

#: Samples without a maximum-likelihood estimate are drawn again, up to this many times in all.
_REDRAWS = 20


@dataclass(frozen=True)
class GoodnessOfFit:
    """Both statistics with their p-values by parametric bootstrap.

    Attributes:
        threshold: u, in the units of the values.
        exceedances: number of values strictly above the threshold.
        endpoint: the known endpoint; nan for the generalised Pareto law.
        shape: of the fitted law; nan in the unbounded regime, as is everything below.
        anderson_darling: A^2; it weighs both ends of the tail.
        anderson_darling_p: its p-value.
        cramer_von_mises: W^2; it weighs the middle.
        cramer_von_mises_p: its p-value.
        replications: samples drawn.
        note: one sentence on what of this is valid.
    """

    threshold: float
    exceedances: int
    endpoint: float
    shape: float
    anderson_darling: float
    anderson_darling_p: float
    cramer_von_mises: float
    cramer_von_mises_p: float
    replications: int
    note: str


def goodness_of_fit(
    values: npt.ArrayLike,
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    endpoint: float | None = None,
    replications: int = 999,
    seed: int = 0,
    floor: float = 1e-6,
) -> GoodnessOfFit:
    """Test the generalised Pareto law, or the power law to a known endpoint, above a threshold.

    Large samples reject every model in the end: with many thousand pairs read the QQ plot for the
    size of the misfit. Exceedances count as independent; dependent ones make p too small.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        endpoint: x_F, for the law of :func:`weince_lib.evt.fit_known_endpoint`, which exists for
            every negative shape; ``None`` tests the generalised Pareto law.
        replications: B. A sample of 5,000 takes about 3 ms each for the generalised Pareto law.
        seed: of the draws.
        floor: least shortfall from a known endpoint.

    Returns:
        A :class:`GoodnessOfFit`; without statistics where the generalised Pareto likelihood has no
        maximum.

    Raises:
        ValueError: for fewer than 1 replication, and as :func:`weince_lib.evt.fit_gpd` or
            :func:`weince_lib.evt.fit_known_endpoint`.
    """
    if replications < 1:
        raise ValueError(f"replications must be at least 1, got {replications}")
    rng = np.random.default_rng(seed)
    if endpoint is not None:
        _, u, shortfall = select_shortfalls(values, endpoint, threshold, quantile, floor)
        logs = np.log((endpoint - u) / np.maximum(shortfall, floor))
        size, shape = int(logs.size), -float(logs.mean())
        observed = np.array(statistics(_exponential(logs)))
        drawn = [
            statistics(_exponential(rng.standard_exponential(size))) for _ in range(replications)
        ]
        note = "Parametric bootstrap; the law does not depend on the shape, so p is exact"
    else:
        array = check_values(values)
        u = select_threshold(array, threshold, quantile)
        excesses = select_exceedances(array, u) - u
        size = int(excesses.size)
        fitted = _fitted(excesses)
        if fitted is None:
            note = (
                "No maximum-likelihood estimate (shape at or below -1), so nothing to test: give "
                "the endpoint if it is known."
            )
            nan = math.nan
            return GoodnessOfFit(u, size, nan, nan, nan, nan, nan, nan, 0, note)
        shape, log_survival = fitted
        observed = np.array(statistics(log_survival))
        drawn = _gpd_draws(shape, size, replications, rng)
        note = "Parametric bootstrap, refitting each sample"
    larger = (np.array(drawn) >= observed).sum(axis=0)
    p_values = (larger + 1) / (len(drawn) + 1)
    return GoodnessOfFit(
        threshold=u,
        exceedances=size,
        endpoint=math.nan if endpoint is None else float(endpoint),
        shape=shape,
        anderson_darling=float(observed[0]),
        anderson_darling_p=float(p_values[0]),
        cramer_von_mises=float(observed[1]),
        cramer_von_mises_p=float(p_values[1]),
        replications=len(drawn),
        note=note + ".",
    )


def statistics(log_survival: FloatArray) -> tuple[float, float]:
    """A^2 and W^2 from log(1 - z).

    Args:
        log_survival: log of the fitted survival function at the excesses, shape ``(n,)``, in any
            order, below 0.
    """
    log_upper = np.sort(log_survival)[::-1]  # z ascending
    n = log_upper.size
    z = -np.expm1(log_upper)
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    anderson = -n - float((odd * (np.log(z) + log_upper[::-1])).sum()) / n
    cramer = 1.0 / (12.0 * n) + float(np.square(z - odd / (2.0 * n)).sum())
    return anderson, cramer


def _exponential(logs: FloatArray) -> FloatArray:
    return -logs / float(logs.mean())


def _fitted(excesses: FloatArray) -> tuple[float, FloatArray] | None:
    """Shape and log survival of the maximum-likelihood fit, if there is one."""
    profile = GPDProfile(excesses)
    best = profile.maximum(profile.scan(0.0))
    if best is None:
        return None
    relative = excesses / (best.scale * profile.largest)
    if best.shape == 0.0:
        return 0.0, -relative
    return best.shape, -np.log1p(best.shape * relative) / best.shape


def _gpd_draws(
    shape: float, size: int, replications: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    drawn: list[tuple[float, float]] = []
    for _ in range(_REDRAWS * replications):
        exponential = rng.standard_exponential(size)
        excesses = np.expm1(shape * exponential) / shape if shape else exponential
        fitted = _fitted(excesses)
        if fitted is not None:
            drawn.append(statistics(fitted[1]))
        if len(drawn) == replications:
            break
    return drawn
