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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ablation_settings import AblationSettings
from .arguments import check_flag, check_temperature
from .blocks import CandidateProblem
from .candidates import candidate_problems
from .evidence import TailEvidence, tail_evidence, weigh
from .hard_negatives import (
    FIRST_BETA,
    BatchTailIndex,
    PairCosines,
    hardest_negatives,
    only_negatives,
)
from .similarity import candidate_cross_entropy, loss_dtype
from .streaming import candidate_nll
from .tail_pass import read_tails
from .weince import blended_logits, endpoint_coordinate


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
        check_temperature(temperature)
        check_flag("validate", validate)
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
