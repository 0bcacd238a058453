"""Batches of a frozen sentence encoder's embeddings, two dropout passes each, as in training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from ..diagnostics.choice_bank import ChoiceBank
from ..losses import TailEvidence, TailSettings, weince_loss
from ..losses.arguments import check_pairs
from .steps import dropout_seed, replayed
from .tokens import TokenisedCorpus


@dataclass(frozen=True)
class DropoutBank:
    """Cosines between the first passes (anchors) and the second ones (candidates) of batches.

    Attributes:
        scores: shape ``(batches, N, N)``, float64; the diagonal holds the positives.
        views: the embeddings, shape ``(batches, 2, N, d)``, float32.
    """

    scores: Tensor
    views: Tensor

    def negatives(self) -> np.ndarray:
        """Cosines of all anchors with all candidates but their own, shape ``(pairs,)``."""
        off = ~torch.eye(self.scores.shape[1], dtype=torch.bool)
        return self.scores[:, off].flatten().numpy()

    def choices(self) -> ChoiceBank:
        """Each anchor's candidates, its positive as the winner."""
        batches, size, _ = self.scores.shape
        off = ~torch.eye(size, dtype=torch.bool)
        losers = self.scores[:, off].reshape(batches, size, size - 1)
        winners = self.scores.diagonal(dim1=1, dim2=2)[..., None]
        return ChoiceBank(torch.cat([winners, losers], dim=-1).numpy())

    def evidence(self, settings: TailSettings) -> TailEvidence:
        """What the loss reads from the tails of these batches, all anchors after each other."""
        parts = []
        for first, second in self.views:
            _, found = weince_loss(
                first,
                second,
                settings=settings,
                candidates="bipartite",
                symmetric=False,
                validate=False,
                return_evidence=True,
            )
            parts.append(found)
        return TailEvidence(
            rho=torch.cat([p.rho for p in parts]),
            beta=torch.cat([p.beta for p in parts]),
            delta_aic=torch.cat([p.delta_aic for p in parts]),
            lam=torch.cat([p.lam for p in parts]),
            rho_0=torch.stack([p.rho_0 for p in parts]),
        )


@torch.no_grad()
def dropout_bank(
    model: nn.Module,
    corpus: TokenisedCorpus,
    *,
    batches: int = 32,
    batch_size: int = 256,
    seed: int = 0,
) -> DropoutBank:
    """Embed batches of sentences as the loss would see them, with frozen weights.

    Args:
        model: maps ids and mask to embeddings. Dropout is on: it makes the two views.
        corpus: drawn from without replacement, within and between batches.
        batches: 32 in the paper's link selection.
        batch_size: sentences per batch N.
        seed: of draw and dropout.

    Raises:
        ValueError: if there are fewer sentences than the batches need, or embeddings are zero or
            not finite.
    """
    if batches < 1 or len(corpus) < batches * batch_size:
        raise ValueError(
            f"{len(corpus)} sentences make no {batches} batches of {batch_size}; lower batches"
        )
    drawn = np.random.default_rng(seed).permutation(len(corpus))[: batches * batch_size]
    device = next(model.parameters()).device
    was_training = model.training
    model.train()
    views = []
    try:
        for number, rows in enumerate(drawn.reshape(batches, batch_size)):
            ids, mask = (part.to(device) for part in corpus.batch(rows))
            pair = []
            for view in (0, 1):
                with replayed(dropout_seed(seed, number, view, 0), device):
                    pair.append(model(ids, mask).float().cpu())
            check_pairs(pair[0], pair[1])
            views.append(torch.stack(pair))
    finally:
        model.train(was_training)
    stacked = torch.stack(views)
    unit = torch.nn.functional.normalize(stacked.double(), dim=-1)
    scores = (unit[:, 0] @ unit[:, 1].transpose(1, 2)).clamp(-1.0, 1.0)
    return DropoutBank(scores, stacked)
