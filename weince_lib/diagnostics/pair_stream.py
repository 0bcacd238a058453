"""One pass over all pairs of a set of embeddings, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch

from .anchor_tails import AnchorTails
from .bank_store import BlockStore, spans
from .bank_types import LEVELS, BankSettings, StreamedBank

#: Shortfalls below this are taken again in float64; a float32 one is right to 3e-5 of itself above.
NEAR_CAP = 0.01
#: Anchors and columns of a tile; 32 MB of products.
_ROWS, _COLUMNS = 2048, 4096
#: Rows whose cosines with all anchors give the first guess of each anchor's tail.
_SAMPLE = 2048


class PairStream:
    """One pass over the pairs.

    Positions are a random order of the rows, the anchors first. A pair of positions i < j is looked
    at once, in the block of i, and serves the tails of both if j is an anchor too.

    Args:
        z: checked embeddings, shape ``(n, d)``.
        pairs: checked positive pairs, shape ``(p, 2)``.
        labels: codes, shape ``(n,)``.
        settings: see :class:`BankSettings`.

    Raises:
        ValueError: if there is no negative pair.
    """

    def __init__(
        self,
        z: np.ndarray,
        pairs: np.ndarray | None,
        labels: np.ndarray | None,
        settings: BankSettings,
    ) -> None:
        self._z, self._settings = z, settings
        n = len(z)
        count = n if n * (n - 1) // 2 <= settings.max_pairs else max(2, settings.max_pairs // n)
        self._order = np.random.default_rng(settings.seed).permutation(n)
        self._count = count
        position = np.empty(n, dtype=np.int64)
        position[self._order] = np.arange(n)
        self._labels = None if labels is None else labels[self._order]
        self._positive = np.empty(0, dtype=np.int64)
        if pairs is not None:
            ends = np.sort(position[pairs], axis=1)
            ends = ends[ends[:, 0] < count]
            self._positive = np.unique(ends[:, 0] * n + ends[:, 1])
        self._pairs = self._count_pairs()
        if self._pairs < 1:
            raise ValueError("every pair is a positive pair: there are no negatives to look at")
        # Small sets are held once, in float32 and in order; of larger ones a tile at a time.
        self._unit = self._rows(slice(0, n)) if n * z.shape[1] <= 2**28 else None

    def _count_pairs(self) -> int:
        n, a = len(self._z), self._count
        total = a * (a - 1) // 2 + a * (n - a)
        if self._labels is not None:
            first = np.bincount(self._labels[:a], minlength=int(self._labels.max()) + 1)
            every = np.bincount(self._labels)
            total -= int((first * (first - 1) // 2 + first * (every - first)).sum())
        keys = self._positive
        if self._labels is not None and keys.size:
            keys = keys[self._labels[keys // n] != self._labels[keys % n]]
        return total - int(keys.size)

    def _exact(self, positions: np.ndarray | slice) -> np.ndarray:
        """Unit vectors in float64."""
        rows = self._order[positions]
        sort = np.argsort(rows)  # a memory map is read in its own order
        part = np.empty((len(rows), self._z.shape[1]))
        part[sort] = self._z[rows[sort]]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        return part

    def _rows(self, span: slice) -> torch.Tensor:
        parts = [
            torch.from_numpy(
                self._exact(slice(span.start + s.start, span.start + s.stop)).astype(np.float32)
            )
            for s in spans(span.stop - span.start, 8192)
        ]
        return torch.cat(parts)

    def _float(self, span: slice) -> torch.Tensor:
        return self._rows(span) if self._unit is None else self._unit[span]

    def _negative(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of positions, i < j, are negatives; boolean."""
        kept = np.ones(i.shape, dtype=bool)
        if self._labels is not None:
            kept &= self._labels[i] != self._labels[j]
        if self._positive.size:
            key = i * len(self._z) + j
            at = np.minimum(np.searchsorted(self._positive, key), self._positive.size - 1)
            kept &= self._positive[at] != key
        return kept

    def _first_look(self) -> tuple[np.ndarray, float, float, np.ndarray]:
        """Lower bounds of every anchor's tail, the base threshold, its level and some cosines."""
        n, a, k = len(self._z), self._count, self._settings.tail
        # Few anchors with long rows need sharper bounds, or most of a row seems worth keeping.
        size = _SAMPLE if a == n else min(8 * _SAMPLE, max(_SAMPLE, _SAMPLE * n // a))
        some = self._float(slice(0, min(n, size)))
        columns = np.arange(len(some))
        bounds = np.full(a, -2.0, dtype=np.float32)
        values = []
        keep = max(1, round(1_000_000 / a))
        rng = np.random.default_rng([self._settings.seed, 1])
        for span in spans(a, max(1, _ROWS * _SAMPLE // size)):
            cosine = self._float(span) @ some.T
            i = np.arange(span.start, span.stop)[:, None]
            masked = cosine.numpy()
            drawn = rng.integers(len(columns), size=(span.stop - span.start, min(keep, n - 1)))
            masked[i == columns] = -2.0
            if self._labels is not None or self._positive.size:
                low, high = np.minimum(i, columns), np.maximum(i, columns)
                bad = ~self._negative(low.ravel(), high.ravel()).reshape(masked.shape)
                masked[bad] = -2.0
            some_values = np.take_along_axis(masked, drawn, axis=1)
            values.append(some_values[some_values > -2.0])
            if len(columns) >= k:
                bounds[span] = torch.from_numpy(masked).topk(k, dim=1).values[:, -1].numpy()
        sample = np.concatenate(values)
        if not sample.size:
            raise ValueError("too few negatives to look at: almost every pair is a positive pair")
        level = self._settings.quantile
        if level is None:
            fits = [q for q in LEVELS if self._pairs * (1.0 - q) <= self._settings.max_exceedances]
            level = fits[0] if fits else 1.0 - self._settings.max_exceedances / self._pairs
        return bounds, float(np.quantile(sample, level)), level, sample

    def run(self, blocks: BlockStore | None, progress: bool) -> StreamedBank:
        """Go through all blocks of anchors, or those that ``blocks`` does not hold yet."""
        n, a = len(self._z), self._count
        bounds, threshold, level, sample = self._first_look()
        tails = AnchorTails(a, self._settings.tail)
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for block, span in enumerate(_bar(list(spans(a, _ROWS)), progress)):
            found = None if blocks is None else blocks.load(block)
            if found is None:
                found = self._block(span, bounds, threshold)
                if blocks is not None:
                    blocks.save(block, found)
            members, shortfalls = found["members"], found["shortfalls"]
            i, j = members[:, 0], members[:, 1]
            tails.add(i, j, shortfalls)
            both = j < a
            tails.add(j[both], i[both], shortfalls[both])
            above = shortfalls < 1.0 - threshold
            kept.append((members[above], shortfalls[above]))
            # The tails so far are sharper bounds for the blocks to come.
            np.maximum(bounds, 1.0 - tails.shortfalls[:, -1], out=bounds)
        tails.merge()
        members = np.concatenate([m for m, _ in kept])
        shortfalls = np.concatenate([s for _, s in kept])
        share = len(members) / self._pairs
        error = 0.0
        if a < n:
            counts = np.bincount(members[:, 0], minlength=a).astype(np.float64)
            counts += np.bincount(members[members[:, 1] < a, 1], minlength=a)
            error = share * float(counts.std(ddof=1)) / max(float(counts.mean()), 1e-300)
            error *= math.sqrt((1.0 - a / n) / a)
        return StreamedBank(
            rows=n,
            anchors=self._order[:a],
            pairs=self._pairs,
            level=level,
            threshold=threshold,
            shortfalls=shortfalls,
            members=self._order.astype(np.int32)[members],
            share=share,
            share_error=error,
            tails=tails.shortfalls,
            sample=sample,
        )

    def _block(self, span: slice, bounds: np.ndarray, threshold: float) -> dict[str, np.ndarray]:
        """Pairs of the anchors in ``span`` with all later positions that are worth keeping."""
        n, a = len(self._z), self._count
        rows = self._float(span)
        own = torch.from_numpy(np.minimum(bounds[span], threshold))[:, None]
        # Later rows that are no anchors have no tail, so nothing is too high for them.
        theirs = np.full(n, 3.0, dtype=np.float32)
        theirs[:a] = bounds
        product = torch.empty(len(rows) * _COLUMNS)
        marks = torch.empty((2, len(rows) * _COLUMNS), dtype=torch.bool)
        members, shortfalls = [], []
        for columns in _later(span, n):
            width = columns.stop - columns.start
            cosine = product[: len(rows) * width].view(len(rows), width)
            mark, other = (m[: len(rows) * width].view(len(rows), width) for m in marks)
            torch.mm(rows, self._float(columns).T, out=cosine)
            torch.ge(cosine, own, out=mark)
            if columns.start < a:
                torch.ge(cosine, torch.from_numpy(theirs[columns]), out=other)
                mark |= other
            at = np.flatnonzero(mark.numpy().ravel())
            i, j = at // width + span.start, at % width + columns.start
            good = i < j
            good &= self._negative(i, j)
            i, j, s = i[good], j[good], cosine.numpy().ravel()[at[good]]
            delta = 1.0 - s
            near = np.flatnonzero(delta < NEAR_CAP)
            for part in spans(near.size, 16_384):
                here = near[part]
                gap = self._exact(i[here]) - self._exact(j[here])
                delta[here] = 0.5 * np.einsum("ij,ij->i", gap, gap)
            members.append(np.stack([i, j], axis=1).astype(np.int32))
            shortfalls.append(delta.astype(np.float32))
        return {"members": np.concatenate(members), "shortfalls": np.concatenate(shortfalls)}


def _later(span: slice, n: int) -> Iterator[slice]:
    for columns in spans(n - span.start, _COLUMNS):
        yield slice(span.start + columns.start, span.start + columns.stop)


def _bar(items: list[slice], progress: bool) -> Iterable[slice]:
    if progress:
        try:
            from tqdm import tqdm
        except ImportError:
            return items
        return tqdm(items, desc="pairs", unit="block", disable=None)
    return items
