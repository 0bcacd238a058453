"""Score banks: the cosines of a frozen encoder on batches of two augmented views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..checks import check_at_least
from ..losses.arguments import check_pairs
from ..losses.similarity import two_view_scores

Augment = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class ScoreBank:
    """Cosines of several batches of ``N`` pairs from a frozen model.

    Attributes:
        scores: shape ``(batches, 2N, 2N)``, float32; the diagonal holds self-similarities.
        positives: shape ``(2N,)``, column of each anchor's positive, the same in every batch.
    """

    scores: Tensor
    positives: Tensor

    def negatives(self) -> Tensor:
        """Cosines of all negative pairs, every unordered pair once, shape ``(pairs,)``."""
        size = self.scores.shape[1]
        upper = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
        upper[torch.arange(size), self.positives] = False
        return self.scores[:, upper].flatten()


@torch.no_grad()
def two_view_bank(
    model: nn.Module,
    images: Tensor,
    augment: Augment,
    *,
    batches: int = 32,
    batch_size: int = 256,
    seed: int = 0,
    disjoint: bool = False,
) -> ScoreBank:
    """Score ``batches`` batches of two augmented views with a frozen model.

    Args:
        model: maps images to the embeddings ``z`` the loss sees; used in evaluation mode.
        images: uint8, shape ``(n, C, H, W)``; drawn without replacement within a batch.
        augment: maps a batch and a generator to two views; the one used in training.
        batches: 32 in the paper (section 2.3.2).
        batch_size: pairs per batch N, 256 in the paper.
        seed: of the draws and the augmentation.
        disjoint: no image is in two batches. Intervals over batches, and batches that are held
            out, take batches for independent; with few images they share many otherwise.

    Raises:
        ValueError: if there are fewer images than one batch, or than all disjoint batches together,
            or the model gives embeddings that
            are zero or not finite (the row is named).
    """
    check_at_least("batches", batches, 1)
    if len(images) < batch_size:
        raise ValueError(f"{len(images)} images make no batch of {batch_size}; lower batch_size")
    if disjoint and len(images) < batches * batch_size:
        raise ValueError(
            f"{len(images)} images make no {batches} disjoint batches of {batch_size}; lower "
            "batches or batch_size"
        )
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator) if disjoint else None
    was_training = model.training
    model.eval()
    parts = []
    try:
        for batch in range(batches):
            if order is None:
                drawn = torch.randperm(len(images), generator=generator)[:batch_size]
            else:
                drawn = order[batch * batch_size : (batch + 1) * batch_size]
            z0, z1 = (model(view) for view in augment(images[drawn], generator))
            check_pairs(z0, z1)
            scores, positives = two_view_scores(z0, z1)
            parts.append(scores)
    finally:
        model.train(was_training)
    return ScoreBank(torch.stack(parts), positives)
