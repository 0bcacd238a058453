"""InfoNCE (NT-Xent), the top-1 Plackett-Luce likelihood of paper section 2.1.

L_i = -log( exp(s_ii+ / tau) / sum_{j != i} exp(s_ij / tau) ), averaged over the 2N anchors.

van den Oord et al. (2018), arXiv:1807.03748; in the two-view form of SimCLR, arXiv:2002.05709.
"""

from __future__ import annotations

from torch import Tensor, nn

from .similarity import candidate_cross_entropy, check_pairs, check_temperature, two_view_scores


def infonce_loss(
    z0: Tensor, z1: Tensor, temperature: float = 0.5, *, validate: bool = True
) -> Tensor:
    """InfoNCE of two views of one batch.

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape. Row ``k`` of both is the same item.
        temperature: tau. 0.5 is SimCLR's choice for batches of 256 and the paper's for images;
            sentence encoders use 0.05.
        validate: look for zero and non-finite rows (CPU only, where it is free). Without it a zero
            row has cosine 0 with everything.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input).

    Raises:
        ValueError: for shapes that differ, fewer than two pairs, a temperature that is not
            positive, and rows that are zero or not finite.
    """
    check_temperature(temperature)
    check_pairs(z0, z1, validate=validate)
    scores, positives = two_view_scores(z0, z1)
    return candidate_cross_entropy(scores / temperature, positives)


class InfoNCELoss(nn.Module):
    """Module form of :func:`infonce_loss`: ``InfoNCELoss(temperature=0.5)(z0, z1)``."""

    def __init__(self, temperature: float = 0.5, *, validate: bool = True) -> None:
        super().__init__()
        check_temperature(temperature)
        self.temperature = temperature
        self.validate = validate

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches of embeddings."""
        return infonce_loss(z0, z1, self.temperature, validate=self.validate)

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        return f"temperature={self.temperature}"
