"""Endpoint-like, Gumbel-like or undecided: shapes over thresholds, and the rule that reads them.

**Intervals.** Pairs (i, j) share rows, so a shape of them is a function of a U-statistic and its
interval comes from leaving out rows, in groups, with every pair they are in
(:func:`weince_lib.evt.cluster_interval`); as if pairs were independent it would be too short. Where
maximum likelihood has no estimate (shape at or below -1) shape, endpoint and intervals are those of
probability-weighted moments (:func:`weince_lib.evt.moment_fit`); while it has one, parts of the
rows without one count as -1. The noise of a pair itself is counted through either of its rows, so
the interval is on the safe side: up to sqrt(2) too wide where rows matter little. On spheres (d = 4
to 200, 150 and 300 rows) intervals of nominally 0.95 cover 0.95 to 1.00.

At shapes below -1/2 the endpoint hangs on the largest cosine, which leaving out rows hardly moves,
so its upper end is at least where the largest of as many independent pairs as there are rows above
the threshold would lie with probability 0.05, for the heaviest shape in the interval.

**The rule.** xi < 0 at a finite threshold is not yet an endpoint. A normal law, whose limit is
xi = 0, shows -0.09 above its 0.99 quantile, and so do the cosines of directions spread over
many dimensions: a bounded law in theory, but one of which no sample ever sees the end. So the
yardstick is not 0 but the shape r(q) that a generalised Pareto law fitted to a normal tail above
its q-quantile would have (:func:`normal_shape`; no parameter, as shapes do not depend on location
and scale). At each threshold the 95 % interval [low, high] for xi votes:

- endpoint-like if high < r(q) - 0.05: shorter-tailed than a normal law by more than a margin;
- Gumbel-like if low > r(q) - 0.05 and high >= r(q): not shorter-tailed than a normal law by more
  than the margin, and compatible with it or with a heavier tail;
- undecided otherwise: the interval is wide, or it lies in the strip below r(q) in which a normal
  law and an endpoint in more than about 14 dimensions cannot be told apart by their shape.

The verdict is the vote at the main threshold, the highest quantile up to 0.99 with at least 200
exceedances; a higher threshold that votes for the opposite makes it undecided. So a law with
xi = r(q) or heavier is called endpoint-like at most as often as a 95 % interval misses low by more
than the margin, and an endpoint tail with xi <= r(q) - 0.05 Gumbel-like at most as often as one
misses high: 2.5 % each if the intervals kept their level. ``tests/diagnostics/test_shape_verdict``
holds the rule to at most 5 % on known laws. The margin, 0.05, is about half of r(0.99): a tail
counts as shorter than normal once it lies half as far below the normal law as that lies below the
exponential one.

The rule takes the law and the independence of the rows for granted;
:func:`weince_lib.diagnostics.diagnose` checks both first (:mod:`.tail_checks`).

The verdict is about the shape. Whether the endpoint is *cosine 1*, which WEINCE's second coordinate
supposes, is read from the interval of the implied endpoint (:class:`ShapeAt.cap`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special
from scipy.optimize import brentq

from ..evt import GPDProfile, ProfilePoint, cluster_interval, moment_fit

Verdict = Literal["endpoint-like", "Gumbel-like", "undecided"]
Cap = Literal["at the cap", "below the cap", "beyond the cap or none", "unclear"]

#: How far below a normal law's shape the interval must lie.
MARGIN = 0.05
#: The main threshold: at most this quantile, with at least so many exceedances.
MAIN_LEVEL, MAIN_EXCEEDANCES = 0.99, 200
#: A threshold with fewer exceedances is left out.
LEAST_EXCEEDANCES = 50
#: Exceedances fitted per threshold; more are thinned at random. Shape +- 0.01 by independent pairs.
MOST_FITTED = 10_000
#: Groups of rows left out in turn; t with 39 degrees of freedom is 3 % wider than normal.
GROUPS = 40
#: How far the implied endpoint may lie from 1, in units of the room 1 - u, to count as the cap.
#: Above the 0.99 quantile a sphere's own bias is 0.11 in 16 dimensions and 0.20 in 24.
CAP_TOLERANCE = 0.25


@dataclass(frozen=True)
class ShapeAt:
    """The tail above one threshold. Intervals are 95 %, by the jackknife over groups of rows.

    Attributes:
        level: quantile of the cosines the threshold lies at.
        threshold: u, a cosine.
        exceedances: pairs above it.
        fitted: pairs the fits used; fewer if there were more than :data:`MOST_FITTED`.
        shape: xi by generalised Pareto maximum likelihood, or by moments where that has no maximum.
        low: lower end of its interval; maximum likelihood's is cut off at -1.
        high: upper end.
        by_moments: whether shape and endpoint are by moments.
        reference: shape of a normal tail above the same quantile.
        known: xi with the endpoint known to be cosine 1, below 0 by construction.
        known_low: lower end.
        known_high: upper end.
        dimension: effective dimension 2 beta = -2 / known.
        endpoint: implied endpoint u - sigma / xi, a cosine; infinity for xi >= 0.
        endpoint_low: lower end; not below the largest cosine.
        endpoint_high: upper end, infinity where no endpoint is not excluded.
        cap: whether that interval puts the endpoint at cosine 1.
        vote: what this threshold says.
    """

    level: float
    threshold: float
    exceedances: int
    fitted: int
    shape: float
    low: float
    high: float
    by_moments: bool
    reference: float
    known: float
    known_low: float
    known_high: float
    dimension: float
    endpoint: float
    endpoint_low: float
    endpoint_high: float
    cap: Cap
    vote: Verdict


@functools.lru_cache
def normal_shape(level: float, points: int = 4000) -> float:
    """Shape of the generalised Pareto law closest (in likelihood) to a normal tail.

    Args:
        level: quantile the tail starts at, in (0, 1).
        points: mid-quantiles that stand for the tail.

    Returns:
        -0.146 at 0.9, -0.090 at 0.99, -0.065 at 0.999; 0 in the limit.
    """
    share = (np.arange(points) + 0.5) / points
    tail = -special.ndtri((1.0 - level) * share)
    return _fit(tail + special.ndtri(1.0 - level))[0]


def shape_at(
    shortfalls: np.ndarray,
    members: np.ndarray,
    *,
    level: float,
    threshold: float,
    seed: int = 0,
) -> ShapeAt:
    """Fit the tail above one threshold, with intervals over rows.

    Args:
        shortfalls: 1 - s of the pairs, shape ``(m,)``; those strictly above the threshold count.
        members: their rows, or clusters of rows that belong together, shape ``(m, 2)``.
        level: quantile the threshold lies at; gives the normal yardstick.
        threshold: u, a cosine.
        seed: of the thinning and of the groups.

    Raises:
        ValueError: for shortfalls that are not positive, and as the fits of
            :mod:`weince_lib.evt`.
    """
    if not np.all(shortfalls > 0.0):
        raise ValueError(
            f"shortfalls must be positive, got {np.min(shortfalls):g}: leave identical rows out"
        )
    room = 1.0 - threshold
    strictly = shortfalls.astype(np.float64) < room
    shortfalls, members = shortfalls[strictly], members[strictly]
    count = len(shortfalls)
    if count > MOST_FITTED:
        few = np.random.default_rng(seed).choice(count, MOST_FITTED, replace=False)
        shortfalls, members = shortfalls[few], members[few]
    delta = shortfalls.astype(np.float64)

    near = _fit(room - delta)[0]
    by_moments = near == -1.0
    fits: dict[int, tuple[float, float]] = {}

    def fit(values: np.ndarray) -> tuple[float, float]:
        """Each part of the pairs is fitted once for both of its numbers."""
        key = hash(values.tobytes())
        if key not in fits:
            excesses = room - values
            fits[key] = _moments(excesses) if by_moments else _fit(excesses, near)
        return fits[key]

    def shape(values: np.ndarray) -> float:
        return fit(values)[0]

    def curvature(values: np.ndarray) -> float:
        """1 / (x_F - u): smooth through xi = 0, unlike the endpoint."""
        return fit(values)[1]

    def known(values: np.ndarray) -> float:
        return float(np.log(values / room).mean())

    free, inverse, fixed = (
        cluster_interval(delta, members, statistic, max_groups=GROUPS, seed=seed)
        for statistic in (shape, curvature, known)
    )
    reference = normal_shape(round(level, 6))
    largest = 1.0 - float(delta.min())
    endpoint, low, high = (
        threshold + 1.0 / x if x > 0.0 else math.inf
        for x in (inverse.estimate, inverse.high, inverse.low)
    )
    low, high = max(low, largest), max(high, largest)
    if free.estimate < -0.5 and free.high < 0.0:
        rows = int(np.unique(members).size)
        beyond = (-math.expm1(math.log(0.05) / rows)) ** -free.high
        high = max(high, threshold + (largest - threshold) / (1.0 - beyond))
    return ShapeAt(
        level=level,
        threshold=threshold,
        exceedances=count,
        fitted=len(delta),
        shape=free.estimate,
        low=free.low if by_moments else max(free.low, -1.0),
        high=free.high,
        by_moments=by_moments,
        reference=reference,
        known=fixed.estimate,
        known_low=fixed.low,
        known_high=min(fixed.high, 0.0),
        dimension=-2.0 / fixed.estimate,
        endpoint=max(endpoint, largest),
        endpoint_low=low,
        endpoint_high=high,
        cap=_cap(low, high, room),
        vote=_vote(free.low, free.high, reference),
    )


def verdict(shapes: Sequence[ShapeAt]) -> tuple[Verdict, ShapeAt]:
    """The verdict over thresholds, and the main threshold.

    Args:
        shapes: ascending in their level, at least one.
    """
    eligible = [s for s in shapes if s.level <= MAIN_LEVEL and s.exceedances >= MAIN_EXCEEDANCES]
    main = eligible[-1] if eligible else shapes[0]
    opposite = {"endpoint-like": "Gumbel-like", "Gumbel-like": "endpoint-like"}.get(main.vote)
    if any(s.vote == opposite for s in shapes if s.level > main.level):
        return "undecided", main
    return main.vote, main


def _vote(low: float, high: float, reference: float) -> Verdict:
    if high < reference - MARGIN:
        return "endpoint-like"
    if low > reference - MARGIN and high >= reference:
        return "Gumbel-like"
    return "undecided"


def _cap(low: float, high: float, room: float) -> Cap:
    """Where the endpoint's interval lies: at the cap if it is near 1 and within twice as far."""
    near, far = 1.0 - CAP_TOLERANCE * room, 1.0 + CAP_TOLERANCE * room
    if high < near:
        return "below the cap"
    if low > far:
        return "beyond the cap or none"
    if high <= 1.0 + 2.0 * CAP_TOLERANCE * room and low >= 1.0 - 2.0 * CAP_TOLERANCE * room:
        return "at the cap"
    return "unclear"


