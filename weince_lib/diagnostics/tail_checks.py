"""Whether a tail can be trusted: repeated rows, pairs far above the rest, and the fit of the law.

A shape with an interval says something only if the exceedances follow the fitted law and the rows
are independent. Unlabelled views of the same items break both, and the shape alone does not show
it. Four checks come before a verdict:

- **Repeats.** Rows that coincide (1 - s at most :data:`DUPLICATE`) are one item: only the first of
  them is used (:func:`distinct_tail`). Kept, they would enter every pair several times and
  intervals over rows would be too short: 300 rows repeated 5 times covered 0.75 to 0.78 instead of
  0.95.
- **Pairs far above the rest** (:func:`pairs_far_above`). Sort x = -log(1 - s) downwards. In an
  exponential tail of x, which a power law towards cosine 1 is exactly and a tail far from the cap
  nearly, i times the gap below the i-th value, divided by the mean excess, is standard exponential
  (Renyi 1953). A gap counts if it is at least :data:`GAP` mean excesses wide and i times it at
  least :data:`FIRST_GAP`; the mean excess is that of the highest 1 % of the pairs below the gap.
  An exponential tail of independent pairs has such a gap with probability 0.0004.
- **Groups of near rows** (:func:`near_group`). Views that are too many, or too noisy, for a gap
  among all pairs still leave one around each row: with k views of each item the k - 1 nearest rows
  are near and the next one is not. With x of an anchor sorted downwards, r (x_r - x_(r+1)) has
  about the same mean for all r (Renyi again). So its median over anchors is compared with those of
  up to three ranks on either side, and counts if it is more than 1 + :data:`SPIKE` / sqrt(anchors)
  times their median. Groups of one size are found, groups of many sizes seldom. Where pairs or
  labels were given the groups are the views of *another* item: then the rows that were said to
  belong together count as one cluster, and the verdict stands.
- **The law** (:func:`law_test`). The generalised Pareto law is tested on exceedances that share no
  row, by Anderson and Darling's A^2 with fitted parameters (Choulakian and Stephens 2001,
  Technometrics 43, 478-484). Up to :data:`MOST_TESTED` such pairs are drawn, :data:`DRAWS` times,
  and the median A^2 is held against refitted samples of the fitted law. The draws overlap little,
  so the median varies less than one A^2 and the test refuses less often than its level. The cap on
  the pairs has a purpose too: at a finite threshold no law is exactly generalised Pareto, and
  a test on many thousand pairs would refuse every one of them.

**How often they are wrong.** Independent normal vectors in 2, 3, 5, 8, 16, 64 and 256 dimensions,
50 to 3,000 rows, 1,288 sets: no check failed once. Small encoders of digits (InfoNCE and WEINCE;
features and projections) and the digits' pixels, 60 to 1,797 rows, with and without labels, 270
sets: one failed, 60 labelled rows with a gap among their pairs.

**What they see.** Hidden views, items x views in d dimensions, the noise as a multiple of the
signal: 200 x 12 and 60 x 8 in 64 are undecided at every noise from 0.001 to 1 (mean cosine 0.5),
1,000 x 2 in 32 up to 0.7, 20 x 20 in 16 up to 0.5, 300 x 5 in 8 up to 0.3. **What they do not
see** is views that have become neighbours like all others: 60 x 8 in 5 dimensions from noise 0.3
on, or groups of many sizes so frequent that they fill the tail and follow the law there.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..evt import moment_fit
from .streamed_bank import StreamedBank

#: Pairs nearer than this are the same item: vectors within 1.4e-5 of each other, about what one
#: item's float32 embeddings from two batches differ by. More would cut off tails in few dimensions.
DUPLICATE = 1e-10
#: Pairs nearer than this are near-duplicates, to be looked at. A cosine above 0.999.
NEAR_DUPLICATE = 1e-3
_NAMED = 20
#: Least gap that sets pairs apart, in mean excesses of the pairs below it.
GAP = 5.0
#: Least product of that gap and the number of pairs above it: a single pair must be further away.
FIRST_GAP = 8.0
#: Far pairs in at most this share of the rows, or a single one, are left out, and the rest is
#: judged.
FEW_ROWS = 0.01
#: Level at which the law is refused.
LAW_LEVEL = 0.05
#: Exceedances without a common row that are tested, at most, and how often they are drawn.
MOST_TESTED, DRAWS = 500, 11
#: A rank stands out if its median spacing is 1 + SPIKE / sqrt(anchors) times that of its
#: neighbours. On independent rows 1 + 11 / sqrt(anchors) was the most seen.
SPIKE = 20.0
#: With fewer exceedances without a common row there is no test.
LEAST_TESTED = 10
_REPLICATIONS = 999
#: The sample's cosines are float32, which cannot tell shortfalls below this from 0.
_SAMPLE_RESOLUTION = 1e-6


@dataclass(frozen=True)
class DistinctTail:
    """The highest cosines of pairs of different items, each item once.

    Attributes:
        shortfalls: 1 - s, ascending, shape ``(m,)``, float32.
        members: rows of these pairs, shape ``(m, 2)``.
        pairs: number of negative pairs of different items, of which these are the highest.
        repeats: rows that repeat an earlier row and were left out.
    """

    shortfalls: np.ndarray
    members: np.ndarray
    pairs: int
    repeats: int


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of rows that all but coincide, counted among the negatives looked at.

    Attributes:
        identical: pairs with 1 - s at most :data:`DUPLICATE`; their rows count as one.
        near: pairs with 1 - s at most :data:`NEAR_DUPLICATE`, the identical ones among them.
        rows: rows that are in such a pair.
        closest: up to 20 of them, ``(i, j, 1 - s)``, the closest first.
        complete: whether all are counted; not if the base threshold lies above cosine 0.999.
    """

    identical: int
    near: int
    rows: int
    closest: tuple[tuple[int, int, float], ...]
    complete: bool


