"""The k smallest shortfalls of every anchor, from a stream of pairs in any order."""

from __future__ import annotations

import numpy as np

#: Pairs held before they are merged; about 40 bytes each while that is done.
_HELD = 3_000_000


class AnchorTails:
    """Keeps each anchor's smallest shortfalls and the rows they belong to.

    Args:
        anchors: number of anchors.
        size: shortfalls kept per anchor.
    """

    def __init__(self, anchors: int, size: int) -> None:
        self.shortfalls = np.full((anchors, size), np.inf, dtype=np.float32)
        self.others = np.full((anchors, size), -1, dtype=np.int32)
        self._held: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._count = 0

    def add(self, anchor: np.ndarray, other: np.ndarray, shortfall: np.ndarray) -> None:
        """Take in pairs; each pair once per anchor.

        Args:
            anchor: whose tail, shape ``(m,)``.
            other: the negative, same shape.
            shortfall: 1 - cosine, not negative, float32, same shape.
        """
        useful = shortfall < self.shortfalls[anchor, -1]
        self._held.append((anchor[useful], other[useful], shortfall[useful]))
        self._count += int(useful.sum())
        if self._count > _HELD:
            self.merge()

    def merge(self) -> None:
        """Bring the kept tails up to date, ascending."""
        if not self._held:
            return
        anchor, other, shortfall = (np.concatenate(part) for part in zip(*self._held, strict=True))
        self._held, self._count = [], 0
        size = self.shortfalls.shape[1]
        touched = np.unique(anchor)
        anchor = np.concatenate([anchor, np.repeat(touched, size)])
        other = np.concatenate([other, self.others[touched].ravel()]).astype(np.int32)
        shortfall = np.concatenate([shortfall, self.shortfalls[touched].ravel()])
        # The bits of floats that are not negative order as the floats do.
        key = (anchor.astype(np.int64) << 32) | shortfall.astype(np.float32).view(np.uint32)
        order = np.argsort(key)
        anchor = anchor[order]
        first = np.searchsorted(anchor, touched)
        rank = np.arange(anchor.size) - np.repeat(first, np.diff(np.append(first, anchor.size)))
        kept = rank < size
        where = (anchor[kept], rank[kept])
        self.shortfalls[where] = shortfall[order][kept]
        self.others[where] = other[order][kept]
