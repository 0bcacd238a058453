"""A diagnosis of any set of embeddings: does the upper tail of its cosines end, and does it matter?

:func:`diagnose` streams over all pairs (:mod:`.streamed_bank`), reads the shape of their tail over
thresholds and gives a verdict (:mod:`.shape_verdict`, where the rule and its error rates are),
unless a check of the law or of the rows' independence fails (:mod:`.tail_checks`). It also asks
what WEINCE would do in batches of these embeddings (:mod:`.batch_correction`).
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..checks import check_positive
from ..losses.evidence import PRESETS, fit_tail, has_spread
from .batch_correction import corrections
from .reading import ReadSettings, read_embeddings, read_labels, read_pairs
from .report import Diagnosis
from .shape_verdict import LEAST_EXCEEDANCES, MOST_FITTED, ShapeAt, shape_at, verdict
from .streamed_bank import LEVELS, BankSettings, StreamedBank, streamed_bank
from .tail_checks import (
    FEW_ROWS,
    DistinctTail,
    NearGroup,
    clusters,
    distinct_tail,
    law_test,
    near_duplicates,
    near_group,
    pairs_far_above,
)

#: Fewer rows have too few pairs: 50 rows are 1,225 pairs, 123 of them above the 0.9 quantile.
LEAST_ROWS = 50


def diagnose(
    embeddings: Any,
    pairs: Any = None,
    labels: Any = None,
    *,
    temperature: float = 0.5,
    batch_size: int = 256,
    reading: ReadSettings | None = None,
    settings: BankSettings | None = None,
    store: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Diagnosis:
    """Say whether the tail of a set of embeddings has an endpoint, and what WEINCE would do there.

    Args:
        embeddings: shape ``(n, d)``, array or tensor, or the path of a file (see
            :func:`weince_lib.diagnostics.reading.read_embeddings`). 50 rows at least; hundreds
            to a million are meant. Rows are normalised.
        pairs: positive pairs as row numbers, shape ``(p, 2)``, or the path of a file; they are no
            negatives, and batches are made of them.
        labels: one a row, or the path of a file; rows with the same label are no negatives of each
            other. What counts as no label:
            :func:`weince_lib.diagnostics.embeddings.code_labels`.
        temperature: tau WEINCE is asked with; 0.5 is the paper's for images, 0.05 for text. The
            verdict does not depend on it.
        batch_size: pairs per batch N; 256 is the paper's.
        reading: columns to leave out or to keep, headers and missing labels; by default nothing is
            left out and everything doubtful is an error.
        settings: of the bank; by default with this ``seed``.
        store: folder that makes the pass over the pairs resumable.
        seed: of every draw.
        progress: show a bar, on a terminal only.

    Returns:
        A :class:`Diagnosis`.

    Raises:
        ValueError: for embeddings, pairs or labels that cannot be used, with the row named.
        FileNotFoundError, ImportError: as :mod:`weince_lib.diagnostics.reading`.
    """
    reading = reading or ReadSettings()
    read = read_embeddings(embeddings, reading)
    z = read.values
    if labels is not None and read.labels is not None:
        raise ValueError(
            f"labels were given twice: as labels, and as column {reading.label_column!r}"
        )
    if len(z) < LEAST_ROWS:
        raise ValueError(
            f"{len(z)} rows are too few for a tail: at least {LEAST_ROWS} are needed "
            f"({LEAST_ROWS * (LEAST_ROWS - 1) // 2:,} pairs), and hundreds for a narrow interval"
        )
    check_positive("temperature", temperature)
    if batch_size < 4:
        raise ValueError(f"batch_size must be at least 4 pairs, got {batch_size}")
    notes = list(read.notes)
    if pairs is not None:
        read_p = read_pairs(pairs, len(z))
        pairs, notes = read_p.values, [*notes, *read_p.notes]
    labels = read.labels if labels is None else labels
    if labels is not None:
        read_l = read_labels(labels, len(z), reading)
        labels, notes = read_l.values, [*notes, *read_l.notes]
    settings = settings or BankSettings(seed=seed)
    bank = streamed_bank(
        z, pairs=pairs, labels=labels, settings=settings, store=store, progress=progress
    )
    tail = distinct_tail(bank, z)
    far = pairs_far_above(tail, bank)
    group = near_group(bank, tail.repeats)
    told = pairs is not None or labels is not None
    joined = [tail.members[: far.kept], _belonging(pairs, labels, group)]
    together = clusters(np.concatenate(joined), bank.rows)
    few = far.rows <= max(2.0, FEW_ROWS * len(z))  # one pair at least
    if few:  # as identical rows: their pairs say nothing about the others
        tail = dataclasses.replace(
            tail, shortfalls=tail.shortfalls[far.kept :], members=tail.members[far.kept :]
        )
    shapes = shapes_of(tail, bank.level, together, seed)
    found, main = verdict(shapes)
    above = slice(0, main.exceedances)
    law = law_test(
        tail.shortfalls[above],
        together[tail.members[above]],
        threshold=main.threshold,
        seed=seed,
    )
    if law.refused or not few or (group.others and not told):
        found = "undecided"
    done = corrections(
        z,
        pairs=pairs,
        labels=labels,
        batch_size=batch_size,
        temperature=temperature,
        seed=seed,
    )
    share, error = _open_share(bank)
    return Diagnosis(
        verdict=found,
        main=main,
        shapes=tuple(shapes),
        rows=len(z),
        columns=z.shape[1],
        corrections=tuple(done),
        open_share_all=share,
        open_share_all_error=error,
        duplicates=near_duplicates(bank),
        far=far,
        few=few,
        group=group,
        law=law,
        notes=tuple(notes),
        positives=None if pairs is None else len(pairs),
        labelled=labels is not None,
        tail=tail,
        bank=bank,
    )


def shapes_of(
    tail: DistinctTail, level: float, together: np.ndarray, seed: int = 0
) -> list[ShapeAt]:
    """The tail at every threshold with enough exceedances, ascending.

    The thresholds are order statistics of the tail.

    Args:
        tail: the highest pairs of different items.
        level: quantile its base threshold was meant to be.
        together: the cluster of each row; rows of one cluster are left out together.
        seed: as :func:`weince_lib.diagnostics.shape_at`.

    Raises:
        ValueError: if no threshold has enough exceedances, with the likely cause.
    """
    delta = tail.shortfalls
    shapes: list[ShapeAt] = []
    for q in LEVELS:
        count = round(tail.pairs * (1.0 - q))
        if q == level or (not shapes and count >= len(delta)):
            count = min(count, len(delta) - 1)  # the base threshold was itself estimated
        if not LEAST_EXCEEDANCES <= count < len(delta) or q < level - 1e-9:
            continue
        beyond = np.searchsorted(delta, delta[count])  # ties with the threshold are not above it
        if beyond == 0 or delta[0] == delta[beyond - 1]:
            continue  # one distance over and over, as between two items with many copies
        members = together[tail.members[:count]]
        # Too few clusters for an interval.
        few = np.unique(members[: min(int(beyond), MOST_FITTED)]).size < 3
        if few:
            members = tail.members[:count]
        shapes.append(
            shape_at(
                delta[:count],
                members,
                level=q,
                threshold=1.0 - float(delta[count]),
                seed=seed,
            )
        )
    if not shapes:
        repeated = f" ({tail.repeats:,} repeat an earlier row)" if tail.repeats else ""
        raise ValueError(
            f"no threshold has {LEAST_EXCEEDANCES} pairs of different rows above it, of "
            f"{tail.pairs:,} negative pairs: too few rows, too few negatives, or most rows are "
            f"duplicates of each other{repeated}; give embeddings of more different items"
        )
    return shapes


def _belonging(pairs: np.ndarray | None, labels: np.ndarray | None, group: NearGroup) -> np.ndarray:
    """Pairs of rows that were said to belong together and are no independent draws.

    Positive pairs are views of one item. Rows of one label may be views of an item or different
    items of a class; they are taken for views if each row's nearest negatives come in groups.
    """
    joined = np.empty((0, 2), dtype=np.int64) if pairs is None else pairs
    if labels is not None and group.others:
        _, first, code = np.unique(labels, return_index=True, return_inverse=True)
        views = np.stack([first[code], np.arange(len(labels))], axis=1)
        joined = np.concatenate([joined, views])
    return joined


def _open_share(bank: StreamedBank) -> tuple[float, float]:
    """Calibrated gate over the hardest of all negatives of each anchor."""
    calibrated = PRESETS["calibrated"]
    k = min(calibrated.min_tail, bank.tails.shape[1] - 1)
    tails = torch.from_numpy(bank.tails[:, : k + 1].astype(np.float64))
    tails = tails.clamp_min(calibrated.floor)
    resolution = float(np.finfo(np.float32).eps)  # what the bank keeps
    reading = fit_tail(tails, k, calibrated, resolution=resolution)
    usable = reading.usable & has_spread(tails[:, 0], tails[:, -1], resolution)
    opened = (usable & (reading.delta_aic > calibrated.evidence_margin)).double().numpy()
    share, a = float(opened.mean()), len(opened)
    return share, math.sqrt(share * (1.0 - share) / a * (1.0 - a / bank.rows))
