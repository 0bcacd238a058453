"""Score banks of any size: the highest cosines of all pairs, and every anchor's own tail.

With n embeddings there are n (n - 1) / 2 pairs: too many to keep, not too many to look at. Products
are taken tile by tile in float32; of a tile only the pairs above the threshold, and those that may
belong to an anchor's tail, are kept. Cosines near the cap are taken again in float64, as half the
squared distance of the unit vectors, since a float32 cosine knows 1 - s only to about 3e-7.

With more rows than can be paired, some are drawn as anchors and paired with all rows. Blocks of
anchors can be kept on disk as they are finished, so that a run that was cut goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import files
from ..checks import check_at_least, check_fraction
from ..errors import InputError, one_line
from .embeddings import check_pair_rows, check_rows, code_labels

#: Thresholds that are looked at, as quantiles of the cosines.
LEVELS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
#: Shortfalls below this are taken again in float64; a float32 one is right to 3e-5 of itself above.
NEAR_CAP = 0.01
#: Anchors and columns of a tile; 32 MB of products.
_ROWS, _COLUMNS = 2048, 4096
#: Rows whose cosines with all anchors give the first guess of each anchor's tail.
_SAMPLE = 2048
#: Pairs held for the tails before they are merged; about 40 bytes each while that is done.
_HELD = 3_000_000
#: Rows digested in one go.
_CHUNK = 65_536


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
        if self.quantile is not None:
            check_fraction("quantile", self.quantile)
        for name in ("tail", "max_pairs", "max_exceedances"):
            check_at_least(name, getattr(self, name), 1)


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
        store: folder for finished blocks of anchors. A run that was cut goes on from there, and a
            finished one is put together from them.
        progress: show a bar, on a terminal only (needs tqdm).

    Returns:
        A :class:`StreamedBank`.

    Raises:
        ValueError: as the checks of :mod:`weince_lib.diagnostics.embeddings`, and for a store made
            from other embeddings or settings.
    """
    settings = settings or BankSettings()
    z = check_rows(embeddings)
    pair_rows = None if pairs is None else check_pair_rows(pairs, len(z))
    codes = None if labels is None else code_labels(labels, len(z))[0]
    blocks = None
    if store is not None:
        key: dict[str, Any] = {"embeddings": _digest(z), **asdict(settings)}
        for name, given in (("pairs", pairs), ("labels", labels)):
            key[name] = None if given is None else _digest(np.asarray(given).astype(str))
        blocks = _BlockStore(Path(store), key)
    return _PairStream(z, pair_rows, codes, settings).run(blocks, progress)


