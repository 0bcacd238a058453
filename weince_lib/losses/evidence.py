"""Per-anchor evidence for an endpoint tail: rho, beta, Delta AIC and lambda (paper Eq. 3.2).

For anchor i with negative shortfalls delta_ij = 1 - s_ij,

    lambda_i = sigmoid(kappa_rho * log(rho_0 / rho_i)) * sigmoid(kappa_AIC * (Delta AIC_i - m)),

where rho_i is the smallest shortfall, rho_0 the q-quantile of rho over the batch's anchors, and
Delta AIC_i how much better an endpoint (Weibull) tail describes the anchor's hardest negatives
than a Gumbel-domain tail does. All of it is a batch statistic: nothing here carries a gradient.

The file goes from the settings, over the estimators (:data:`TAIL_INDICES`, :data:`EVIDENCES`) and
the presets, to the reading of a tail and the blend weight. For another estimator of the tail
index, write one function and one entry in :data:`TAIL_INDICES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from .arguments import check_number
from .candidates import CandidateProblem
from .streaming import READERS, read_blocks

#: A key of :data:`TAIL_INDICES`.
TailIndex = str
#: A key of :data:`EVIDENCES`.
Evidence = str

#: Added to the squared error of a line whose slope has the wrong sign, so that it loses.
WRONG_SIGN_PENALTY = 1e6
#: A line has two parameters; an AIC of a line needs at least one point more.
MIN_LINE_POINTS = 3
#: The likelihoods need one exceedance below the threshold and some spread; two is the least.
MIN_LIKELIHOOD_POINTS = 2
_RANGES = {
    "cap_quantile": "lie in (0, 1]",
    "tail_fraction": "lie in (0, 1]",
    "min_tail": "be at least 1",
    "cap_sharpness": "be finite and not negative",
    "evidence_sharpness": "be finite and not negative",
    "evidence_margin": "be finite",
    "floor": "lie in (0, 1)",
}
#: Below this many numbers a second thread costs more than it saves.
THREADED_SELECTION = 2**20
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
            tail, one parameter each. Unlike the lines, it finds no endpoint where there is none
            (notebook 05).
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
        known: Mapping[str, TailEstimator]
        for name, known in (("tail_index", TAIL_INDICES), ("evidence", EVIDENCES)):
            if getattr(self, name) not in list(known):
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )
        for name, must in _RANGES.items():
            check_number(name, getattr(self, name), must)
        if self.min_tail != int(self.min_tail):
            raise ValueError(f"min_tail must be a whole number, got {self.min_tail}")

    def tail_size(self, negatives: int) -> int:
        """K_tail = max(min_tail, round(tail_fraction * negatives)), at most ``negatives``."""
        return min(max(self.min_tail, round(self.tail_fraction * negatives)), negatives)

    @property
    def needs_order(self) -> bool:
        """Whether one of the two estimators needs its tail sorted."""
        return TAIL_INDICES[self.tail_index].needs_order or EVIDENCES[self.evidence].needs_order


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
    """What the tail of each anchor gives alone, before rho_0 is taken over the batch.

    ``rho``, ``beta`` and ``delta_aic`` are those of :class:`TailEvidence`. ``usable`` says whether
    a fit was possible; lambda is 0 elsewhere. Each has shape ``(M,)``.
    """

    rho: Tensor
    beta: Tensor
    delta_aic: Tensor
    usable: Tensor

    @classmethod
    def join(cls, readings: Sequence[TailReading]) -> TailReading:
        """The readings of several problems as those of one batch."""
        if len(readings) == 1:
            return readings[0]
        parts = zip(*((r.rho, r.beta, r.delta_aic, r.usable) for r in readings), strict=True)
        return cls(*(torch.cat(part) for part in parts))


@dataclass(frozen=True)
class TailEstimator:
    """One way to estimate beta, Delta AIC or both from tails, and what it needs of them.

    Attributes:
        fit: takes floored shortfalls of M anchors, shape ``(M, K)``, and the rounding error of a
            cosine (see :func:`has_spread`). Returns beta, Delta AIC or None, and whether the fit
            was possible, each of shape ``(M,)``. Of an entry of :data:`TAIL_INDICES` beta is used,
            of one of :data:`EVIDENCES` Delta AIC.
        needs_order: whether ``fit`` needs each tail in ascending order; a sort for every anchor.
        takes_threshold: whether ``fit`` also gets the next larger shortfall, as a last column.
            Where the tail already holds all negatives, its largest takes that place.
    """

    fit: Callable[[Tensor, float | None], tuple[Tensor, Tensor | None, Tensor]]
    needs_order: bool
    takes_threshold: bool = False

    def __call__(
        self, smallest: Tensor, k: int, resolution: float | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """The fit to the ``k`` smallest shortfalls."""
        return self.fit(smallest if self.takes_threshold else smallest[:, :k], resolution)


def has_spread(least: Tensor, largest: Tensor, resolution: float | None = None) -> Tensor:
    """Whether tails are wider than rounding; equal shortfalls leave nothing to fit.

    Args:
        least: smallest shortfall of each tail, shape ``(M,)``.
        largest: the largest.
        resolution: rounding error of the cosines that the shortfalls were taken from, which may
            have been wider than the shortfalls' dtype; None for that of the dtype.
    """
    eps = torch.finfo(largest.dtype).eps
    return (
        largest - least > ROUNDING * (eps if resolution is None else resolution) + 8 * eps * largest
    )


def log_points(tail: Tensor, drop: int) -> tuple[Tensor, Tensor]:
    """The points of a line fit in log shortfall, without the ``drop`` smallest of ``(..., K)``.

    Returns:
        ``log delta_k`` less its mean, shape ``(..., K - drop)``, and ``F_k = k / (K + 1)``, shape
        ``(K - drop,)``.
    """
    k = tail.shape[-1]
    rank = torch.arange(drop + 1, k + 1, device=tail.device, dtype=tail.dtype) / (k + 1)
    x = tail[..., drop:].log()
    return x - x.mean(dim=-1, keepdim=True), rank


def line_slope(x: Tensor, y: Tensor, sxx: Tensor, ok: Tensor) -> Tensor:
    """Least-squares slope of centred ``y`` on centred ``x`` over the last axis; 0 if not ok."""
    # Not x @ y: autocast would take the product in half precision.
    return torch.where(ok, (x * y).sum(dim=-1) / torch.where(ok, sxx, 1.0), 0.0)


def tail_lines(tail: Tensor, resolution: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """The paper's tail fit: two straight lines in log shortfall and their AIC difference.

    With F_k = k / (K + 1) for the k-th smallest of K shortfalls, and the first max(1, K // 20)
    points dropped, Weibull: log F = a + beta log delta; Gumbel proxy: log(-log F) = b + c log
    delta; AIC = n log(SSE / n) + 4. A slope of the wrong sign is penalised in its SSE.

    Takes ascending shortfalls, shape ``(M, K)``; returns ``beta = max(slope, 0)``, ``delta_aic``
    and whether a fit was possible, each ``(M,)``.
    """
    anchors, k = tail.shape
    drop = max(1, k // 20)
    n = k - drop
    if n < MIN_LINE_POINTS:
        zero = tail.new_zeros(anchors)
        return zero, zero.clone(), torch.zeros_like(zero, dtype=torch.bool)
    x, rank = log_points(tail, drop)
    sxx = (x * x).sum(dim=1)
    ok = has_spread(tail[:, drop], tail[:, -1], resolution)
    slopes, aic = [], []
    for y, sign in ((rank.log(), 1.0), ((-rank.log()).log(), -1.0)):
        y = y - y.mean()
        slope = line_slope(x, y, sxx, ok)
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

    Takes shortfalls, shape ``(M, k + 1)``, the largest last, the others in any order; returns
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


def unit_index(tail: Tensor, resolution: float | None = None) -> tuple[Tensor, None, Tensor]:
    """Beta = 1 for every anchor, whatever its tail; shapes as for :func:`tail_lines`."""
    one = tail.new_ones(tail.shape[0])
    return one, None, torch.ones_like(one, dtype=torch.bool)


_LINES = TailEstimator(tail_lines, needs_order=True)
_LIKELIHOOD = TailEstimator(endpoint_likelihood, needs_order=False, takes_threshold=True)
#: Where beta comes from, by the name that ``tail_index`` takes.
TAIL_INDICES: dict[str, TailEstimator] = {
    "line": _LINES,
    "unit": TailEstimator(unit_index, needs_order=False),
    "hill": _LIKELIHOOD,
}
#: Where Delta AIC comes from, by the name that ``evidence`` takes.
EVIDENCES: dict[str, TailEstimator] = {"line-aic": _LINES, "likelihood": _LIKELIHOOD}

#: ``"paper"``: Eqs. (3.1)-(3.2). ``"release"``: what the authors' training logits use (beta = 1).
#: ``"calibrated"``: maximum-likelihood beta and an evidence that can say no. Its numbers come from
#: the calibration study (:mod:`weince_lib.diagnostics.calibration`, notebook 05): on normal,
#: exponential and Gumbel tails, with 62 to 65,534 negatives, neither the share of open gates nor
#: the mean gate exceeds 5 %, with as much power at beta = 1 and 2 as that leaves. The tail is the
#: 32 hardest negatives up to 65,000: evidence adds up over tail points, so with a tail that grows
#: with the batch a fixed margin would open for normal cosines too. At a margin of 3.5 a steepness
#: of 4 keeps the gate shut (1e-6) without evidence and open within one AIC unit; the paper's 1
#: needs a margin of 5 and loses a fifth of the power at beta = 2, and 8 gains nothing.
#: ``cap_quantile`` is the paper's: the study does not speak of it.
PRESETS: dict[str, TailSettings] = {
    "paper": TailSettings(),
    "release": TailSettings(tail_index="unit"),
    "calibrated": TailSettings(
        tail_index="hill",
        evidence="likelihood",
        tail_fraction=0.0005,
        evidence_sharpness=4.0,
        evidence_margin=3.5,
    ),
}


def preset(name: str) -> TailSettings:
    """Return the settings of a named preset.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]


