"""What a streamed bank is asked for, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BankSettings:
    """What is looked at and what is kept.

    Attributes:
        quantile: pairs above this quantile of the cosines are kept; ``None`` takes the lowest of
            ``LEVELS`` that leaves no more than ``max_exceedances``.
        tail: smallest shortfalls kept per anchor; 33 are the 32 tail points and the threshold of
            the calibrated preset.
        max_pairs: with more pairs than this only some rows, drawn at random, are anchors. The
            default takes all pairs of 63,000 rows.
        max_exceedances: pairs kept above the threshold; 12 bytes each.
        seed: of the draws.
    """

    quantile: float | None = None
    tail: int = 33
    max_pairs: int = 2_000_000_000
    max_exceedances: int = 15_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.quantile is not None and not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile must lie in (0, 1), got {self.quantile}")
        for name in ("tail", "max_pairs", "max_exceedances"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


#: Thresholds that are looked at, as quantiles of the cosines.
LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)


@dataclass(frozen=True)
class StreamedBank:
    """The upper tail of a set's cosines.

    Attributes:
        rows: number of embeddings n.
        anchors: rows that were paired with all rows, shape ``(A,)``; all of them if A = n.
        pairs: negative pairs looked at, each unordered pair once.
        level: quantile of the cosines that ``threshold`` was meant to be.
        threshold: base threshold u of the cosines, from a sample.
        shortfalls: 1 - s of all pairs with s > u, shape ``(m,)``, float32 (right to 1e-7 of itself
            near the cap).
        members: the rows of those pairs, shape ``(m, 2)``, int32.
        share: m / pairs, the share of pairs above u; near 1 - level.
        share_error: its standard error from drawing anchors, 0 if all rows are anchors.
        tails: each anchor's smallest shortfalls, ascending, shape ``(A, k)``, float32; infinite
            where an anchor has fewer negatives.
        sample: cosines of about a million random pairs, float32, for a histogram.
    """

    rows: int
    anchors: np.ndarray
    pairs: int
    level: float
    threshold: float
    shortfalls: np.ndarray
    members: np.ndarray
    share: float
    share_error: float
    tails: np.ndarray
    sample: np.ndarray

    @property
    def rho(self) -> np.ndarray:
        """Shortfall of each anchor's hardest negative, shape ``(A,)``."""
        return np.asarray(self.tails[:, 0])

    @property
    def all_anchors(self) -> bool:
        """Whether every row is an anchor, so that nothing was drawn."""
        return len(self.anchors) == self.rows