@dataclass(frozen=True)
class FarPairs:
    """Pairs that lie far above all others.

    Attributes:
        count: how many; 0 if no gap sets pairs apart.
        rows: rows that are in such a pair; all rows of the set where the pairs are too many to
            have been kept.
        lowest: lowest cosine among them; nan without any.
        rest: highest cosine below the gap; nan without any.
        kept: how many of them are in the kept tail, which they then lead.
    """

    count: int
    rows: int
    lowest: float
    rest: float
    kept: int


@dataclass(frozen=True)
class NearGroup:
    """Whether most rows have a group of others much nearer than the rest.

    Attributes:
        others: how many others; 0 if there is no such group.
        ratio: the largest ratio of a rank's spacing to those around it; nan if not looked for.
    """

    others: int
    ratio: float


@dataclass(frozen=True)
class LawTest:
    """Does a generalised Pareto law fit the exceedances?

    Attributes:
        statistic: median A^2 over draws of pairs without a common row; nan without a test.
        p: its p-value by parametric bootstrap; nan without a test.
        pairs: pairs in a draw.
    """

    statistic: float
    p: float
    pairs: int

    @property
    def refused(self) -> bool:
        """Whether the law is refused at :data:`LAW_LEVEL`."""
        return self.p < LAW_LEVEL


def distinct_tail(bank: StreamedBank, embeddings: np.ndarray) -> DistinctTail:
    """Keep one row of each item and sort the pairs.

    Args:
        bank: the highest pairs.
        embeddings: what it was made from, shape ``(n, d)``. Rows of one label or positive pair are
            no negatives of each other, and of many rows only anchors were compared with all: so
            equal rows are looked for by their content, too.
    """
    same = bank.members[bank.shortfalls <= DUPLICATE]
    same = np.concatenate([same, _equal_rows(embeddings)])
    shortfalls, members = bank.shortfalls, bank.members
    n = left = bank.rows
    if len(same):
        _, first = np.unique(clusters(same, n), return_index=True)
        alone = np.zeros(n, dtype=bool)
        alone[first] = True
        left = len(first)
        used = alone[members].all(axis=1) & (shortfalls > DUPLICATE)
        shortfalls, members = shortfalls[used], members[used]
    order = np.argsort(shortfalls, kind="stable")
    return DistinctTail(
        shortfalls=shortfalls[order],
        members=members[order],
        pairs=round(bank.pairs * (left * (left - 1)) / (n * (n - 1))),
        repeats=n - left,
    )


