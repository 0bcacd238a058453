"""SimCLR: an encoder, a projection head, and frozen features (Chen et al. 2020; paper F.2)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from .encoders import build_encoder


class SimCLR(nn.Module):
    """Encoder ``h = f(x)`` and projection ``z = g(h)``; the loss sees ``z``, evaluation ``h``.

    The head is Linear(h, h) -> ReLU -> Linear(h, projection_dim), both without bias, as in the
    codebase the paper builds on.

    Args:
        encoder: a module with an integer ``feature_dim``.
        projection_dim: size of ``z``; 64 in the paper.
    """

    def __init__(self, encoder: nn.Module, projection_dim: int = 64) -> None:
        super().__init__()
        size = cast(int, encoder.feature_dim)
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(size, size, bias=False),
            nn.ReLU(),
            nn.Linear(size, projection_dim, bias=False),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Project images ``(n, C, H, W)`` in [0, 1] to ``z``, shape ``(n, projection_dim)``."""
        return self.projector(self.encoder(images))


def build_simclr(
    encoder: str, *, channels: int, image_size: int, width: int, projection_dim: int, seed: int
) -> SimCLR:
    """A SimCLR model whose initial weights depend on ``seed`` alone.

    Two losses trained with one seed start from the same weights, which is what makes their
    comparison a paired one. Torch's global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SimCLR(
            build_encoder(encoder, channels=channels, image_size=image_size, width=width),
            projection_dim,
        )


def to_unit_range(images: Tensor) -> Tensor:
    """uint8 images as float32 in [0, 1]; the paper's evaluation transform does nothing else."""
    return images.float().div_(255.0)


@torch.no_grad()
def extract_features(encoder: nn.Module, images: Tensor, *, batch_size: int = 512) -> Tensor:
    """Frozen features h of uint8 images, encoder in evaluation mode.

    Args:
        encoder: the trained encoder; its training flag is restored afterwards.
        images: uint8, shape ``(n, C, H, W)``.
        batch_size: images per forward pass; bounds memory, not the result.

    Returns:
        Features on the CPU, shape ``(n, feature_dim)``, float32.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    try:
        parts = [
            encoder(to_unit_range(part.to(device))).float().cpu()
            for part in images.split(batch_size)
        ]
    finally:
        encoder.train(was_training)
    return torch.cat(parts)
