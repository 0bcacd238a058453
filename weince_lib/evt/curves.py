"""The profile likelihood as a curve, for a plot: over the shape, or over the endpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from .estimated_endpoint import fit_endpoint
from .exceedances import FloatArray, check_values
from .gpd import Regime, fit_gpd
from .profile import GPDProfile

Parameter = Literal["shape", "endpoint"]

#: The curve is followed this far below its highest point, in nats.
_DEPTH = 5.0
_POINTS = 400


@dataclass(frozen=True)
class ProfileCurve:
    """Profile log-likelihood over one parameter, relative to its highest point.

    Attributes:
        parameter: ``"shape"`` or ``"endpoint"``.
        values: of the parameter, ascending, shape ``(points,)``; endpoints in the units of the
            sample.
        relative: log-likelihood less its supremum over shapes at or above -1, in nats, shape
            ``(points,)``.
        estimate: the parameter's estimate; nan where there is none.
        low: lower end of the profile-likelihood interval.
        high: upper end.
        drop: depth of the interval below the highest point, in nats.
        confidence: nominal level of the interval.
        regime: as in :class:`weince_lib.evt.GPDFit`; unless ``"regular"``, the drop does not give
            a valid interval for the endpoint.
    """

    parameter: Parameter
    values: FloatArray
    relative: FloatArray
    estimate: float
    low: float
    high: float
    drop: float
    confidence: float
    regime: Regime


def profile_curve(
    values: npt.ArrayLike,
    parameter: Parameter = "shape",
    *,
    threshold: float | None = None,
    quantile: float = 0.99,
    confidence: float = 0.95,
) -> ProfileCurve:
    """Follow the profile likelihood of a generalised Pareto tail.

    Args:
        values: sample, shape ``(n,)``, any real dtype.
        parameter: ``"shape"`` or ``"endpoint"``. Only finite endpoints are on the curve.
        threshold: u; by default the quantile below.
        quantile: level of the threshold when none is given. 0.99 is the paper's (Figure 3).
        confidence: nominal level of the interval.

    Returns:
        A :class:`ProfileCurve`.

    Raises:
        ValueError: for another parameter, and as :func:`weince_lib.evt.fit_gpd`.
    """
    if parameter not in ("shape", "endpoint"):
        raise ValueError(f"parameter must be 'shape' or 'endpoint', got {parameter!r}")
    array = check_values(values)
    shape_fit = fit_gpd(array, threshold=threshold, quantile=quantile, confidence=confidence)
    u = shape_fit.threshold
    profile = GPDProfile(array[array > u] - u)
    points = profile.scan(_DEPTH)
    best = profile.maximum(points)
    highest = 0.0 if best is None else best.log_likelihood
    if parameter == "shape":
        estimate, low, high = shape_fit.shape, shape_fit.shape_low, shape_fit.shape_high
    else:
        fit = fit_endpoint(array, threshold=u, confidence=confidence)
        estimate, low, high = fit.endpoint, fit.profile_low, fit.profile_high

    def at(s: float) -> tuple[float, float]:
        """The parameter and the log-likelihood per excess."""
        if parameter == "shape":
            point = profile.at(s)
            return point.shape, point.log_likelihood
        return u - profile.largest / math.expm1(s), profile.endpoint_log_likelihood(s)

    nodes = [p.s for p in points if parameter == "shape" or p.s < 0.0]
    if parameter == "endpoint":
        # Towards infinity, in steps that keep their ratio.
        nodes += [nodes[-1] * 0.5**k for k in range(1, 12)]
    depths = profile.size * (highest - np.array([at(s)[1] for s in nodes]))
    inside = np.flatnonzero(depths <= _DEPTH)
    first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(nodes) - 1)
    s = np.interp(np.linspace(first, last, _POINTS), np.arange(len(nodes), dtype=np.float64), nodes)
    curve = np.array([at(float(x)) for x in s])
    relative = profile.size * (curve[:, 1] - highest)
    kept = relative >= -_DEPTH
    return ProfileCurve(
        parameter=parameter,
        values=curve[kept, 0],
        relative=relative[kept],
        estimate=estimate,
        low=low,
        high=high,
        drop=0.5 * float(chi2.ppf(confidence, df=1)),
        confidence=confidence,
        regime=shape_fit.regime,
    )