def _fit(excesses: np.ndarray, near: float | None = None) -> tuple[float, float]:
    """Shape, and 1 / (endpoint - threshold); shape -1 and the largest excess without a maximum.

    Args:
        excesses: over the threshold, shape ``(n,)``.
        near: shape of a larger sample of the same tail; the maximum is looked for there first,
            which spares the scan of the whole curve.
    """
    profile = GPDProfile(excesses)
    best = None
    if near is not None and near > -0.9:
        best = _maximum_near(profile, near * math.log(profile.size))
    if best is None or best.log_likelihood <= 0.0:
        best = profile.maximum(profile.scan(0.0))
    if best is None:
        return -1.0, 1.0 / profile.largest
    return best.shape, -best.shape / (best.scale * profile.largest)


def _moments(excesses: np.ndarray) -> tuple[float, float]:
    """Shape, and 1 / (endpoint - threshold), by probability-weighted moments."""
    shape, scale = moment_fit(excesses)
    return float(shape), float(-shape / scale)


def _maximum_near(profile: GPDProfile, s: float) -> ProfilePoint | None:
    """The maximum of the profile within some steps of ``s``, or ``None``."""
    left = right = s
    for _ in range(6):
        left, right = left - 0.4, right + 0.4
        if profile.at(left).score > 0.0 >= profile.at(right).score:
            return profile.at(float(brentq(lambda x: profile.at(x).score, left, right, xtol=1e-9)))
    return None
