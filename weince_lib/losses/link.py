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
        return endpoint_coordinate_at(scores, self.offset, floor)


def endpoint_coordinate_at(scores: Tensor, offset: float | Tensor, floor: float = 1e-6) -> Tensor:
    """-(1 + epsilon) log(1 + epsilon - s) up to a constant; epsilon as a tensor is at most FAR.

    The derivative is (1 + epsilon) / max(1 + epsilon - s, floor) everywhere, as of
    :func:`weince_lib.losses.endpoint_coordinate`.
    """
    if isinstance(offset, float) and offset > FAR:
        return -(1.0 + offset) * torch.log1p(-scores / (1.0 + offset))
    distance = 1.0 - scores + offset
    floored = distance + (distance.clamp_min(floor) - distance).detach()
    return -(1.0 + offset) * floored.log()


class BlockLink:
    """Logits of a block of anchors from shortfalls, and their derivative in the cosine.

    With shortfalls delta, a and b for each anchor, and epsilon for all:

    =============  ==================================  ==================================
    given          logit                               derivative
    =============  ==================================  ==================================
    slope          -a delta                            a
    slope, power   -a delta - b log(delta)             a + b / delta
    slope, offset  -a (1 + epsilon) log(delta + eps.)  a (1 + epsilon) / (delta + eps.)
    =============  ==================================  ==================================

    Args:
        slope: a, shape ``(A,)``.
        power: b, shape ``(A,)``, or None.
        offset: epsilon, shape ``()``, or None. The blocks then hold delta + epsilon.
        floor: least value of what the logarithm is taken of; None where it is never reached.
        far: the blocks hold delta, and the logit is ``-a (1 + epsilon) log1p(delta / epsilon)``,
            for a large epsilon.
    """

    def __init__(
        self,
        slope: Tensor,
        power: Tensor | None,
        offset: Tensor | None,
        floor: float | None,
        *,
        far: bool,
    ) -> None:
        self.a = slope[:, None]
        self.b = None if power is None else power.to(slope.dtype)[:, None]
        self.floor, self.far, self.pure = floor, far, offset is not None
        if offset is not None:
            self.offset, self.stretch = offset.to(slope.dtype), (1.0 + offset).to(slope.dtype)
            self.b = self.a * self.stretch

    def write_logits(self, rows: slice, delta: Tensor, out: Tensor, inner: Tensor) -> Tensor:
        """Write the logits of ``rows`` to ``out``; return what the derivative is taken of.

        That is ``inner``, which is overwritten, or ``delta``, as a floor that is never reached
        needs no second matrix.
        """
        if self.b is None:
            torch.mul(delta, -self.a[rows], out=out)
        elif self.far:
            torch.div(delta, self.offset, out=inner)
            torch.log1p(inner, out=out).mul_(-self.b[rows])
            inner.add_(1.0)
        else:
            inner = self._floored(delta, out=inner)
            torch.log(inner, out=out).mul_(-self.b[rows])
            if not self.pure:
                out.addcmul_(delta, self.a[rows], value=-1.0)
        return inner

    def _floored(self, delta: Tensor, out: Tensor | None = None) -> Tensor:
        return delta if self.floor is None else torch.clamp_min(delta, self.floor, out=out)

    def logit(self, rows: slice, paired: Tensor) -> Tensor:
        """The logit of one candidate of each anchor, shape ``(rows, 1)``."""
        if self.pure or self.b is None:
            return self.a[rows] * self.coordinate(paired)
        return -self.b[rows] * self._floored(paired).log() - self.a[rows] * paired

    def coordinate(self, paired: Tensor) -> Tensor:
        """What the slope multiplies, of one candidate of each anchor."""
        if not self.pure:
            return -paired
        if self.far:
            return -self.stretch * torch.log1p(paired / self.offset)
        return -self.stretch * self._floored(paired).log()

    def expected(self, p: Tensor, delta: Tensor, inner: Tensor) -> Tensor:
        """The mean of :meth:`coordinate` over each anchor's candidates."""
        if not self.pure:
            return -(p * delta).sum(1, keepdim=True)
        if self.far:
            return -self.stretch * (p * torch.log1p(delta / self.offset)).sum(1, keepdim=True)
        # Not p * log: a candidate that is left out may have 0 times infinity.
        return -self.stretch * torch.xlogy(p, inner).sum(1, keepdim=True)

    def derivative(
        self, rows: slice, p: Tensor, inner: Tensor, paired: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates' probabilities times derivative, and the positive's derivative.

        Args:
            rows: the block.
            p: probabilities; overwritten, or left for reuse if the result is ``inner``.
            inner: what :meth:`write_logits` left there; overwritten.
            paired: shortfalls of the positives, shape ``(rows, 1)``.
            share: factor of each anchor.
        """
        if self.b is None:
            pull = self.a[rows] * share
            return p.mul_(pull), pull
        b = self.b[rows] * share
        if self.far:
            b = b / self.offset
            near = paired / self.offset + 1.0
        else:
            near = self._floored(paired)
        toward = torch.div(p, inner, out=inner).mul_(b)
        if self.pure:
            return toward, b / near
        pull = self.a[rows] * share
        toward.addcmul_(p, pull)
        return toward, pull + b / near
