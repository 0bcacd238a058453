"""The link of a contrastive loss: the logit of a candidate as a function of its cosine.

A family with one dial joins the softmax to the endpoint (Weibull) link. With temperature tau and
curvature g in [0, 1],

    l(s) = -log(1 - g s) / (g tau),    l'(s) = 1 / (tau (1 - g s)).

Its slope at s = 0 is 1 / tau for every g. g = 0 is the limit s / tau, the softmax of InfoNCE; g = 1
is the pure endpoint link -beta log(1 - s) with beta = 1 / tau. Between them the logit has its
endpoint, where it is infinite, at cosine 1 / g, beyond all that occur. In other words

    l(s) = -b log(1 + epsilon - s) + constant,    epsilon = 1 / g - 1,    b = (1 + epsilon) / tau.

exp(l) = (1 - g s)^(-1 / (g tau)) is a q-exponential of s / tau with q = 1 + g tau; as a function of
the distance on the sphere it is a Student t kernel, and -l / (g tau) is the logarithm of a
generalised Pareto survival function with its endpoint at cosine 1 / g.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .arguments import check_flag, check_number

#: An endpoint farther than this beyond cosine 1 (curvature below 1/11) is taken by ``log1p``, whose
#: value is exact where ``log`` would lose digits; on some CPUs it takes ten times as long.
FAR = 10.0
#: Curvatures below this are 0 to rounding.
STRAIGHT = 1e-9


@dataclass(frozen=True)
class EndpointLink:
    """One member of the family, for a temperature that is given elsewhere.

    Attributes:
        curvature: g in [0, 1]. 0 is the softmax, 1 the endpoint at cosine 1. The default 0.9, an
            endpoint at cosine 1.11, was level with the best temperature in trials.
        decoupled: leave the positive out of the denominator (Yeh et al. 2022, arXiv:2110.06848).

    Raises:
        ValueError: for a curvature outside [0, 1].
    """

    curvature: float = 0.9
    decoupled: bool = False

    def __post_init__(self) -> None:
        check_number("curvature", self.curvature)
        check_flag("decoupled", self.decoupled)
        if not 0.0 <= self.curvature <= 1.0:
            raise ValueError(
                f"curvature must lie in [0, 1], got {self.curvature}: 0 is the softmax, 1 puts the "
                "endpoint at cosine 1, and above it the endpoint 1 / curvature would be a cosine "
                "that occurs"
            )

    @property
    def offset(self) -> float | None:
        """Epsilon, how far beyond cosine 1 the endpoint lies; None for the softmax."""
        return 1.0 / self.curvature - 1.0 if self.curvature > STRAIGHT else None

    def coordinate(self, scores: Tensor, floor: float = 1e-6) -> Tensor:
        """The logit times tau, up to a constant, in plain operations.

        Args:
            scores: cosines, any shape.
            floor: least distance from the endpoint; below it the derivative is that at the floor.
        """
        if self.offset is None:
            return scores
        return endpoint_coordinate(scores, floor, self.offset)


def endpoint_coordinate(
    scores: Tensor, floor: float = 1e-6, offset: float | Tensor = 0.0
) -> Tensor:
    """-(1 + epsilon) log(1 + epsilon - s), up to a constant; -log(1 - s) for epsilon = 0.

    The derivative is (1 + epsilon) / max(1 + epsilon - s, floor) everywhere: where the floor is
    active it is the derivative at the floor and not zero, so that the closest pairs still repel
    each other.

    Args:
        scores: cosines, any shape.
        floor: least distance 1 + epsilon - s from the endpoint.
        offset: epsilon; a tensor must not exceed :data:`FAR`.
    """
    if isinstance(offset, float) and offset > FAR:
        return -(1.0 + offset) * torch.log1p(-scores / (1.0 + offset))
    distance = 1.0 - scores + offset
    floored = distance + (distance.clamp_min(floor) - distance).detach()
    return -(1.0 + offset) * floored.log()
