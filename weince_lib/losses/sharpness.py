"""How many negatives a loss pushes on: the entropy of its gradient over them.

The weight of negative j for anchor i is its share of the anchor's push on negatives,

    w_ij = |dL/ds_ij| / sum over negatives k of |dL/ds_ik|,    H_i = -sum_j w_ij log w_ij,

and exp(H) is the effective number of negatives: M - 2 if all count alike, 1 if a single one does.
A lower temperature, an endpoint link, a loss over the hardest negatives all sharpen w; this puts
them on one scale. With labels, the weights also tell how much of the push falls on items of the
anchor's own class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .ablation import FIRST_BETA, AblationLoss, AblationSettings, ablation_from_scores
from .annealed import AnnealedLoss
from .candidates import two_view_cosines
from .dense import endpoint_from_scores
from .endpoint import EndpointLoss
from .infonce import InfoNCELoss
from .rivals import DenseLoss
from .self_setting import SelfSettingLoss
from .weince import WEINCELoss

#: Losses whose weights are known.
KNOWN = (
    AblationLoss,
    WEINCELoss,
    InfoNCELoss,
    EndpointLoss,
    SelfSettingLoss,
    AnnealedLoss,
    DenseLoss,
)


@dataclass(frozen=True)
class Sharpness:
    """What a batch shows of a loss's sharpness; means over the anchors that push on negatives.

    Attributes:
        negative_entropy: mean of the entropy H_i, in nats; NaN if no anchor pushes.
        mean_lambda: mean blend weight; 0 for a softmax, 1 for the pure Weibull link, NaN for a
            loss that blends nothing.
        same_class_push: mean share of the push that falls on negatives of the anchor's class; NaN
            without labels.
    """

    negative_entropy: float
    mean_lambda: float
    same_class_push: float = math.nan

    @property
    def effective_negatives(self) -> float:
        """The exponential of the mean entropy."""
        return math.exp(self.negative_entropy)


def loss_of_cosines(
    loss: nn.Module, scores: Tensor, positives: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The loss in plain operations on ``(M, M)`` cosines, and each anchor's lambda, if it has one.

    Raises:
        TypeError: for a loss of another kind than :data:`KNOWN`.
    """
    if not isinstance(loss, KNOWN):
        raise TypeError(f"no sharpness known of {type(loss).__name__}")
    temperature: float = loss.temperature
    beta = loss.weibit_beta if isinstance(loss, AblationLoss) else FIRST_BETA
    counts = ~torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if isinstance(loss, EndpointLoss | AnnealedLoss):
        if isinstance(loss, AnnealedLoss):
            temperature = 1.0 / float(loss.logit_scale())
        found = endpoint_from_scores(
            scores, positives, counts, temperature, loss.link, validate=False
        )
        return found, None
    if isinstance(loss, SelfSettingLoss):
        return loss.from_cosines(scores, positives, counts), None
    if isinstance(loss, DenseLoss):
        scale = scores.new_tensor(1.0 / temperature)
        return loss.from_cosines(scores, positives, counts, scale), None
    if isinstance(loss, AblationLoss):
        settings = loss.settings
    elif isinstance(loss, WEINCELoss):
        settings = AblationSettings(tail=loss.settings)
    else:
        settings = AblationSettings(link="softmax")
    return ablation_from_scores(scores, positives, temperature, settings, beta)


def negative_weights(
    loss: nn.Module, scores: Tensor, positives: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The weights w_ij and each anchor's lambda, if it has one.

    Args:
        loss: one of :data:`KNOWN`.
        scores: cosines, shape ``(M, M)``.
        positives: column of each anchor's positive, shape ``(M,)``.

    Returns:
        ``w``, shape ``(M, M)``, rows summing to 1 (0 for an anchor that pushes on nothing), 0 at
        the anchor and its positive; and lambda, shape ``(M,)``.
    """
    # As if s_ij and s_ji were two numbers: row i is what anchor i's own loss does.
    leaf = scores.detach().clone().requires_grad_()
    with torch.enable_grad():
        value, lam = loss_of_cosines(loss, leaf, positives)
        (grad,) = torch.autograd.grad(value, leaf)
    w = grad.abs().fill_diagonal_(0.0).scatter_(1, positives[:, None], 0.0)
    return w / w.sum(1, keepdim=True).clamp_min(torch.finfo(w.dtype).tiny), lam


@torch.no_grad()
def sharpness(loss: nn.Module, z0: Tensor, z1: Tensor, labels: Tensor | None = None) -> Sharpness:
    """The sharpness of a two-view loss on one batch; the loss's state stays as it is.

    Args:
        loss: one of :data:`KNOWN`.
        z0: first views, shape ``(N, d)``.
        z1: second views, same shape.
        labels: class of each item, integer, shape ``(N,)``; below 0 where it is not known.

    Raises:
        TypeError: for a loss of another kind.
    """
    scores, positives = two_view_cosines(z0, z1)
    w, lam = negative_weights(loss, scores, positives)
    pushing = w.sum(1) > 0
    entropy = -torch.xlogy(w, w).sum(1)
    same_class_push = math.nan
    if labels is not None:
        both = labels.to(w.device).repeat(2)
        alike = (both[:, None] == both) & (both >= 0)
        shares = torch.where(both >= 0, (w * alike).sum(1), math.nan)
        same_class_push = float(shares[pushing].nanmean())
    mean_lambda = math.nan if lam is None else float(lam.mean())
    return Sharpness(float(entropy[pushing].mean()), mean_lambda, same_class_push)
