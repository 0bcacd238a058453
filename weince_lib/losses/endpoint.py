"""The loss of an endpoint link: one dial from InfoNCE to the pure endpoint (Weibull) link.

See :mod:`weince_lib.losses.link` for the family. Decoupled, the loss is the margin of the positive
over the best negative in expectation under Gumbel noise: E max_j (l_j + G_j) = log sum_j exp(l_j)
up to Euler's constant.
"""

from __future__ import annotations

from typing import Any, Self, Unpack

from torch import Tensor

from .arguments import check_number
from .infonce import CallOptions, ContrastiveLoss, LossOptions, batch_loss
from .link import EndpointLink


def endpoint_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = 0.2,
    curvature: float = 0.9,
    *,
    decoupled: bool = False,
    **options: Unpack[CallOptions],
) -> Tensor:
    """The endpoint link's loss of one batch of pairs.

    Args:
        z0: first views, or queries, shape ``(N, d)``; rows need not be normalised.
        z1: second views, or keys, same shape. Row ``k`` of both is the same item.
        temperature: tau; 1 / tau is the logit's slope at cosine 0, whatever the curvature. 0.2 with
            a curvature of 0.9 was level with the best softmax (tau = 0.1) in trials on images.
        curvature: g in [0, 1]: the logit has its endpoint at cosine 1 / g. 0 is InfoNCE, 1 the
            pure endpoint link with beta = 1 / tau.
        decoupled: leave the positive out of the denominator.
        **options: the keywords of :func:`weince_lib.losses.infonce_loss`, which mean the same here.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input); negative values occur
        where it is decoupled.

    Raises:
        ValueError: for a curvature outside [0, 1]; else as :func:`weince_lib.losses.infonce_loss`.
        RuntimeError: as :func:`weince_lib.losses.infonce_loss`.
    """
    link = EndpointLink(curvature, decoupled)
    return batch_loss(z0, z1, temperature, link, **options)[0]


class EndpointLoss(ContrastiveLoss):
    """Module form of :func:`endpoint_loss`: ``EndpointLoss(0.2, curvature=0.9)(z0, z1)``.

    ``EndpointLoss(tau, curvature=0.0, decoupled=True)`` is the decoupled softmax (DCL). Further
    keywords are those of :class:`weince_lib.losses.InfoNCELoss`.
    """

    def __init__(
        self,
        temperature: float = 0.2,
        *,
        curvature: float = 0.9,
        decoupled: bool = False,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(temperature, **options)
        self.settings = self.link = EndpointLink(curvature, decoupled)

    @classmethod
    def from_power(
        cls, power: float, offset: float, *, decoupled: bool = False, **options: Unpack[LossOptions]
    ) -> Self:
        """The same by b and epsilon of ``-b log(1 + epsilon - s)``.

        Raises:
            ValueError: unless ``power`` is positive and ``offset`` not negative, both finite.
        """
        check_number("power", power, "be positive and finite")
        check_number("offset", offset)
        if not 0.0 <= offset < float("inf"):
            raise ValueError(
                f"offset must lie in [0, infinity), got {offset}: below 0 the endpoint 1 + offset "
                "would be a cosine that occurs"
            )
        curvature = 1.0 / (1.0 + offset)
        return cls((1.0 + offset) / power, curvature=curvature, decoupled=decoupled, **options)

    def own_settings(self) -> dict[str, Any]:
        """Curvature and decoupling, for ``print(loss)``."""
        return {"curvature": float(self.link.curvature), "decoupled": self.link.decoupled}