def fit_tail(
    smallest: Tensor, k: int, settings: TailSettings, resolution: float | None = None
) -> TailReading:
    """Fit each anchor's tail: everything but lambda, which also needs the batch's rho_0.

    Args:
        smallest: each anchor's smallest negative shortfalls, floored, shape ``(M, k + 1)``, or
            ``(M, k)`` if there are only ``k`` negatives. Ascending, or with the largest last and
            the others in any order unless ``settings.needs_order``.
        k: number of tail points K_tail.
        settings: see :class:`TailSettings`.
        resolution: as for :func:`has_spread`.
    """
    index, evidence = TAIL_INDICES[settings.tail_index], EVIDENCES[settings.evidence]
    beta, delta_aic, usable = index(smallest, k, resolution)
    if evidence is not index:
        _, delta_aic, fitted = evidence(smallest, k, resolution)
        usable = usable & fitted
    assert delta_aic is not None, settings.evidence
    # An anchor with fewer unmasked negatives than the tail has points reaches into the excluded
    # ones, at infinity.
    whole = torch.isfinite(smallest[:, -1])
    usable = usable & whole
    return TailReading(
        rho=smallest.amin(dim=1),
        beta=torch.where(usable, beta, 0.0),
        delta_aic=torch.where(whole, delta_aic, 0.0),
        usable=usable,
    )


