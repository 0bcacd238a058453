"""How often the tail gate, the second factor of Eq. (3.2), opens on tails of known kind.

A gate that opens for every tail says nothing, and one that never opens corrects nothing. So draw
the hardest negatives of many anchors from laws whose kind is known, read them with the loss's own
code and count the anchors at which Delta AIC exceeds the margin: for laws without an endpoint that
share is the gate's error rate, for laws with an endpoint at cosine 1 its power.

Only the tail is drawn. The ``c`` smallest of ``n`` uniforms are, exactly, the partial sums S_1 <
... < S_c of standard exponentials divided by S_(n+1), and S_(n+1) - S_c is Gamma(n + 1 - c) (Renyi
1953; David and Nagaraja, *Order Statistics*, section 2.5). The law's quantile function turns them
into shortfalls, so an anchor among 65,534 negatives costs no more than one among 62.

The gate is a likelihood and not a test with an exact level. Write y = 1 - delta/delta_u for the
relative excesses of the k tail points over the threshold. To second order in y the likelihood's
Delta AIC is k ybar (1 - CV^2), with CV the coefficient of variation of y, that is about
2 ybar sqrt(k) z, where z is the score statistic of an exponential tail against a bounded one in the
generalised Pareto family (:func:`score_statistic`). The score test (Hasofer and Wang 1992) asks
only whether the tail has an endpoint *somewhere*. On normal tails, which look bounded at every
finite threshold, it opens the more often the longer the tail is. The likelihood weighs z by ybar: a
tail that is short against its distance from the cap, where the two coordinates of Eq. (3.1) are the
same up to a linear map, stays shut whatever z. That is what a blend of the two needs. The score
test is kept here as a comparison (:data:`SCORE_GATE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import special
from torch import Tensor

from ..checks import check_at_least
from ..losses.evidence import PRESETS, TailSettings, fit_tail

if TYPE_CHECKING:
    import pandas as pd

#: Tail sizes of the full study.
TAIL_SIZES = (16, 32, 64, 128, 256, 512)
#: Negatives of an anchor, 2N - 2, for N = 32 to 32,768 pairs.
NEGATIVES = (62, 254, 510, 1022, 4094, 16382, 65534)


@dataclass(frozen=True)
class TailLaw:
    """A law of cosines, given by its shortfall.

    Attributes:
        name: for tables and figures.
        endpoint: whether shortfalls reach down to 0 as a power law, so that the cap at cosine 1 is
            the endpoint. The uniform law on a sphere has one in any dimension, though in many
            dimensions hardly any negative comes near it.
        quantile: shortfall 1 - s below which a given share of the negatives lies; takes and returns
            float64 arrays.
    """

    name: str
    endpoint: bool
    quantile: Callable[[np.ndarray], np.ndarray]


def weibull_law(beta: float) -> TailLaw:
    """P(delta <= x) = x^beta on [0, 1]."""
    return TailLaw(f"Weibull, β = {beta:g}", True, lambda u: u ** (1.0 / beta))


def normal_law(mean: float, sd: float) -> TailLaw:
    """Cosines from a normal law, which does not know of the cap."""
    return TailLaw(f"normal({mean:g}, {sd:g})", False, lambda u: 1.0 - mean + sd * special.ndtri(u))


def exponential_law(scale: float) -> TailLaw:
    """Cosines from an exponential law."""
    return TailLaw(f"exponential({scale:g})", False, lambda u: 1.0 + scale * np.log(u))


def gumbel_law(scale: float) -> TailLaw:
    """Cosines from a Gumbel law (of maxima)."""
    return TailLaw(f"Gumbel({scale:g})", False, lambda u: 1.0 + scale * np.log(-np.log1p(-u)))


def sphere_law(dimension: int) -> TailLaw:
    """Cosines of uniform directions in R^d: delta / 2 is Beta(h, h) with h = (d - 1) / 2."""
    h = (dimension - 1) / 2
    return TailLaw(
        f"sphere, d = {dimension}", True, lambda u: 2.0 * np.asarray(special.betaincinv(h, h, u))
    )


#: Five power laws, four laws without an endpoint, and four spheres.
KNOWN_TAILS: tuple[TailLaw, ...] = (
    *(weibull_law(beta) for beta in (0.5, 1, 2, 4, 8)),
    normal_law(0, 0.1),
    normal_law(0.3, 0.1),
    exponential_law(0.05),
    gumbel_law(0.05),
    *(sphere_law(d) for d in (4, 8, 16, 64)),
)


@dataclass(frozen=True)
class Gate:
    """A reading of tails and the value above which it counts as open.

    Attributes:
        name: for tables and figures.
        read: maps sorted tails, shape ``(M, k + 1)`` or ``(M, k)``, and k to the evidence, shape
            ``(M,)``, and whether it could be read, boolean, shape ``(M,)``.
        margin: evidence above it opens the gate.
        sharpness: kappa of the soft gate sigmoid(kappa (evidence - margin)); infinite for a test.
    """

    name: str
    read: Callable[[Tensor, int], tuple[Tensor, Tensor]]
    margin: float
    sharpness: float

    @classmethod
    def of(cls, name: str, settings: TailSettings) -> Gate:
        """The gate of a loss with these settings."""

        def read(smallest: Tensor, k: int) -> tuple[Tensor, Tensor]:
            reading = fit_tail(smallest.clamp_min(settings.floor), k, settings)
            return reading.delta_aic, reading.usable

        return cls(name, read, settings.evidence_margin, settings.evidence_sharpness)


def score_statistic(smallest: Tensor) -> Tensor:
    """Score statistic of an exponential tail against one with an endpoint somewhere.

    At shape 0 the score of the generalised Pareto shape is, up to scale, the sum of squares of the
    excesses over the square of their sum (Greenwood's statistic G), which has mean 2 / (k + 1) and
    variance 4 (k - 1) / ((k + 1)^2 (k + 2) (k + 3)) for exponential excesses at any scale.

    Args:
        smallest: shortfalls, ascending, shape ``(M, k + 1)``; the largest is the threshold.

    Returns:
        (mean - G) / sd, shape ``(M,)``: about standard normal for exponential tails, large for
        tails that end; 0 where all excesses are 0.
    """
    excess = smallest[:, -1:] - smallest[:, :-1]
    k = excess.shape[1]
    total = excess.sum(dim=1)
    greenwood = excess.square().sum(dim=1) / total.square()
    sd = math.sqrt(4.0 * (k - 1) / ((k + 1) ** 2 * (k + 2) * (k + 3)))
    return torch.where(total > 0, (2.0 / (k + 1) - greenwood) / sd, 0.0)


#: The score test at a nominal level of 5 %, for comparison; not an option of the loss.
SCORE_GATE = Gate(
    "score test, 5 %",
    lambda smallest, k: (score_statistic(smallest), smallest[:, 0] < smallest[:, -1]),
    margin=1.6449,
    sharpness=math.inf,
)
#: The gates of the two presets.
GATES = (
    Gate.of("paper's lines", PRESETS["paper"]),
    Gate.of("likelihood", PRESETS["calibrated"]),
)


@dataclass(frozen=True)
class GateShare:
    """One cell of the study: a law, a gate, so many negatives and tail points.

    Attributes:
        law: name of the law the negatives come from.
        endpoint: whether that law ends at cosine 1.
        gate: name of the gate.
        negatives: negatives per anchor.
        tail: tail points k.
        anchors: anchors drawn.
        share: share of them at which the gate is open.
        standard_error: binomial, sqrt(share (1 - share) / anchors).
        mean_gate: mean of the soft gate, the factor that lambda gets.
        median: of the evidence (Delta AIC, for the loss's own gates).
    """

    law: str
    endpoint: bool
    gate: str
    negatives: int
    tail: int
    anchors: int
    share: float
    standard_error: float
    mean_gate: float
    median: float


def smallest_uniforms(
    negatives: int, count: int, anchors: int, rng: np.random.Generator
) -> np.ndarray:
    """The ``count`` smallest of ``negatives`` uniforms per anchor, ascending, in exact law.

    Args:
        negatives: how many uniforms each anchor has.
        count: how many of them to draw, at most ``negatives``.
        anchors: independent repetitions.
        rng: source of randomness.

    Returns:
        Shape ``(anchors, count)``, float64.

    Raises:
        ValueError: if ``count`` is not between 1 and ``negatives``.
    """
    if not 1 <= count <= negatives:
        raise ValueError(f"count must lie between 1 and the {negatives} negatives, got {count}")
    sums = rng.standard_exponential((anchors, count)).cumsum(axis=1)
    rest = rng.standard_gamma(negatives + 1 - count, (anchors, 1))
    return sums / (sums[:, -1:] + rest)


def gate_shares(
    laws: Sequence[TailLaw] = KNOWN_TAILS,
    *,
    negatives: Sequence[int] = NEGATIVES,
    tails: Sequence[int] | Callable[[int], Sequence[int]] = TAIL_SIZES,
    gates: Sequence[Gate] = GATES,
    anchors: int = 2000,
    seed: int = 0,
) -> list[GateShare]:
    """Share of anchors at which each gate opens, over laws, negatives and tail sizes.

    All laws see the same uniforms (common random numbers), and the shorter tails of an anchor are
    parts of its longer ones, so differences between cells are less noisy than the cells.

    Args:
        laws: where the negatives come from.
        negatives: negatives per anchor.
        tails: tail sizes; a function of the number of negatives for sizes that depend on it, such
            as ``lambda n: [settings.tail_size(n)]``. Sizes above the negatives are left out.
        gates: what reads the tails.
        anchors: anchors per cell; the standard error of a share is at most 0.5 / sqrt(anchors).
        seed: of the uniforms; each number of negatives has a stream of its own.

    Returns:
        One :class:`GateShare` per cell, laws outermost.

    Raises:
        ValueError: if ``anchors`` or a tail size is below 1, or no tail fits the negatives.
    """
    check_at_least("anchors", anchors, 1)
    cells: dict[tuple[int, int], list[GateShare]] = {}
    for j, n in enumerate(negatives):
        wanted = tails(n) if callable(tails) else tails
        sizes = sorted({k for k in wanted if k <= n})
        if not sizes or sizes[0] < 1:
            raise ValueError(f"tail sizes {list(wanted)} do not fit {n} negatives")
        rng = np.random.default_rng([seed, n])
        # One point more than the tail: the likelihood's threshold is the next shortfall up.
        uniforms = smallest_uniforms(n, min(sizes[-1] + 1, n), anchors, rng)
        for i, law in enumerate(laws):
            shortfalls = torch.from_numpy(law.quantile(uniforms))
            cells[i, j] = [
                _cell(gate, law, n, k, shortfalls[:, : k + 1]) for k in sizes for gate in gates
            ]
    return [cell for key in sorted(cells) for cell in cells[key]]


def _cell(gate: Gate, law: TailLaw, negatives: int, k: int, smallest: Tensor) -> GateShare:
    evidence, usable = gate.read(smallest, k)
    above = evidence - gate.margin
    is_open = (usable & (above > 0)).double()
    soft = is_open
    if math.isfinite(gate.sharpness):
        soft = torch.where(usable, torch.sigmoid(gate.sharpness * above), 0.0)
    share = float(is_open.mean())
    anchors = len(is_open)
    return GateShare(
        law=law.name,
        endpoint=law.endpoint,
        gate=gate.name,
        negatives=negatives,
        tail=k,
        anchors=anchors,
        share=share,
        standard_error=math.sqrt(share * (1.0 - share) / anchors),
        mean_gate=float(soft.mean()),
        median=float(evidence.median()),
    )


def as_frame(shares: Sequence[GateShare]) -> pd.DataFrame:
    """The cells as a tidy table, one row each (needs pandas)."""
    import pandas as pd

    return pd.DataFrame([asdict(cell) for cell in shares])
