"""Losses that others proposed for the same end, to be compared with; in plain operations.

The decoupled softmax (Yeh et al. 2022, arXiv:2110.06848) is
``EndpointLoss(tau, curvature=0.0, decoupled=True)``. The two here need the whole matrix of scores
in float64; at 256 pairs that is a few milliseconds a step.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

import torch
from torch import Tensor

from .arguments import check_number, logit_slope, loss_dtype
from .candidates import Batch
from .dense import candidate_cross_entropy, cosines
from .infonce import ContrastiveLoss, LossOptions
from .link import endpoint_coordinate


class DenseLoss(ContrastiveLoss):
    """A loss of the whole matrix of cosines; a subclass writes :meth:`from_cosines`."""

    def from_cosines(
        self, scores: Tensor, positives: Tensor, counts: Tensor, scale: Tensor
    ) -> Tensor:
        """The scalar loss.

        Args:
            scores: cosines, float64, shape ``(A, C)``.
            positives: column of each anchor's positive, shape ``(A,)``.
            counts: which scores count, boolean, shape ``(A, C)``.
            scale: 1 / tau, shape ``()``.
        """
        raise NotImplementedError

    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *,
        ids: Tensor | None = None,
        negatives: Tensor | None = None,
        logit_scale: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches of embeddings."""
        scale = logit_slope(self.temperature, logit_scale, z0, validate=self.validate)
        batch = Batch(z0, z1, **self._batch_options(ids, negatives))
        losses = []
        for problem in batch.problems(twice_differentiable=self.impl == "reference"):
            scores, counts = cosines(problem)
            losses.append(self.from_cosines(scores, problem.positives, counts, scale))
        self.enqueue(z1, ids)
        return torch.stack(losses).mean().to(loss_dtype(z0))


class HardNegativeLoss(DenseLoss):
    """Importance-weighted negatives (Robinson et al. 2021, arXiv:2010.04592, with debiasing).

    With n negatives and u = s / tau, the negatives' part of the denominator is

        n max( (E_w exp(u-) - tau_plus exp(u+)) / (1 - tau_plus), exp(-1 / tau) ),

    E_w the mean over negatives under weights proportional to exp(beta u-), through which gradients
    flow. beta = 0 and tau_plus = 0 is InfoNCE.

    Args:
        temperature: tau; 0.5 in the paper.
        beta: concentration on hard negatives, 0 or more; the paper's images take 0.5 to 2.
        tau_plus: assumed share of same-class negatives, in [0, 1); 0.1 in the paper for CIFAR-10.
        **options: those of :class:`weince_lib.losses.InfoNCELoss`.

    Raises:
        ValueError: for a number outside its range.
    """

    def __init__(
        self,
        temperature: float = 0.5,
        *,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(temperature, **options)
        check_number("beta", beta, "be finite and not negative")
        check_number("tau_plus", tau_plus, "lie in [0, 1)")
        self.beta, self.tau_plus = float(beta), float(tau_plus)

    def from_cosines(
        self, scores: Tensor, positives: Tensor, counts: Tensor, scale: Tensor
    ) -> Tensor:
        """The scalar loss; see :meth:`DenseLoss.from_cosines`."""
        paired = positives[:, None]
        is_negative = counts.scatter(1, paired, value=False)
        numbers = is_negative.sum(1)
        alone = numbers == 0
        # In logarithms less the positive's: exp(1 / tau) is beyond float64 at tau = 0.001.
        logits = scores * scale
        positive = logits.gather(1, paired)
        negative = (logits - positive).masked_fill(~is_negative, -torch.inf)
        negative = negative.masked_fill(alone[:, None], 0.0)
        importance = (self.beta * logits).masked_fill(~is_negative, -torch.inf)
        importance = importance.masked_fill(alone[:, None], 0.0)
        hard = (importance + negative).logsumexp(1) - importance.logsumexp(1)
        least = -scale - positive[:, 0]
        # log max((e^hard - tau_plus) / (1 - tau_plus), e^least), without a gradient of NaN where
        # the first is not positive.
        enough = hard > (
            torch.logaddexp(
                torch.full_like(hard, self.tau_plus).log(), least + math.log1p(-self.tau_plus)
            )
        )
        safe = torch.where(enough, hard, 1.0)
        debiased = safe + torch.log1p(-self.tau_plus * torch.exp(-safe))
        competing = torch.where(enough, debiased - math.log1p(-self.tau_plus), least)
        competing = competing + numbers.clamp_min(1).to(hard).log()
        return torch.nn.functional.softplus(competing).masked_fill(alone, 0.0).mean()

    def own_settings(self) -> dict[str, Any]:
        """Concentration and debiasing, for ``print(loss)``."""
        return {"beta": self.beta, "tau_plus": self.tau_plus}


class ArctanhLoss(DenseLoss):
    """The link log((1 + s) / (1 - s)) / (2 tau): 2 arctanh(s), of slope 1 / tau at cosine 0.

    It is the endpoint link of beta = 1 / (2 tau) together with its mirror image at cosine -1.
    """

    def from_cosines(
        self, scores: Tensor, positives: Tensor, counts: Tensor, scale: Tensor
    ) -> Tensor:
        """The scalar loss; see :meth:`DenseLoss.from_cosines`."""
        coordinate = endpoint_coordinate(scores) - endpoint_coordinate(-scores)
        return candidate_cross_entropy(coordinate * scale / 2.0, positives, counts)
