"""The parts of WEINCE and of the release's objective, each on its own: what drives a gain?

    L = CE over C(i) of (1 - lambda_i) s_ij / tau + lambda_i (-beta_i log(1 - s_ij))
        + w_softmax * CE over {i+} and H(i) of s_ij / tau
        + w_Weibit  * CE over {i+} and H(i) of -beta log(1 - s_ij).

The first line is WEINCE: lambda = 0 is InfoNCE, lambda = 1 the pure Weibull link ("Weibit").
lambda_i may be each anchor's own, another anchor's, or the batch's mean, which tells whether it
matters *which* anchor is corrected. The other two are cross-entropies over the positive i+ and the
K hardest negatives H(i). Their beta is one for all anchors, read from the batch's smallest
shortfalls and averaged over steps (:class:`BatchTailIndex`). Two views, one process.

The release's WEINCE script adds 0.5 of each (:data:`RELEASED`); its InfoNCE script adds neither.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .arguments import check_flag, check_number, check_temperature, exact_dtype, loss_dtype
from .candidates import Batch, CandidateProblem
from .dense import blended_logits, candidate_cross_entropy
from .evidence import (
    TailEvidence,
    TailSettings,
    blend_weights,
    line_slope,
    log_points,
    preset,
    read_tails,
    smallest,
    tail_evidence,
)
from .link import endpoint_coordinate
from .streaming import candidate_nll

Link = Literal["softmax", "blend", "weibit"]
Assignment = Literal["own", "shuffled", "mean", "fixed"]

#: Share of all the batch's negative shortfalls that make the tail beta is read from ...
TAIL_FRACTION = 0.05
#: ... the least number of them, as far as there are so many ...
LEAST_TAIL = 1024
#: ... and the share of the tail, its smallest points, that is dropped before the fit.
DROPPED = 0.05
#: A fit with a smaller coefficient of determination is not taken.
LEAST_R2 = 0.85
#: Bounds of a fitted beta.
BOUNDS = (0.5, 16.0)
#: beta before the first batch, and the weight of the past in its running mean.
FIRST_BETA, MOMENTUM = 4.0, 0.9


@dataclass(frozen=True)
class AblationSettings:
    """One cell of the ablation; the defaults are the paper's WEINCE.

    Attributes:
        link: of the loss over all candidates: ``"softmax"`` (lambda = 0), ``"blend"``, or
            ``"weibit"`` (lambda = 1).
        tail: how beta and lambda are read from the batch; of no use to ``"softmax"``.
        fixed_beta: a tail index for every anchor, in place of the one read.
        assignment: whose lambda an anchor of the blend gets. ``"own"``; ``"shuffled"``: that of
            the anchor before it in the batch, another image's; ``"mean"``: the batch's mean;
            ``"fixed"``: ``fixed_lambda``.
        fixed_lambda: in [0, 1], with ``assignment="fixed"``.
        softmax_weight: of the softmax loss over the hardest negatives; 0.5 in the release.
        weibit_weight: of the Weibit loss over them; 0.5 in the release.
        hardest: how many negatives these two take; 50 in the release.

    Raises:
        ValueError: for a value outside its range, or settings that do not go together.
    """

    link: Link = "blend"
    tail: TailSettings = field(default_factory=TailSettings)
    fixed_beta: float | None = None
    assignment: Assignment = "own"
    fixed_lambda: float | None = None
    softmax_weight: float = 0.0
    weibit_weight: float = 0.0
    hardest: int = 50

    def __post_init__(self) -> None:
        for name, known in (("link", get_args(Link)), ("assignment", get_args(Assignment))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )
        tail: Any = self.tail
        if not isinstance(tail, TailSettings):
            raise ValueError(f"tail must be TailSettings(...) or a preset(name), got {tail!r}")
        check_number("softmax_weight", self.softmax_weight, "be finite and not negative")
        check_number("weibit_weight", self.weibit_weight, "be finite and not negative")
        if self.fixed_beta is not None:
            check_number("fixed_beta", self.fixed_beta, "be positive and finite")
        if self.fixed_lambda is not None:
            check_number("fixed_lambda", self.fixed_lambda, "lie in [0, 1]")
        hardest: Any = self.hardest
        if not isinstance(hardest, int) or isinstance(hardest, bool) or hardest < 1:
            raise ValueError(
                "hardest must be a whole number of negatives, 1 or more, got "
                f"{hardest!r}; give an int such as 50"
            )
        if (self.assignment == "fixed") != (self.fixed_lambda is not None):
            raise ValueError(
                f"assignment {self.assignment!r} and fixed_lambda = {self.fixed_lambda} do not "
                'fit; only "fixed" takes a fixed_lambda'
            )
        self._check_unused()

    def _check_unused(self) -> None:
        """Refuse what the link does not use, so that one objective has one set of settings."""
        if self.link != "blend" and self.assignment != "own":
            raise ValueError(f"link {self.link!r} has no lambda to assign ({self.assignment!r})")
        if self.link == "softmax" and self.fixed_beta is not None:
            raise ValueError(f'link "softmax" has no beta; got fixed_beta = {self.fixed_beta}')
        usual = {own.name: own.default for own in dataclasses.fields(self)}["hardest"]
        if not self.has_extras and self.hardest != usual:
            raise ValueError(
                f"hardest = {self.hardest} is of no use without softmax_weight or weibit_weight; "
                f"give one of them a weight, or leave hardest at {usual}"
            )
        unread = [
            own.name
            for own in dataclasses.fields(self.tail)
            if own.name not in self._read_of_tail()
            and getattr(self.tail, own.name) != getattr(TailSettings(), own.name)
        ]
        if unread:
            raise ValueError(
                f"of tail, {', '.join(unread)} is not read with link {self.link!r}, fixed_beta = "
                f"{self.fixed_beta} and assignment {self.assignment!r}; leave it at its default"
            )

    def _read_of_tail(self) -> set[str]:
        """Names of the fields of ``tail`` that the objective depends on; the floor may stay."""
        read = {"floor"}
        if self.link != "softmax" and self.fixed_beta is None:
            read |= {"tail_index", "tail_fraction", "min_tail"}
        if self.link == "blend" and self.assignment != "fixed":
            read |= {own.name for own in dataclasses.fields(self.tail)} - {"tail_index"}
        return read

    @property
    def reads_tail(self) -> bool:
        """Whether the main loss needs the batch's tail."""
        return self.link == "blend" or (self.link == "weibit" and self.fixed_beta is None)

    @property
    def has_extras(self) -> bool:
        """Whether there is a loss over the hardest negatives."""
        return self.softmax_weight > 0 or self.weibit_weight > 0


