"""SimCSE's recipe: how long, how fast and in what batches to train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SimCSESettings:
    """How to train; the defaults are SimCSE's for BERT-base (Gao et al. 2021, appendix A).

    Attributes:
        epochs: passes over the corpus.
        batch_size: sentences per step over all processes, N. The last incomplete batch is dropped.
        chunk_size: sentences encoded at a time; 0 for the whole batch. Smaller chunks need less
            memory and have the same candidates, but draw other dropout.
        learning_rate: peak of AdamW's.
        weight_decay: of AdamW, decoupled.
        warm_up: share of the steps in which the rate rises from 0; then it falls linearly to 0.
        clip_norm: largest norm of the gradient, 1 as in the recipe's trainer; 0 does not clip.
        evaluate_every: steps between two evaluations; the last step is always evaluated.
        seed: of order and dropout.
        precision: ``"float32"``, or ``"bfloat16"`` for autocast in the encoder.
    """

    epochs: int = 1
    batch_size: int = 64
    chunk_size: int = 0
    learning_rate: float = 3e-5
    weight_decay: float = 0.0
    warm_up: float = 0.0
    clip_norm: float = 1.0
    evaluate_every: int = 125
    seed: int = 7
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"unknown precision {self.precision!r}; known: float32, bfloat16")
        if not 0.0 <= self.warm_up < 1.0:
            raise ValueError(f"warm_up is a share of the steps in [0, 1), got {self.warm_up}")
        if self.evaluate_every < 1:
            raise ValueError(f"evaluate_every must be 1 or more, got {self.evaluate_every}")

    @property
    def chunk(self) -> int:
        """Sentences encoded at a time."""
        return self.chunk_size or self.batch_size

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, from 0: linear warm-up, then linear decay to 0."""
        rising = round(self.warm_up * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        return self.learning_rate * (steps - step) / max(1, steps - rising)