def near_duplicates(bank: StreamedBank) -> NearDuplicates:
    """Count the pairs that all but coincide, and name the closest."""
    near = np.flatnonzero(bank.shortfalls <= NEAR_DUPLICATE)
    closest = near[np.argsort(bank.shortfalls[near], kind="stable")[:_NAMED]]
    return NearDuplicates(
        identical=int((bank.shortfalls <= DUPLICATE).sum()),
        near=int(near.size),
        rows=int(np.unique(bank.members[near]).size),
        closest=tuple(
            (int(min(pair)), int(max(pair)), float(delta))
            for pair, delta in zip(bank.members[closest], bank.shortfalls[closest], strict=True)
        ),
        complete=bank.threshold <= 1.0 - NEAR_DUPLICATE,
    )


def clusters(pairs: np.ndarray, rows: int) -> np.ndarray:
    """The connected component of each row if these pairs are edges, shape ``(rows,)``."""
    edges = coo_array((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), (rows, rows))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)


def pairs_far_above(tail: DistinctTail, bank: StreamedBank) -> FarPairs:
    """Find pairs that a gap sets apart from all others (the rule is in the module's text).

    The gap is looked for in the kept pairs first, and, as it may lie below all of them, then in
    the bank's sample of all cosines. Of several gaps the lowest counts.
    """
    x = -np.log(tail.shortfalls.astype(np.float64))
    count = _above_gap(x, round(0.01 * tail.pairs))
    if count:
        return FarPairs(
            count=count,
            rows=int(np.unique(tail.members[:count]).size),
            lowest=1.0 - float(tail.shortfalls[count - 1]),
            rest=1.0 - float(tail.shortfalls[count]),
            kept=count,
        )
    delta = 1.0 - bank.sample.astype(np.float64)
    delta = np.sort(delta[delta > _SAMPLE_RESOLUTION])
    below = round((1.0 - bank.level) * len(delta))
    count = _above_gap(-np.log(delta), round(0.01 * len(delta)), first=below + 1)
    if count:
        return FarPairs(
            count=round(count / len(delta) * tail.pairs),
            rows=bank.rows,
            lowest=1.0 - float(delta[count - 1]),
            rest=1.0 - float(delta[count]),
            kept=len(tail.shortfalls),
        )
    return FarPairs(0, 0, math.nan, math.nan, 0)