class _PairStream:
    """One pass over the pairs.

    Positions are a random order of the rows, the anchors first. A pair of positions i < j is looked
    at once, in the block of i, and serves the tails of both if j is an anchor too.

    Args:
        z: checked embeddings, shape ``(n, d)``.
        pairs: checked positive pairs, shape ``(p, 2)``.
        labels: codes from 0, shape ``(n,)``.
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
        #: Without labels every row is a class of its own.
        self._labels = (np.arange(n) if labels is None else labels)[self._order]
        self._all_negative = labels is None and pairs is None
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
        every = np.bincount(self._labels)
        first = np.bincount(self._labels[:a], minlength=len(every))
        alike = int((first * (first - 1) // 2 + first * (every - first)).sum())
        i, j = self._positive // n, self._positive % n
        return total - alike - int((self._labels[i] != self._labels[j]).sum())

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
            for s in _spans(span.stop - span.start, 8192)
        ]
        return torch.cat(parts)

    def _float(self, span: slice) -> torch.Tensor:
        return self._rows(span) if self._unit is None else self._unit[span]

    def _negative(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of positions, i < j, are negatives; boolean."""
        kept: np.ndarray = self._labels[i] != self._labels[j]
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
        for span in _spans(a, max(1, _ROWS * _SAMPLE // size)):
            cosine = self._float(span) @ some.T
            i = np.arange(span.start, span.stop)[:, None]
            masked = cosine.numpy()
            drawn = rng.integers(len(columns), size=(span.stop - span.start, min(keep, n - 1)))
            masked[i == columns] = -2.0
            if not self._all_negative:
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

    def run(self, blocks: _BlockStore | None, progress: bool) -> StreamedBank:
        """Go through all blocks of anchors, or those that ``blocks`` does not hold yet."""
        n, a = len(self._z), self._count
        bounds, threshold, level, sample = self._first_look()
        tails = _AnchorTails(a, self._settings.tail)
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        for block, span in enumerate(_bar(list(_spans(a, _ROWS)), progress)):
            found = None if blocks is None else blocks.load(block)
            if found is None:
                found = self._block(span, bounds, threshold)
                if blocks is not None:
                    blocks.save(block, *found)
            members, shortfalls = found
            i, j = members[:, 0], members[:, 1]
            tails.add(i, shortfalls)
            both = j < a
            tails.add(j[both], shortfalls[both])
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

    def _block(
        self, span: slice, bounds: np.ndarray, threshold: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Members and shortfalls of the pairs of a block that are worth keeping.

        They are pairs of an anchor in ``span`` with any later position.
        """
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
            good = (i < j) & self._negative(i, j)
            i, j, s = i[good], j[good], cosine.numpy().ravel()[at[good]]
            delta = 1.0 - s
            near = np.flatnonzero(delta < NEAR_CAP)
            for part in _spans(near.size, 16_384):
                here = near[part]
                gap = self._exact(i[here]) - self._exact(j[here])
                delta[here] = 0.5 * np.einsum("ij,ij->i", gap, gap)
            members.append(np.stack([i, j], axis=1).astype(np.int32))
            shortfalls.append(delta.astype(np.float32))
        return np.concatenate(members), np.concatenate(shortfalls)


def _later(span: slice, n: int) -> Iterator[slice]:
    for columns in _spans(n - span.start, _COLUMNS):
        yield slice(span.start + columns.start, span.start + columns.stop)


def _bar(items: list[slice], progress: bool) -> Iterable[slice]:
    if progress:
        try:
            from tqdm import tqdm
        except ImportError:
            return items
        return tqdm(items, desc="pairs", unit="block", disable=None)
    return items


class _AnchorTails:
    """The smallest shortfalls of every anchor, from a stream of pairs in any order.

    Args:
        anchors: number of anchors.
        size: shortfalls kept per anchor; infinite where there are fewer.
    """

    def __init__(self, anchors: int, size: int) -> None:
        self.shortfalls = np.full((anchors, size), np.inf, dtype=np.float32)
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = 0

    def add(self, anchor: np.ndarray, shortfall: np.ndarray) -> None:
        """Take in shortfalls, not negative, float32; each pair once per anchor."""
        useful = shortfall < self.shortfalls[anchor, -1]
        self._held.append((anchor[useful], shortfall[useful]))
        self._count += int(useful.sum())
        if self._count > _HELD:
            self.merge()

    def merge(self) -> None:
        """Bring the kept tails up to date, ascending."""
        if not self._held:
            return
        anchor, shortfall = (np.concatenate(part) for part in zip(*self._held, strict=True))
        self._held, self._count = [], 0
        size = self.shortfalls.shape[1]
        touched = np.unique(anchor)
        anchor = np.concatenate([anchor, np.repeat(touched, size)])
        shortfall = np.concatenate([shortfall, self.shortfalls[touched].ravel()])
        # The bits of floats that are not negative order as the floats do.
        key = (anchor.astype(np.int64) << 32) | shortfall.astype(np.float32).view(np.uint32)
        order = np.argsort(key)
        anchor = anchor[order]
        first = np.searchsorted(anchor, touched)
        rank = np.arange(anchor.size) - np.repeat(first, np.diff(np.append(first, anchor.size)))
        kept = rank < size
        self.shortfalls[anchor[kept], rank[kept]] = shortfall[order][kept]


class _BlockStore:
    """A folder with finished blocks, and a note of what they were made from.

    A damaged file is one that is not there: it is made anew, with a warning that names it.

    Args:
        folder: made if it is missing.
        key: what the blocks depend on: settings and hashes, plain JSON values.

    Raises:
        InputError: if the folder holds blocks made from something else, or its note is damaged.
    """

    def __init__(self, folder: Path, key: dict[str, Any]) -> None:
        self._folder = folder
        note = folder / "bank.json"
        if note.is_file():
            try:
                held = dict(json.loads(note.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{note} is damaged, so that nobody knows what the bank beside it was made "
                    f"from ({one_line(error)}); delete the folder {folder}"
                ) from error
            changed = sorted(k for k in key.keys() | held.keys() if key.get(k) != held.get(k))
            if changed:
                raise InputError(
                    f"{folder} holds a bank made with other {', '.join(changed)}; choose another "
                    "folder, or delete this one"
                )
        else:
            files.write_text(note, json.dumps(key, indent=1, sort_keys=True) + "\n")

    def load(self, block: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Members and shortfalls of a block, or ``None``."""
        path = self._path(block)
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as held:
                return held["members"], held["shortfalls"]
        except Exception as error:  # a damaged archive raises errors of many kinds
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk's
            warnings.warn(f"{path} is damaged ({one_line(error)}); it is made anew", stacklevel=3)
            return None

    def save(self, block: int, members: np.ndarray, shortfalls: np.ndarray) -> None:
        """Write a block, whole or not at all."""
        with files.replacing(self._path(block)) as aside, aside.open("wb") as file:
            np.savez(file, members=members, shortfalls=shortfalls)

    def _path(self, block: int) -> Path:
        return self._folder / "blocks" / f"{block:05d}.npz"


def _digest(array: np.ndarray) -> str:
    """A hash of an array's shape, dtype and content."""
    state = hashlib.blake2b(f"{array.shape} {array.dtype}".encode(), digest_size=16)
    for start in range(0, len(array), _CHUNK):
        state.update(np.ascontiguousarray(array[start : start + _CHUNK]).data)
    return state.hexdigest()


def _spans(size: int, step: int) -> Iterator[slice]:
    """``range(size)`` in slices of ``step``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))
