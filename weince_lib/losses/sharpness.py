"""How many negatives a loss pushes on: the entropy of its gradient over them.

The weight of negative j for anchor i is its share of the anchor's push on negatives,

    w_ij = |dL/ds_ij| / sum over negatives k of |dL/ds_ik|,    H_i = -sum_j w_ij log w_ij,

and exp(H) is the effective number of negatives: M - 2 if all count alike, 1 if a single one does.
A lower temperature, an endpoint link and a loss over the hardest negatives all sharpen w; this
puts them on one scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .ablation import AblationLoss, AblationSettings, ablation_from_scores
from .infonce import InfoNCELoss
from .similarity import two_view_cosines
from .weince import WEINCELoss


@dataclass(frozen=True)
class Sharpness:
    """What a batch shows of a loss's sharpness.

    Attributes:
        negative_entropy: mean over anchors of the entropy H_i, in nats.
        mean_lambda: mean blend weight; 0 for a softmax, 1 for the pure Weibull link.
    """

    negative_entropy: float
    mean_lambda: float

    @property
    def effective_negatives(self) -> float:
        """The exponential of the mean entropy."""
        return math.exp(self.negative_entropy)


def as_ablation(loss: nn.Module) -> AblationSettings:
    """The ablation settings a loss amounts to.

    Raises:
        TypeError: for a loss of another kind.
    """
    if isinstance(loss, AblationLoss):
        return loss.settings
    if isinstance(loss, WEINCELoss):
        return AblationSettings(tail=loss.settings)
    if isinstance(loss, InfoNCELoss):
        return AblationSettings(link="softmax")
    raise TypeError(f"no sharpness known of {type(loss).__name__}")


def negative_weights(
    scores: Tensor,
    positives: Tensor,
    temperature: float,
    settings: AblationSettings,
    weibit_beta: Tensor | float = 4.0,
) -> tuple[Tensor, Tensor]:
    """The weights w_ij and each anchor's lambda.

    Args:
        scores: cosines, shape ``(M, M)``.
        positives: column of each anchor's positive, shape ``(M,)``.
        temperature: tau.
        settings: of the loss, see :func:`as_ablation`.
        weibit_beta: of its Weibit loss over the hardest negatives.

    Returns:
        ``w``, shape ``(M, M)``, rows summing to 1, 0 at the anchor and its positive; and ``lam``,
        shape ``(M,)``.
    """
    # As if s_ij and s_ji were two numbers: row i is what anchor i's own loss does.
    leaf = scores.detach().clone().requires_grad_()
    with torch.enable_grad():
        loss, lam = ablation_from_scores(leaf, positives, temperature, settings, weibit_beta)
        (grad,) = torch.autograd.grad(loss, leaf)
    w = grad.abs().fill_diagonal_(0.0).scatter_(1, positives[:, None], 0.0)
    return w / w.sum(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny), lam


@torch.no_grad()
def sharpness(loss: nn.Module, z0: Tensor, z1: Tensor) -> Sharpness:
    """The sharpness of a two-view loss on one batch; the loss's state stays as it is.

    Args:
        loss: an :class:`InfoNCELoss`, :class:`WEINCELoss` or :class:`AblationLoss`.
        z0: first views, shape ``(N, d)``.
        z1: second views, same shape.

    Raises:
        TypeError: for a loss of another kind.
    """
    settings = as_ablation(loss)
    temperature: float = loss.temperature  # type: ignore[assignment]
    beta = loss.weibit_beta if isinstance(loss, AblationLoss) else 4.0
    scores, positives = two_view_cosines(z0, z1)
    w, lam = negative_weights(scores, positives, temperature, settings, beta)
    entropy = -torch.xlogy(w, w).sum(1)
    return Sharpness(float(entropy.mean()), float(lam.mean()))
