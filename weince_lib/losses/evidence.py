"""Per-anchor evidence for an endpoint tail: rho, beta, Delta AIC and lambda (paper Eq. 3.2).

For anchor i with negative shortfalls delta_ij = 1 - s_ij,

    lambda_i = sigmoid(kappa_rho * log(rho_0 / rho_i)) * sigmoid(kappa_AIC * (Delta AIC_i - m)),

where rho_i is the smallest shortfall, rho_0 the q-quantile of rho over the batch's anchors, and
Delta AIC_i how much better an endpoint (Weibull) tail describes the anchor's hardest negatives
than a Gumbel-domain tail does. All of it is a batch statistic: nothing here carries a gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import torch
from torch import Tensor

from .arguments import check_number

TailIndex = Literal["line", "unit", "hill"]
Evidence = Literal["line-aic", "likelihood"]

#: Added to the squared error of a line whose slope has the wrong sign, so that it loses.
WRONG_SIGN_PENALTY = 1e6
#: A line has two parameters; an AIC of a line needs at least one point more.
MIN_LINE_POINTS = 3
#: The likelihoods need one exceedance below the threshold and some spread; two is the least.
MIN_LIKELIHOOD_POINTS = 2
_NUMBERS = (
    "cap_quantile",
    "tail_fraction",
    "min_tail",
    "cap_sharpness",
    "evidence_sharpness",
    "evidence_margin",
    "floor",
)
#: A tail no wider than so many rounding errors of a cosine (each eps) has no spread to fit.
ROUNDING = 32


@dataclass(frozen=True)
class TailSettings:
    """How the tail of a batch is read. The defaults are the paper's method.

    The paper describes the two fits and the gate; tail size, ranks, dropped points, penalty and
    the values of q, kappa and m are those of the authors' released code.

    Attributes:
        tail_index: where beta comes from. ``"line"``: least squares of log F on log delta, as in
            the paper. ``"unit"``: beta = 1, what the release's training logits use. ``"hill"``:
            maximum likelihood, ``k / sum log(delta_(k+1) / delta_(m))``.
        evidence: where Delta AIC comes from. ``"line-aic"``: the paper's two straight lines.
            ``"likelihood"``: a Weibull tail with its endpoint at cosine 1 against an exponential
            tail, one parameter each; unlike the lines, it can say no (``paper/claims.toml``).
        cap_quantile: q, the quantile of rho over anchors that serves as rho_0.
        tail_fraction: share of the negatives that make the tail.
        min_tail: least number of tail points, as far as there are negatives.
        cap_sharpness: kappa_rho, steepness in log(rho_0 / rho_i).
        evidence_sharpness: kappa_AIC, steepness in Delta AIC.
        evidence_margin: m, the Delta AIC at which the gate is half open.
        floor: least shortfall, in units of 1 - cosine; float32 cannot resolve much less.

    Raises:
        ValueError: for an unknown option or a number outside its range.
    """

    tail_index: TailIndex = "line"
    evidence: Evidence = "line-aic"
    cap_quantile: float = 0.2
    tail_fraction: float = 0.10
    min_tail: int = 32
    cap_sharpness: float = 10.0
    evidence_sharpness: float = 1.0
    evidence_margin: float = 2.0
    floor: float = 1e-6

    def __post_init__(self) -> None:
        for name, known in (("tail_index", get_args(TailIndex)), ("evidence", get_args(Evidence))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )
        for name in _NUMBERS:
            check_number(name, getattr(self, name))
        for name in ("cap_quantile", "tail_fraction"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        if self.min_tail < 1:
            raise ValueError(f"min_tail must be at least 1, got {self.min_tail}")
        if self.min_tail != int(self.min_tail):
            raise ValueError(f"min_tail must be a whole number, got {self.min_tail}")
        for name in ("cap_sharpness", "evidence_sharpness"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, got {getattr(self, name)}"
                )
        if not math.isfinite(self.evidence_margin):
            raise ValueError(f"evidence_margin must be finite, got {self.evidence_margin}")
        if not 0.0 < self.floor < 1.0:
            raise ValueError(f"floor must lie in (0, 1), got {self.floor}")

    def tail_size(self, negatives: int) -> int:
        """K_tail = max(min_tail, round(tail_fraction * negatives)), at most ``negatives``."""
        return min(max(self.min_tail, round(self.tail_fraction * negatives)), negatives)


@dataclass(frozen=True)
class TailEvidence:
    """What the batch's tail says about each anchor; no field carries a gradient.

    Attributes:
        rho: distance of the hardest negative from the cap, min_j delta_ij, shape ``(M,)``.
        beta: tail index of the endpoint tail, shape ``(M,)``; 0 where no fit was possible.
        delta_aic: AIC of the Gumbel-domain tail minus AIC of the Weibull tail, shape ``(M,)``;
            positive favours an endpoint.
        lam: blend weight lambda_i in [0, 1], shape ``(M,)``.
        rho_0: reference distance, the q-quantile of ``rho`` over anchors, shape ``()``.
    """

    rho: Tensor
    beta: Tensor
    delta_aic: Tensor
    lam: Tensor
    rho_0: Tensor

    def to(self, dtype: torch.dtype) -> TailEvidence:
        """The same numbers in another precision."""
        return TailEvidence(*(getattr(self, f.name).to(dtype) for f in fields(self)))


@dataclass(frozen=True)
class TailReading:
    """What an anchor's tail says by itself, before the batch is asked for rho_0.

    Attributes:
        rho: as in :class:`TailEvidence`, shape ``(M,)``.
        beta: as in :class:`TailEvidence`, shape ``(M,)``.
        delta_aic: as in :class:`TailEvidence`, shape ``(M,)``.
        usable: whether a fit was possible; lambda is 0 elsewhere. Boolean, shape ``(M,)``.
    """

    rho: Tensor
    beta: Tensor
    delta_aic: Tensor
    usable: Tensor


@torch.no_grad()
def tail_evidence(
    scores: Tensor, positives: Tensor, settings: TailSettings | None = None
) -> TailEvidence:
    """Read rho, beta, Delta AIC and lambda from a batch's cosines (paper Eq. 3.2, Appendix E).

    Args:
        scores: cosines, shape ``(M, M)``; row i is anchor i, the diagonal is ignored.
        positives: column of each anchor's positive, shape ``(M,)``; left out of the tail.
        settings: see :class:`TailSettings`; the paper's by default.

    Returns:
        A :class:`TailEvidence`. With fewer negatives than a fit needs, or a tail without spread,
        lambda is 0: the loss is then InfoNCE.

    Raises:
        ValueError: if ``scores`` is not square or ``positives`` does not fit it.
    """
    settings = settings or TailSettings()
    if scores.ndim != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f"scores must be square, (M, M), got {tuple(scores.shape)}")
    if positives.shape != scores.shape[:1]:
        raise ValueError(
            f"positives must have shape ({scores.shape[0]},), got {tuple(positives.shape)}"
        )
    size = scores.shape[0]
    negatives = size - 2
    if negatives < 1:
        raise ValueError(f"{size} views have no negatives; at least 4 views are needed")
    delta = (1.0 - scores).clamp_min(settings.floor)
    delta.fill_diagonal_(float("inf"))
    delta.scatter_(1, positives[:, None], float("inf"))
    k = settings.tail_size(negatives)
    # One point more than the tail: the likelihood's threshold is the next shortfall up.
    smallest = delta.topk(min(k + 1, negatives), dim=1, largest=False, sorted=True).values
    return evidence_from_tail(smallest, k, settings)


def evidence_from_tail(smallest: Tensor, k: int, settings: TailSettings) -> TailEvidence:
    """The same from sorted tails, for callers that keep no score matrix.

    Args:
        smallest: each anchor's smallest negative shortfalls, ascending, already floored, shape
            ``(M, k + 1)``, or ``(M, k)`` when the anchors have only ``k`` negatives.
        k: number of tail points K_tail.
        settings: see :class:`TailSettings`.
    """
    return weigh(read_tail(smallest, k, settings), settings)


def read_tail(
    smallest: Tensor, k: int, settings: TailSettings, resolution: float | None = None
) -> TailReading:
    """What each anchor's tail says by itself: everything but lambda, which needs the batch.

    Args:
        smallest: as for :func:`evidence_from_tail`. The likelihood options need only the largest
            in the last column, the lines need the whole order.
        k: number of tail points K_tail.
        settings: see :class:`TailSettings`.
        resolution: rounding error of a cosine, as for :func:`has_spread`.
    """
    rho = smallest.amin(dim=1)
    hill = likelihood_gain = line_slope = line_gain = None
    usable = torch.ones_like(rho, dtype=torch.bool)
    if settings.tail_index == "hill" or settings.evidence == "likelihood":
        hill, likelihood_gain, ok = endpoint_likelihood(smallest, resolution)
        usable = usable & ok
    if settings.tail_index == "line" or settings.evidence == "line-aic":
        line_slope, line_gain, ok = tail_lines(smallest[:, :k], resolution)
        usable = usable & ok
    beta = {"line": line_slope, "hill": hill, "unit": torch.ones_like(rho)}[settings.tail_index]
    delta_aic = line_gain if settings.evidence == "line-aic" else likelihood_gain
    assert beta is not None and delta_aic is not None
    # An anchor with fewer unmasked negatives than the tail has points reaches into the excluded
    # ones, at infinity.
    whole = torch.isfinite(smallest[:, -1])
    usable = usable & whole
    delta_aic = torch.where(whole, delta_aic, 0.0)
    return TailReading(rho, torch.where(usable, beta, 0.0), delta_aic, usable)


def weigh(
    reading: TailReading, settings: TailSettings, batch_rho: Tensor | None = None
) -> TailEvidence:
    """Lambda (Eq. 3.2) of anchors whose tails have been read.

    Args:
        reading: what the anchors' tails say.
        settings: see :class:`TailSettings`.
        batch_rho: rho of all anchors that rho_0 is a quantile of, any number; those of ``reading``
            by default. Pass more when this process or block holds only a part of the batch.
    """
    rho_0 = nearest_rank_quantile(
        reading.rho if batch_rho is None else batch_rho, settings.cap_quantile
    )
    near_cap = torch.sigmoid(settings.cap_sharpness * torch.log(rho_0 / reading.rho))
    endpoint = torch.sigmoid(
        settings.evidence_sharpness * (reading.delta_aic - settings.evidence_margin)
    )
    lam = torch.where(reading.usable, near_cap * endpoint, 0.0)
    return TailEvidence(reading.rho, reading.beta, reading.delta_aic, lam, rho_0)


def nearest_rank_quantile(values: Tensor, q: float) -> Tensor:
    """The ceil(q n)-th smallest of ``n`` values, shape ``()`` (no interpolation)."""
    rank = max(1, math.ceil(q * values.numel() - 1e-9))
    return values.kthvalue(rank).values


def has_spread(least: Tensor, largest: Tensor, resolution: float | None = None) -> Tensor:
    """Whether tails are wider than rounding; a tail of ties is nothing to fit.

    Args:
        least: smallest shortfall of each tail, shape ``(M,)``.
        largest: the largest.
        resolution: rounding error of the cosines the shortfalls were taken from; that of the
            shortfalls' dtype by default. Less where they were taken in a wider one.
    """
    eps = torch.finfo(largest.dtype).eps
    return (
        largest - least > ROUNDING * (eps if resolution is None else resolution) + 8 * eps * largest
    )


def tail_lines(tail: Tensor, resolution: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The paper's tail fit: two straight lines in log shortfall and their AIC difference.

    With F_k = k / (K + 1) for the k-th smallest of K shortfalls, and the first max(1, K // 20)
    points dropped, Weibull: log F = a + beta log delta; Gumbel proxy: log(-log F) = b + c log
    delta; AIC = n log(SSE / n) + 4. A slope of the wrong sign is penalised in its SSE.

    Args:
        tail: ascending shortfalls, shape ``(M, K)``.
        resolution: as for :func:`has_spread`.

    Returns:
        ``beta = max(slope, 0)``, ``delta_aic`` and whether a fit was possible, each ``(M,)``.
    """
    anchors, k = tail.shape
    drop = max(1, k // 20)
    n = k - drop
    if n < MIN_LINE_POINTS:
        zero = tail.new_zeros(anchors)
        return zero, zero.clone(), torch.zeros_like(zero, dtype=torch.bool)
    rank = torch.arange(drop + 1, k + 1, device=tail.device, dtype=tail.dtype) / (k + 1)
    x = tail[:, drop:].log()
    x = x - x.mean(dim=1, keepdim=True)
    sxx = (x * x).sum(dim=1)
    ok = has_spread(tail[:, drop], tail[:, -1], resolution)
    slopes, aic = [], []
    for y, sign in ((rank.log(), 1.0), ((-rank.log()).log(), -1.0)):
        y = y - y.mean()
        # Not x @ y: autocast would take the product in half precision.
        slope = torch.where(ok, (x * y).sum(dim=1) / torch.where(ok, sxx, 1.0), 0.0)
        sse = (y - slope[:, None] * x).square().sum(dim=1)
        sse = sse + WRONG_SIGN_PENALTY * (sign * slope <= 0)
        slopes.append(slope)
        aic.append(n * torch.log(sse.clamp_min(torch.finfo(tail.dtype).tiny) / n) + 4.0)
    return slopes[0].clamp_min(0.0), aic[1] - aic[0], ok


def endpoint_likelihood(
    smallest: Tensor, resolution: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Maximum-likelihood tail index, and the likelihood evidence for an endpoint at cosine 1.

    With threshold delta_u (the largest shortfall given) and the k smaller ones: a Weibull tail with
    known endpoint has beta = k / sum log(delta_u / delta_m) (Hill) and log-likelihood
    k log(beta / delta_u) + (beta - 1) sum log(delta_m / delta_u); an exponential tail with mean
    excess mu = mean(delta_u - delta_m) has -k log mu - k. One parameter each, so
    Delta AIC = 2 (l_Weibull - l_exponential).

    Args:
        smallest: shortfalls, shape ``(M, k + 1)``, the largest last, the others in any order.
        resolution: as for :func:`has_spread`.

    Returns:
        ``beta``, ``delta_aic`` and whether a fit was possible, each ``(M,)``.
    """
    anchors, points = smallest.shape
    k = points - 1
    if k < MIN_LIKELIHOOD_POINTS:
        zero = smallest.new_zeros(anchors)
        return zero, zero.clone(), torch.zeros_like(zero, dtype=torch.bool)
    threshold = smallest[:, -1:]
    log_ratio = (threshold / smallest[:, :-1]).log().sum(dim=1)
    excess = (threshold - smallest[:, :-1]).mean(dim=1)
    ok = has_spread(smallest.amin(dim=1), threshold[:, 0], resolution)
    beta = torch.where(ok, k / torch.where(ok, log_ratio, 1.0), 0.0)
    scaled = torch.where(ok, excess / threshold[:, 0], 1.0)
    weibull = k * beta.clamp_min(torch.finfo(beta.dtype).tiny).log() - (beta - 1.0) * log_ratio
    exponential = -k * scaled.log() - k
    return beta, torch.where(ok, 2.0 * (weibull - exponential), 0.0), ok