def near_group(bank: StreamedBank, repeats: int) -> NearGroup:
    """Find whether most rows have the same number of others much nearer than the rest.

    Args:
        bank: its tails, the nearest rows of each anchor, are looked at.
        repeats: rows that repeat another. With more than :data:`FEW_ROWS` of them all spacings are
            those between repeats, and nothing is looked for.
    """
    tails = bank.tails.astype(np.float64)
    full = np.isfinite(tails).mean(axis=0) > 0.5
    tails = tails[:, full]
    tails = tails[np.isfinite(tails).all(axis=1)]
    ranks = np.arange(1, tails.shape[1])
    top = min(len(ranks) - 3, bank.rows // 4)  # further away spacings grow by themselves
    if repeats > FEW_ROWS * bank.rows or len(tails) < 2 or top < 1:
        return NearGroup(0, math.nan)
    x = -np.log(np.maximum(tails, DUPLICATE))
    spacing = np.median(ranks * (x[:, :-1] - x[:, 1:]), axis=0)
    ratio = np.empty(top)
    for k in range(top):
        around = np.r_[spacing[max(0, k - 3) : k], spacing[k + 1 : k + 4]]
        ratio[k] = spacing[k] / max(float(np.median(around)), DUPLICATE)
    at = int(np.argmax(ratio))
    found = ratio[at] > 1.0 + SPIKE / math.sqrt(len(tails))
    return NearGroup(at + 1 if found else 0, float(ratio[at]))


def law_test(
    shortfalls: np.ndarray, members: np.ndarray, *, threshold: float, seed: int = 0
) -> LawTest:
    """Test the generalised Pareto law above a threshold (see the module's text).

    Args:
        shortfalls: 1 - s of the exceedances, shape ``(m,)``.
        members: their rows, or the clusters of these, shape ``(m, 2)``; pairs that share one are
            not tested together.
        threshold: u, a cosine.
        seed: of the draws.
    """
    excesses = (1.0 - threshold) - shortfalls.astype(np.float64)
    rng = np.random.default_rng(seed)
    draws = [excesses[_without_common_row(members, rng)] for _ in range(DRAWS)]
    size = min(len(draw) for draw in draws)
    if size < LEAST_TESTED:
        return LawTest(math.nan, math.nan, size)
    observed = float(np.median(_anderson_darling(np.stack([draw[:size] for draw in draws]))))
    shape = float(moment_fit(excesses)[0])
    exponential = rng.standard_exponential((_REPLICATIONS, size))
    drawn = np.expm1(shape * exponential) / shape if shape else exponential
    larger = int((_anderson_darling(drawn) >= observed).sum())
    return LawTest(observed, (larger + 1) / (_REPLICATIONS + 1), size)


def _above_gap(x: np.ndarray, scale: int, first: int = 1) -> int:
    """How many values, sorted downwards, lie above the lowest wide gap; 0 without one.

    Args:
        x: values, descending, shape ``(m,)``.
        scale: how many values below a gap give the mean excess; 50 at least.
        first: least number of values above the gap.
    """
    k = min(max(50, scale), len(x) // 2)
    above = np.arange(first, len(x) - k)
    if k < 2 or not above.size:
        return 0
    sums = np.concatenate([[0.0], np.cumsum(x)])
    mean_excess = (sums[above + k] - sums[above]) / k - x[above + k]
    gap = x[above - 1] - x[above]
    wide = (gap >= GAP * mean_excess) & (above * gap >= FIRST_GAP * mean_excess) & (gap > 0.0)
    return int(above[wide][-1]) if wide.any() else 0


def _without_common_row(members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions of pairs that share no row, taken greedily in random order."""
    taken: list[int] = []
    used: set[int] = set()
    size = min(len(members), 20 * MOST_TESTED)  # a random part of a long tail is enough
    order = rng.choice(len(members), size, replace=False)
    for at, (i, j) in zip(order.tolist(), members[order].tolist(), strict=True):
        if i in used or j in used:
            continue
        used.update((i, j))
        taken.append(at)
        if len(taken) == MOST_TESTED:
            break
    return np.array(taken, dtype=np.int64)


def _anderson_darling(excesses: np.ndarray) -> np.ndarray:
    """A^2 of each sample against its own fit by moments.

    Args:
        excesses: shape ``(samples, n)``.

    Returns:
        Shape ``(samples,)``. Excesses beyond the fitted endpoint, which moments allow, count as if
        a millionth of the law lay above them.
    """
    y = np.sort(excesses, axis=1)
    n = y.shape[1]
    shape, scale = (part[:, None] for part in moment_fit(y))
    shape = np.where(np.abs(shape) < 1e-6, 1e-6, shape)
    log_survival = -np.log(np.maximum(1.0 + shape * y / scale, 1e-300)) / shape
    log_survival = np.clip(log_survival, math.log(1e-6), -1e-12)
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    logs = np.log(-np.expm1(log_survival)) + log_survival[:, ::-1]
    return np.asarray(-n - (odd * logs).sum(axis=1) / n)


def _equal_rows(embeddings: np.ndarray) -> np.ndarray:
    """Pairs (first, later) of rows that hold the same numbers, shape ``(p, 2)``."""
    first: dict[bytes, int] = {}
    equal = []
    for row in range(len(embeddings)):
        # A hash, as the rows themselves would be a second copy of a large matrix.
        content = hashlib.blake2b(embeddings[row].tobytes(), digest_size=16).digest()
        earlier = first.setdefault(content, row)
        if earlier != row:
            equal.append((earlier, row))
    return np.array(equal, dtype=np.int64).reshape(-1, 2)
