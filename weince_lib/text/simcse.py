"""SimCSE: a sentence encoder with a head used in training only (Gao et al. 2021, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, cast

import torch
from torch import Tensor, nn

from .tokens import SentenceTokenizer

Head = Literal["none", "mlp"]


class SimCSE(nn.Module):
    """Encoder ``h = f(x)`` and training head ``z = g(h)``; the loss sees ``z``, evaluation ``h``.

    Args:
        encoder: maps token ids and mask to features; has an integer ``feature_dim``.
        head: ``"mlp"``, one linear layer and tanh as in SimCSE's unsupervised recipe, which drops
            it at evaluation; or ``"none"``.
    """

    def __init__(self, encoder: nn.Module, head: Head = "none") -> None:
        super().__init__()
        if head not in ("none", "mlp"):
            raise ValueError(f"unknown head {head!r}; known: none, mlp")
        size = cast(int, encoder.feature_dim)
        self.encoder = encoder
        self.head: nn.Module = nn.Identity()
        if head == "mlp":
            self.head = nn.Sequential(nn.Linear(size, size), nn.Tanh())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed ``(n, length)`` token ids as the loss sees them, shape ``(n, d)``."""
        z: Tensor = self.head(self.encoder(input_ids, attention_mask))
        return z


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Make a module whose initial weights depend on the seed alone; global generator untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


@torch.no_grad()
def encode(
    encoder: nn.Module,
    tokenizer: SentenceTokenizer,
    sentences: Sequence[str],
    *,
    batch_size: int = 256,
) -> Tensor:
    """Features h of sentences, without dropout and head.

    Args:
        encoder: of a :class:`SimCSE`; its training flag is restored afterwards.
        tokenizer: the one it was trained with.
        sentences: any number.
        batch_size: sentences per forward pass; bounds memory, not the result.

    Returns:
        Shape ``(n, d)``, float32, on the CPU.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    parts = []
    try:
        for start in range(0, len(sentences), batch_size):
            ids, mask = tokenizer(sentences[start : start + batch_size])
            parts.append(encoder(ids.to(device), mask.to(device)).float().cpu())
    finally:
        encoder.train(was_training)
    return torch.cat(parts)