def smallest(block: Tensor, count: int, ordered: bool) -> Tensor:
    """The ``count`` smallest of each row, the largest of them last; overwrites ``block``.

    numpy's selection is several times faster on a CPU than ``torch.topk``, which also carries
    indices along.
    """
    if block.device.type != "cpu":
        return block.topk(count, dim=1, largest=False, sorted=True).values
    array = block.numpy()

    def select(part: slice) -> None:
        array[part].partition(count - 1, axis=1)
        if ordered:
            array[part, :count].sort(axis=1)

    rows = array.shape[0]
    workers = min(torch.get_num_threads(), rows) if array.size >= THREADED_SELECTION else 1
    if workers > 1:
        step = -(-rows // workers)
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(select, [slice(i, i + step) for i in range(0, rows, step)]))
    else:
        select(slice(None))
    return block[:, :count]


def _read_tail(
    block: Tensor,
    negatives: int,
    full: bool,
    resolution: float,
    tail_index: str,
    evidence: str,
    floor: float,
    k: float,
) -> Tensor:
    settings = TailSettings(tail_index=tail_index, evidence=evidence, floor=floor)
    tail = smallest(block, min(int(k) + 1, negatives), settings.needs_order)
    reading = fit_tail(tail.clamp_min(floor), int(k), settings, resolution)
    parts = (reading.rho, reading.beta, reading.delta_aic, reading.usable.to(reading.rho))
    return torch.stack(parts, dim=1)