#: What the release's script trains with. Facts about the release are those this project's audit
#: lists; where they leave something open (the rounding of a tail's size, whether a batch's fit of
#: beta counts in its own loss), the choice is named where it is made.
RELEASED = AblationSettings(tail=preset("release"), softmax_weight=0.5, weibit_weight=0.5)


def link_weights(
    settings: AblationSettings, evidence: TailEvidence | None, anchors: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Blend weight and tail index of each anchor as the link uses them, both of shape ``(M,)``.

    Args:
        settings: see :class:`AblationSettings`.
        evidence: of the batch, if the settings read one.
        anchors: number of anchors, M.
        like: gives dtype and device.
    """
    ones = torch.ones(anchors, dtype=like.dtype, device=like.device)
    if settings.link == "softmax":
        return torch.zeros_like(ones), ones
    lam = beta = ones
    if evidence is not None:
        beta = evidence.beta.to(ones)
        if settings.link == "blend":
            lam = evidence.lam.to(ones)
    if settings.fixed_beta is not None:
        beta = settings.fixed_beta * ones
    if settings.assignment == "shuffled":
        lam = lam.roll(1)
    elif settings.assignment == "mean":
        lam = lam.mean() * ones
    elif settings.fixed_lambda is not None:
        lam = settings.fixed_lambda * ones
    return lam, beta


def only_negatives(shortfalls: Tensor, positives: Tensor) -> Tensor:
    """A copy of ``(M, M)`` shortfalls with the anchors and their positives at infinity."""
    delta = shortfalls.detach().clone()
    delta.fill_diagonal_(torch.inf)
    return delta.scatter_(1, positives[:, None], torch.inf)


def hardest_negatives(negatives: Tensor, count: int) -> Tensor:
    """Columns of each anchor's hardest negatives, in no order, shape ``(M, min(count, M - 2))``.

    Args:
        negatives: shortfalls, shape ``(M, M)``, see :func:`only_negatives`.
        count: how many; all if an anchor has fewer.
    """
    count = min(count, negatives.shape[0] - 2)
    if negatives.device.type != "cpu":
        return negatives.topk(count, dim=1, largest=False, sorted=False).indices
    # numpy's selection takes a third of the time of torch's.
    return torch.from_numpy(np.argpartition(negatives.numpy(), count - 1, axis=1)[:, :count])


def hardest_terms(
    scores: Tensor, temperature: float, settings: AblationSettings, weibit_beta: Tensor | float
) -> Tensor:
    """The weighted sum of the losses over the hardest negatives, shape ``()``.

    Args:
        scores: cosines of each anchor with its positive, in the first column, and its hardest
            negatives, shape ``(M, 1 + K)``.
        temperature: tau of the softmax term.
        settings: weights and floor.
        weibit_beta: beta of the Weibit term.
    """
    positives = torch.zeros(scores.shape[0], dtype=torch.int64, device=scores.device)
    total = scores.new_zeros(())
    if settings.softmax_weight:
        softmax = F.cross_entropy(scores / temperature, positives)
        total = total + settings.softmax_weight * softmax
    if settings.weibit_weight:
        logits = weibit_beta * endpoint_coordinate(scores, settings.tail.floor)
        total = total + settings.weibit_weight * F.cross_entropy(logits, positives)
    return total


class PairCosines(torch.autograd.Function):
    """``scores`` (rows times their transpose, without gradient) at ``columns``, shape ``(M, K)``.

    One product, in ``dtype``, gives the gradient of both sides.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, scores: Tensor, columns: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Return the cosines, in the precision of the rows."""
        ctx.save_for_backward(rows, columns)
        ctx.dtype = dtype
        return scores.gather(1, columns)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Scatter to the matrix of all cosines, add its transpose, multiply."""
        rows, columns = ctx.saved_tensors
        wide = rows.new_zeros(rows.shape[0], rows.shape[0], dtype=ctx.dtype)
        wide.scatter_add_(1, columns, grad.to(ctx.dtype))
        with torch.autocast(rows.device.type, enabled=False):
            found = (wide + wide.T) @ rows.to(ctx.dtype)
        return found.to(rows.dtype), None, None, None


@torch.no_grad()
def tail_slope(negatives: Tensor, number: int, floor: float = 1e-6) -> tuple[Tensor, Tensor]:
    """One tail index for a batch: the slope of log F on log delta over its smallest shortfalls.

    Of n shortfalls the K = max(1024, floor(0.05 n)) smallest make the tail (all if there are
    fewer), F_k = k / (K + 1), and the first floor(0.05 K) of them are dropped.

    Args:
        negatives: shortfalls of any shape, with what is no negative at infinity.
        number: how many of them are negatives, n.
        floor: least shortfall.

    Returns:
        The slope and the fit's R^2, 0 for a tail without spread, both of shape ``()``.
    """
    k = min(max(LEAST_TAIL, int(TAIL_FRACTION * number)), number)
    (tail,) = smallest(negatives.reshape(1, -1).clone(), k, ordered=True)
    tail = tail.to(exact_dtype(negatives.device)).clamp_min(floor)
    drop = min(int(DROPPED * k), k - 1)
    x, rank = log_points(tail, drop)
    y = rank.log() - rank.log().mean()
    sxx, sxy, syy = (x * x).sum(), (x * y).sum(), (y * y).sum()
    spread = (sxx > 0) & (syy > 0)
    slope = line_slope(x, y, sxx, spread)
    return slope, torch.where(spread, slope * sxy / torch.where(spread, syy, 1.0), 0.0)


class BatchTailIndex(nn.Module):
    """The Weibit term's beta: fitted to each batch, clamped, and averaged over steps.

    beta <- 0.9 beta + 0.1 clamp(slope, 0.5, 16) where the fit has R^2 of 0.85 or more; 4 before the
    first batch. That a batch's own fit counts in its own loss is this project's reading. The mean
    is a buffer of the state, in float32 or better whatever the module is cast to: in bfloat16 a
    step of 0.1 times a small change would be rounded away.
    """

    beta: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("beta", torch.tensor(FIRST_BETA, dtype=torch.float32))

    def _apply(self, fn: Any, recurse: bool = True) -> BatchTailIndex:
        """Move and cast as any module, but to nothing narrower than float32."""
        before = self.beta
        super()._apply(fn, recurse)
        if torch.finfo(self.beta.dtype).bits < 32:
            self.beta = before.to(self.beta.device, torch.float32)
        return self

    @torch.no_grad()
    def forward(self, negatives: Tensor, floor: float) -> Tensor:
        """Beta, shape ``()``; in training mode with the batch's :func:`only_negatives` taken in."""
        if self.training:
            anchors = negatives.shape[0]
            slope, r2 = tail_slope(negatives, anchors * (anchors - 2), floor)
            old = self.beta.to(slope)
            new = MOMENTUM * old + (1.0 - MOMENTUM) * slope.clamp(*BOUNDS)
            self.beta = torch.where(r2 >= LEAST_R2, new, old).to(self.beta)
        return self.beta


class AblationLoss(nn.Module):
    """A two-view loss of the ablation: ``AblationLoss(0.5, AblationSettings(...))(z0, z1)``.

    The loss over all candidates is the library's streaming one; those over the hardest negatives
    take one further product, in float64. With a Weibit term the module keeps its running beta.

    Args:
        temperature: tau, of every softmax.
        settings: see :class:`AblationSettings`; the paper's WEINCE by default.
        validate: look for zero and non-finite rows, on a CPU only.

    Raises:
        ValueError: for a temperature that is no positive number, or settings of another kind.
    """

    def __init__(
        self,
        temperature: float = 0.5,
        settings: AblationSettings | None = None,
        *,
        validate: bool = True,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        check_flag("validate", validate)
        self.settings: Any = AblationSettings() if settings is None else settings
        if not isinstance(self.settings, AblationSettings):
            raise ValueError(
                f"settings must be AblationSettings, got {settings!r}; give one such as "
                'AblationSettings(link="blend")'
            )
        self.temperature = temperature
        self.validate = validate
        self.tail_index = BatchTailIndex() if self.settings.weibit_weight else None

    @property
    def gather_distributed(self) -> bool:
        """Always false: the losses over the hardest negatives see one process's batch."""
        return False

    @property
    def weibit_beta(self) -> float:
        """The running beta of the Weibit loss over the hardest negatives; 4 without one."""
        return FIRST_BETA if self.tail_index is None else float(self.tail_index.beta)

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        """The loss of two views, each of shape ``(N, d)``, in nats per anchor.

        Raises:
            ValueError: as :func:`weince_lib.losses.infonce_loss`.
        """
        (problem,) = Batch(z0, z1, validate=self.validate).problems()
        s = self.settings
        scores = kept = None
        if s.has_extras or not (s.reads_tail or s.link == "softmax"):
            with torch.no_grad(), torch.autocast(z0.device.type, enabled=False):
                scores = problem.anchors @ problem.anchors.T
                kept = (1.0 - scores).to(problem.dtype)
        loss = self._main(problem, kept)
        if scores is not None and kept is not None and s.has_extras:
            loss = loss + self._extras(problem, scores, kept).to(loss)
        return loss.to(loss_dtype(z0))

    def _main(self, problem: CandidateProblem, kept: Tensor | None) -> Tensor:
        """The loss over all candidates."""
        s, positive = self.settings, problem.positive
        evidence = None
        if s.reads_tail:
            reading, own = read_tails(problem, s.tail)
            evidence = blend_weights(reading, s.tail)
            kept = own if own is not None else kept
        lam, beta = link_weights(s, evidence, positive.shape[0], positive)
        slope = (1.0 - lam) * (1.0 / self.temperature)
        if s.link == "softmax":
            return candidate_nll(problem, slope, shortfalls=kept)
        return candidate_nll(
            problem,
            slope,
            lam * beta,
            floor=s.tail.floor,
            rho=None if evidence is None else evidence.rho,
            shortfalls=kept,
        )

    def _extras(self, problem: CandidateProblem, scores: Tensor, shortfalls: Tensor) -> Tensor:
        """The losses over the hardest negatives."""
        s, positives = self.settings, problem.positives
        negatives = only_negatives(shortfalls, positives)
        columns = torch.cat([positives[:, None], hardest_negatives(negatives, s.hardest)], dim=1)
        beta: Tensor | float = FIRST_BETA
        if self.tail_index is not None:
            beta = self.tail_index(negatives, s.tail.floor)
        few = PairCosines.apply(problem.anchors, scores, columns, problem.dtype)
        return hardest_terms(few, self.temperature, s, beta)

    def extra_repr(self) -> str:
        """Settings that differ from the defaults, for ``print(loss)``."""
        usual = AblationSettings()
        shown: dict[str, Any] = {"temperature": self.temperature, "link": self.settings.link}
        for own in dataclasses.fields(usual):
            value = getattr(self.settings, own.name)
            if value != getattr(usual, own.name):
                shown[own.name] = value
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


class ReleasedLoss(AblationLoss):
    """The whole objective of the release's WEINCE training script: ``ReleasedLoss(0.5)(z0, z1)``.

    WEINCE with beta = 1, plus half of a Weibit and half of a softmax loss over the 50 hardest
    negatives. The paper describes the first term alone, with a fitted beta_i. The module keeps the
    running tail index of its Weibit term as a buffer; see :class:`BatchTailIndex`.

    Args:
        temperature: tau; 0.5 for images in the release.
        validate: look for zero and non-finite rows, on a CPU only.

    Raises:
        ValueError: for a temperature that is no positive number.
    """

    def __init__(self, temperature: float = 0.5, *, validate: bool = True) -> None:
        super().__init__(temperature, RELEASED, validate=validate)


def ablation_from_scores(
    scores: Tensor,
    positives: Tensor,
    temperature: float,
    settings: AblationSettings,
    weibit_beta: Tensor | float = FIRST_BETA,
) -> tuple[Tensor, Tensor]:
    """The objective in plain operations on a matrix of scores, for gradients in the scores.

    Args:
        scores: cosines, shape ``(M, M)``; the diagonal is ignored.
        positives: column of each anchor's positive, shape ``(M,)``.
        temperature: tau.
        settings: see :class:`AblationSettings`.
        weibit_beta: beta of the Weibit loss over the hardest negatives; 4 by default, where the
            running mean starts.

    Returns:
        The loss in nats per anchor, shape ``()``, and the lambda of each anchor, shape ``(M,)``.
    """
    fixed = scores.detach()
    evidence = tail_evidence(fixed, positives, settings.tail) if settings.reads_tail else None
    lam, beta = link_weights(settings, evidence, scores.shape[0], fixed)
    logits = blended_logits(scores, lam, beta, temperature, settings.tail.floor)
    loss = candidate_cross_entropy(logits, positives)
    if settings.has_extras:
        negatives = only_negatives(1.0 - fixed, positives)
        chosen = hardest_negatives(negatives, settings.hardest)
        few = scores.gather(1, torch.cat([positives[:, None], chosen], dim=1))
        loss = loss + hardest_terms(few, temperature, settings, weibit_beta)
    return loss, lam
