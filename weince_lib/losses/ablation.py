"""The parts of WEINCE and of the release's objective, each on its own: what drives a gain?

    L = CE over C(i) of (1 - lambda_i) s_ij / tau + lambda_i (-beta_i log(1 - s_ij))
        + w_softmax * CE over {i+} and H(i) of s_ij / tau
        + w_Weibit  * CE over {i+} and H(i) of -beta log(1 - s_ij),

with the hardest negatives H(i) of :mod:`weince_lib.losses.hard_negatives`. lambda = 0 is InfoNCE,
lambda = 1 the pure Weibull link ("Weibit"). lambda_i may be each anchor's own, another anchor's,
or the batch's mean, which tells whether it matters *which* anchor is corrected. Two views, one
process.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .blocks import CandidateProblem
from .candidates import candidate_problems
from .evidence import TailEvidence, TailSettings, tail_evidence, weigh
from .hard_negatives import (
    FIRST_BETA,
    BatchTailIndex,
    PairCosines,
    hardest_negatives,
    only_negatives,
)
from .similarity import candidate_cross_entropy, check_temperature, loss_dtype
from .streaming import candidate_nll
from .tail_pass import read_tails
from .weince import blended_logits, endpoint_coordinate

Link = Literal["softmax", "blend", "weibit"]
Assignment = Literal["own", "shuffled", "mean", "fixed"]


def _check_number(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a real number (a boolean is none)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number such as 0.5, got {value!r}")


@dataclass(frozen=True)
class AblationSettings:
    """One cell of the ablation; the defaults are the paper's WEINCE.

    Attributes:
        link: of the loss over all candidates: ``"softmax"`` (lambda = 0), ``"blend"``, or
            ``"weibit"`` (lambda = 1).
        tail: how beta and lambda are read from the batch; of no use to ``"softmax"``.
        fixed_beta: a tail index in place of the one read, the same for every anchor; ``None``
            takes ``tail``'s.
        assignment: whose lambda an anchor of the blend gets. ``"own"``; ``"shuffled"``: that of
            the anchor before it in the batch, whose order is random, so another image's, with the
            batch's lambdas kept as they are; ``"mean"``: the batch's mean; ``"fixed"``:
            ``fixed_lambda``.
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
        for name in ("softmax_weight", "weibit_weight", "fixed_beta", "fixed_lambda"):
            value = getattr(self, name)
            if value is not None or not name.startswith("fixed"):
                _check_number(name, value)
        for name in ("softmax_weight", "weibit_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, got {getattr(self, name)}"
                )
        hardest: Any = self.hardest
        if not isinstance(hardest, int) or isinstance(hardest, bool) or hardest < 1:
            raise ValueError(
                "hardest must be a whole number of negatives, 1 or more, got "
                f"{hardest!r}; give an int such as 50"
            )
        if self.fixed_beta is not None and not 0.0 < self.fixed_beta < math.inf:
            raise ValueError(f"fixed_beta must be positive and finite, got {self.fixed_beta}")
        if self.fixed_lambda is not None and not 0.0 <= self.fixed_lambda <= 1.0:
            raise ValueError(f"fixed_lambda must lie in [0, 1], got {self.fixed_lambda}")
        if (self.assignment == "fixed") != (self.fixed_lambda is not None):
            raise ValueError(
                f"assignment {self.assignment!r} and fixed_lambda = {self.fixed_lambda} do not "
                'fit; only "fixed" takes a fixed_lambda'
            )
        self._check_unused()

    def _check_unused(self) -> None:
        """What a link does not use stays at its default: one objective, one way to write it."""
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


def link_weights(
    settings: AblationSettings, evidence: TailEvidence | None, anchors: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Blend weight and tail index of each anchor as the link uses them.

    Args:
        settings: see :class:`AblationSettings`.
        evidence: of the batch, if the settings read one.
        anchors: number of anchors, M.
        like: gives dtype and device.

    Returns:
        ``lam`` and ``beta``, each of shape ``(M,)``.
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


def hardest_terms(
    scores: Tensor, temperature: float, settings: AblationSettings, weibit_beta: Tensor | float
) -> Tensor:
    """The weighted sum of the losses over the hardest negatives, shape ``()``.

    Args:
        scores: cosines of each anchor with its positive, in the first column, and its hardest
            negatives, shape ``(M, 1 + K)``.
        temperature: tau.
        settings: see :class:`AblationSettings`.
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
        weibit_beta: beta of the Weibit loss over the hardest negatives; 4 is where the release's
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
        _check_number("temperature", temperature)
        check_temperature(temperature)
        chosen: Any = AblationSettings() if settings is None else settings
        if not isinstance(chosen, AblationSettings):
            raise ValueError(
                f"settings must be AblationSettings, got {chosen!r}; give one such as "
                'AblationSettings(link="blend")'
            )
        self.temperature = temperature
        self.settings = chosen
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
        (problem,) = candidate_problems(
            z0,
            z1,
            candidates="two-view",
            symmetric=True,
            ids=None,
            negatives=None,
            queue=None,
            gather_distributed=False,
            validate=self.validate,
            twice_differentiable=False,
        )
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
            evidence = weigh(reading, s.tail)
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
