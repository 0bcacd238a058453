"""What a batch of pairs shows of an embedding, whatever loss made it: five numbers.

They are what studies ask to explain a ranking of losses (notebook 13): how near positives are, how
evenly the embeddings spread, how large their spread is, and how well cosines tell the positive.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from ..losses.candidates import two_view_cosines

#: Range of the temperature that fits best. Below 0.005 a softmax is a maximum to rounding.
TAU_RANGE = (0.005, 20.0)


@torch.no_grad()
def geometry(z0: Tensor, z1: Tensor) -> dict[str, float]:
    """Describe two batches of embeddings whose rows are pairs.

    A view's candidates are all other views; its positive is the other view of its item, the rest
    are its negatives. Rows are normalised.

    Args:
        z0: first views, shape ``(N, d)``, two items or more.
        z1: second views, same shape.

    Returns:
        ``alignment``: mean squared distance of positives; ``uniformity``: log of the mean of
        exp(-2 d^2) over negatives at distance d (both Wang and Isola 2020, arXiv:2005.10242; lower
        is better); ``positive_shortfall`` and ``negative_shortfall``: medians of 1 - cosine;
        ``choice_nats``: mean negative log-likelihood of the positives in nats, under the softmax
        whose temperature fits best (:data:`TAU_RANGE`).
    """
    scores, positives = two_view_cosines(z0, z1)
    positive = scores.gather(1, positives[:, None])
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    is_negative = ~own.scatter(1, positives[:, None], value=True)
    negatives = scores[is_negative].reshape(len(scores), -1)
    # The squared distance of unit vectors is 2 - 2 s.
    uniformity = (-4.0 * (1.0 - negatives)).exp().mean().log()
    gaps = negatives - positive

    def nats(log_scale: float) -> float:
        logits = gaps * math.exp(log_scale)
        return float(torch.nn.functional.softplus(logits.logsumexp(1)).mean())

    low, high = (math.log(1.0 / tau) for tau in reversed(TAU_RANGE))
    best = minimize_scalar(nats, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    return {
        "alignment": float((2.0 - 2.0 * positive).mean()),
        "uniformity": float(uniformity),
        "positive_shortfall": float((1.0 - positive).median()),
        "negative_shortfall": float((1.0 - negatives).median()),
        "choice_nats": float(best.fun),
    }
