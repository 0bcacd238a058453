"""Is the endpoint a given one? Likelihood ratio and exact test of "x_F = 1", as for a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from .endpoint import select_shortfalls
from .exceedances import FloatArray
from .gpd import REGULAR_ABOVE
from .largest_share import largest_share, share_survival
from .profile import GPDProfile

EndpointTestMethod = Literal["chi-square", "parametric bootstrap", "largest share"]

#: The likelihood scan only has to find the maximum; the level of an interval plays no part.
_NO_DROP = 0.0


@dataclass(frozen=True)
class EndpointTest:
    """The test of a tail's endpoint against any other endpoint, or none.

    Attributes:
        endpoint: x_F under test, in the units of the values.
        threshold: u.
        exceedances: number of values strictly above the threshold.
        floored: exceedances nearer to the endpoint than the floor, set to the floor.
        shape: estimate of xi when the endpoint is the given one.
        statistic: likelihood ratio, twice the gain of a free endpoint in nats; nan where that
            shape is at or below -1, as the likelihood is then unbounded.
        p_chi_square: of the ratio by chi-square with one degree of freedom; valid for xi > -1/2.
        p_bootstrap: of the ratio by parametric bootstrap, (b + 1) / (B + 1); nan without one.
        p_exact: two-sided, by the share of the largest log ratio; valid for every xi < 0.
        p_value: the one to use.
        method: which one that is.
        note: one sentence on what of this is valid.
    """

    endpoint: float
    threshold: float
    exceedances: int
    floored: int
    shape: float
    statistic: float
    p_chi_square: float
    p_bootstrap: float
    p_exact: float
    p_value: float
    method: EndpointTestMethod
    note: str


_NOTES: dict[EndpointTestMethod, str] = {
    "chi-square": (
        "Shape above -1/2: the likelihood ratio is chi-square with one degree of freedom in large "
        "samples"
    ),
    "parametric bootstrap": (
        "The likelihood ratio against its simulated law at the given endpoint and the estimated "
        "shape"
    ),
    "largest share": (
        "Shape at or below -1/2, where the likelihood ratio is not chi-square: the p-value is the "
        "largest share's, exact for a power tail"
    ),
}


def endpoint_test(
    values: npt.ArrayLike,
    *,
    endpoint: float = 1.0,
    threshold: float | None = None,
    quantile: float = 0.99,
    floor: float = 1e-6,
    replications: int = 0,
    seed: int = 0,
) -> EndpointTest:
    """Test whether a tail ends at a given point.

    Under the hypothesis the log ratios log((x_F - u) / (x_F - x)) are exponential with mean -xi. A
    small p-value says that they are not: the endpoint is another one, there is none, or the tail
    above this threshold is not yet a power of the shortfall. Exceedances count as independent.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        endpoint: x_F under test; 1 is the cap of a cosine.
        threshold: u, below the endpoint; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        floor: least shortfall, as in :func:`weince_lib.evt.fit_known_endpoint`.
        replications: B of the parametric bootstrap; 0 leaves it out, 999 is a good number. It is
            the p-value to report wherever the ratio exists.
        seed: of the bootstrap's draws.

    Returns:
        An :class:`EndpointTest`.

    Raises:
        ValueError: as :func:`weince_lib.evt.fit_known_endpoint`, and for negative replications.
    """
    if replications < 0:
        raise ValueError(f"replications must be 0 or more, got {replications}")
    _, u, shortfall = select_shortfalls(values, endpoint, threshold, quantile, floor)
    size = int(shortfall.size)
    floored = int(np.count_nonzero(shortfall < floor))
    # In units of the distance from the threshold to the endpoint, where the endpoint is 1.
    excesses = 1.0 - np.maximum(shortfall, floor) / (endpoint - u)
    shape = float(np.log1p(-excesses).mean())
    statistic = likelihood_ratio(excesses)
    p_chi_square = float(chi2.sf(statistic, df=1))
    p_bootstrap = math.nan
    if replications and not math.isnan(statistic):
        p_bootstrap = _bootstrap(statistic, shape, size, replications, seed)
    largest = float(excesses.max())
    survival = share_survival(largest_share(excesses / largest, 1.0 / largest), size)
    p_exact = 2.0 * min(survival, 1.0 - survival)
    method: EndpointTestMethod = "largest share"
    if not math.isnan(p_bootstrap):
        method = "parametric bootstrap"
    elif shape > REGULAR_ABOVE:
        method = "chi-square"
    note = _NOTES[method]
    if floored:
        note += f"; {floored} of {size} exceedances were floored at a shortfall of {floor:g}"
    p_values: dict[EndpointTestMethod, float] = {
        "chi-square": p_chi_square,
        "parametric bootstrap": p_bootstrap,
        "largest share": p_exact,
    }
    return EndpointTest(
        endpoint=float(endpoint),
        threshold=u,
        exceedances=size,
        floored=floored,
        shape=shape,
        statistic=statistic,
        p_chi_square=p_chi_square,
        p_bootstrap=p_bootstrap,
        p_exact=p_exact,
        p_value=p_values[method],
        method=method,
        note=note + ".",
    )


def likelihood_ratio(excesses: FloatArray) -> float:
    """Twice the log-likelihood a free endpoint gains over the endpoint 1.

    Both likelihoods are over shapes above -1 alone.

    Args:
        excesses: in units of the distance to the endpoint, in (0, 1), shape ``(n,)``.

    Returns:
        The ratio, not negative; nan where the shape at the endpoint 1 is at or below -1.
    """
    shape = float(np.log1p(-excesses).mean())
    if shape <= -1.0:
        return math.nan
    profile = GPDProfile(excesses)
    fixed = -math.log(-shape) - shape - 1.0
    best = profile.maximum(profile.scan(_NO_DROP))
    highest = (best.log_likelihood if best is not None else 0.0) - math.log(profile.largest)
    return 2.0 * profile.size * max(0.0, highest - fixed)


def _bootstrap(statistic: float, shape: float, size: int, replications: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(replications):
        draw = -np.expm1(shape * rng.standard_exponential(size))
        draws.append(likelihood_ratio(draw))
    # A drawn sample whose own shape falls below -1 has no ratio; counting it as larger is safe.
    larger = sum(1 for drawn in draws if not drawn < statistic)
    return (larger + 1) / (replications + 1)