READERS["tail"] = _read_tail


def read_tails(
    problem: CandidateProblem, settings: TailSettings, memory: int | None = None
) -> tuple[TailReading, Tensor | None]:
    """Read every anchor's tail block by block, the first of the streamed passes.

    Returns the reading, and the shortfalls for the second pass as
    :func:`~weince_lib.losses.streaming.read_blocks` keeps them within ``memory`` bytes.
    """
    reader = f"tail {settings.tail_index} {settings.evidence}"
    numbers = (settings.floor, settings.tail_size(problem.negatives))
    found, kept = read_blocks(problem, reader, numbers, 4, memory)
    rho, beta, delta_aic, usable = found.unbind(1)
    return TailReading(rho, beta, delta_aic, usable > 0), kept


@torch.no_grad()
def read_score_tails(
    scores: Tensor, is_negative: Tensor, settings: TailSettings, negatives: int | None = None
) -> TailReading:
    """Read each anchor's tail from a matrix of scores.

    Args:
        scores: cosines, shape ``(A, C)``.
        is_negative: which of them are negatives of the row, boolean, shape ``(A, C)``.
        settings: see :class:`TailSettings`.
        negatives: number that the size of every row's tail is a share of; a row with too few for
            such a tail has no usable reading. None: each row's own number of negatives. Then a row
            without any has ``rho`` at infinity.
    """
    delta = (1.0 - scores).clamp_min(settings.floor).masked_fill(~is_negative, torch.inf)
    most = int(is_negative.sum(1).max()) if negatives is None else negatives
    # One point more than the tail: the likelihood's threshold is the next shortfall up.
    reach = max(1, min(settings.tail_size(most) + 1, most))
    smallest = delta.topk(reach, dim=1, largest=False, sorted=True).values
    if negatives is not None:
        return fit_tail(smallest, settings.tail_size(negatives), settings)
    rho = smallest[:, 0].clone()
    beta, delta_aic = torch.zeros_like(rho), torch.zeros_like(rho)
    usable = torch.zeros_like(rho, dtype=torch.bool)
    numbers = is_negative.sum(1)
    for number in numbers[numbers > 0].unique().tolist():  # rows of equally many together
        rows = (numbers == number).nonzero()[:, 0]
        k = settings.tail_size(number)
        part = fit_tail(smallest[rows, : min(k + 1, number)], k, settings)
        beta[rows], delta_aic[rows], usable[rows] = part.beta, part.delta_aic, part.usable
    return TailReading(rho, beta, delta_aic, usable)


def blend_weights(
    reading: TailReading, settings: TailSettings, batch_rho: Tensor | None = None
) -> TailEvidence:
    """The blend weights lambda (Eq. 3.2) of anchors whose tails have been read.

    Args:
        reading: what the anchors' tails say.
        settings: see :class:`TailSettings`.
        batch_rho: rho of all anchors that rho_0 is a quantile of, where ``reading`` holds only a
            part of the batch.
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
        The evidence. With fewer negatives than a fit needs, or a tail without spread, lambda is 0:
        the loss is then InfoNCE.

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
    is_negative = ~torch.eye(size, dtype=torch.bool, device=scores.device)
    is_negative = is_negative.scatter(1, positives[:, None], value=False)
    return blend_weights(read_score_tails(scores, is_negative, settings, negatives), settings)


def evidence_from_tail(smallest: Tensor, k: int, settings: TailSettings) -> TailEvidence:
    """The same from tails as :func:`fit_tail` takes them, for callers without a score matrix."""
    return blend_weights(fit_tail(smallest, k, settings), settings)
