"""Score banks of any size: the highest cosines of all pairs, and every anchor's own tail.

With n embeddings there are n (n - 1) / 2 pairs: too many to keep, not too many to look at. Products
are taken tile by tile in float32; of a tile only the pairs above the threshold, and those that may
belong to an anchor's tail, are kept. Cosines near the cap are taken again in float64, as half the
squared distance of the unit vectors, since a float32 cosine knows 1 - s only to about 3e-7.

With more rows than can be paired, some are drawn as anchors and paired with all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .anchor_tails import AnchorTails
from .bank_store import BlockStore, digest, spans
from .embeddings import check_labels, check_pair_rows, check_rows

#: Shortfalls below this are taken again in float64; a float32 one is right to 3e-5 of itself above.
NEAR_CAP = 0.01
#: Anchors and columns of a tile; 32 MB of products.
_ROWS, _COLUMNS = 2048, 4096
#: Rows whose cosines with all anchors give the first guess of each anchor's tail.
_SAMPLE = 2048


@dataclass(frozen=True)
class BankSettings:
    """What is looked at and what is kept.

    Attributes:
        quantile: pairs above this quantile of the cosines are kept; ``None`` takes the highest of
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
    max_exceedances: int = 20_000_000
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


def streamed_bank(
    embeddings: Any,
    *,
    pairs: Any = None,
    labels: Any = None,
    settings: BankSettings | None = None,
    store: str | Path | None = None,
    progress: bool = False,
) -> StreamedBank:
    """Stream over all pairs of a set of embeddings and keep the upper tail of their cosines.

    Args:
        embeddings: shape ``(n, d)``; an array, a memory map or a tensor. Rows are normalised.
        pairs: positive pairs, row numbers, shape ``(p, 2)``; they are no negatives.
        labels: one a row; rows with the same label are no negatives of each other.
        settings: see :class:`BankSettings`.
        store: folder for finished blocks and the finished bank. A run that was cut goes on from
            there, and a finished one is only read.
        progress: show a bar, on a terminal only (needs tqdm).

    Returns:
        A :class:`StreamedBank`.

    Raises:
        ValueError: as the checks of :mod:`weince_lib.diagnostics.embeddings`, and for a store made
            from other embeddings or settings.
    """
    settings = settings or BankSettings()
    z = check_rows(embeddings)
    stream = _Stream(
        z,
        None if pairs is None else check_pair_rows(pairs, len(z)),
        None if labels is None else check_labels(labels, len(z)),
        settings,
    )
    blocks = None
    if store is not None:
        key: dict[str, Any] = {"embeddings": digest(z), **asdict(settings)}
        for name, given in (("pairs", pairs), ("labels", labels)):
            key[name] = None if given is None else digest(np.asarray(given).astype(str))
        blocks = BlockStore(Path(store), key)
        held = blocks.load_bank()
        if held is not None:
            numbers = {n: held[n].item() for n in held if held[n].ndim == 0}
            return StreamedBank(**{**held, **numbers})
    bank = stream.run(blocks, progress)
    if blocks is not None:
        blocks.save_bank({k: np.asarray(v) for k, v in vars(bank).items()})
    return bank


class _Stream:
    """One pass. Positions: a random order of the rows, with the anchors first."""

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
        some = self._float(slice(0, min(n, _SAMPLE)))
        columns = np.arange(len(some))
        bounds = np.full(a, -2.0, dtype=np.float32)
        values = []
        keep = max(1, round(1_000_000 / a))
        rng = np.random.default_rng([self._settings.seed, 1])
        for span in spans(a, _ROWS):
            cosine = self._float(span) @ some.T
            i = np.arange(span.start, span.stop)[:, None]
            low, high = np.minimum(i, columns), np.maximum(i, columns)
            masked = cosine.numpy()
            drawn = rng.integers(len(columns), size=(span.stop - span.start, min(keep, n - 1)))
            masked[i == columns] = -2.0
            if self._labels is not None or self._positive.size:
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
