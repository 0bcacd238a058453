"""A diagnosis of any set of embeddings: does the upper tail of its cosines end, and does it matter?

:func:`diagnose` streams over all pairs (:mod:`.streamed_bank`), reads the shape of their tail over
thresholds and gives a verdict (:mod:`.shape_verdict`, where the rule and its error rates are), and
asks what WEINCE would do in batches of these embeddings (:mod:`.batch_correction`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..losses.evidence import has_spread, read_tail
from ..losses.presets import PRESETS
from .batch_correction import Correction, corrections
from .diagnosis_text import DUPLICATE, assumptions, reason
from .embedding_checks import check_labels, check_pair_rows, check_rows
from .embeddings import load_embeddings
from .shape_verdict import LEAST_EXCEEDANCES, ShapeAt, Verdict, shape_at, verdict
from .streamed_bank import LEVELS, BankSettings, StreamedBank, streamed_bank

#: Fewer rows have too few pairs: 50 rows are 1,225 pairs, 123 of them above the 0.9 quantile.
LEAST_ROWS = 50
#: Pairs nearer than this are near-duplicates, to be looked at. A cosine above 0.999.
NEAR_DUPLICATE = 1e-3
_NAMED = 20


@dataclass(frozen=True)
class NearDuplicates:
    """Pairs of rows that all but coincide, counted among the negatives looked at.

    Attributes:
        identical: pairs with 1 - s at most :data:`DUPLICATE`; left out of the fits.
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
class Diagnosis:
    """What :func:`diagnose` found.

    Attributes:
        verdict: ``"endpoint-like"``, ``"Gumbel-like"`` or ``"undecided"``.
        reason: the verdict in a sentence or two.
        main: the tail at the main threshold; ``main.shape``, ``main.low`` and ``main.high`` are
            xi-hat and its interval, ``main.endpoint`` the implied endpoint, ``main.dimension`` the
            effective dimension.
        shapes: the tail at every threshold, ascending.
        rows: number of embeddings.
        columns: their dimension.
        corrections: what WEINCE would do, with the paper's settings and with the calibrated ones.
        open_share_all: share of anchors with evidence by the calibrated gate, reading the 32
            hardest of *all* negatives of an anchor instead of a batch's.
        open_share_all_error: its standard error from drawing anchors; 0 if all rows are anchors.
        duplicates: see :class:`NearDuplicates`.
        assumptions: what was taken for granted, in sentences.
        bank: the tail itself.
    """

    verdict: Verdict
    reason: str
    main: ShapeAt
    shapes: tuple[ShapeAt, ...]
    rows: int
    columns: int
    corrections: tuple[Correction, ...]
    open_share_all: float
    open_share_all_error: float
    duplicates: NearDuplicates
    assumptions: tuple[str, ...]
    bank: StreamedBank

    def as_dict(self) -> dict[str, Any]:
        """Everything but the tail itself, in plain JSON values; infinities and nan are ``None``."""
        from .diagnosis_report import as_dict

        return as_dict(self)

    def save(self, folder: str | Path, *, name: str = "embeddings") -> Path:
        """Write ``report.html`` (one page, plots inside) and ``report.json``.

        Args:
            folder: made if it is missing.
            name: what the report calls the embeddings.

        Returns:
            The path of the page.

        Raises:
            ImportError: without matplotlib, with the extra to install.
        """
        from .diagnosis_report import save

        return save(self, Path(folder), name)


def diagnose(
    embeddings: Any,
    pairs: Any = None,
    labels: Any = None,
    *,
    temperature: float = 0.5,
    batch_size: int = 256,
    settings: BankSettings | None = None,
    store: str | Path | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Diagnosis:
    """Say whether the tail of a set of embeddings has an endpoint, and what WEINCE would do there.

    Args:
        embeddings: shape ``(n, d)``, array or tensor, or the path of a file (see
            :func:`weince_lib.diagnostics.embeddings.load_embeddings`). 50 rows at least; hundreds
            to a million are meant. Rows are normalised.
        pairs: positive pairs as row numbers, shape ``(p, 2)``; they are no negatives, and batches
            are made of them.
        labels: one a row; rows with the same label are no negatives of each other.
        temperature: tau WEINCE is asked with; 0.5 is the paper's for images, 0.05 for text. The
            verdict does not depend on it.
        batch_size: pairs per batch N; 256 is the paper's.
        settings: of the bank; by default with this ``seed``.
        store: folder that makes the pass over the pairs resumable.
        seed: of every draw.
        progress: show a bar, on a terminal only.

    Returns:
        A :class:`Diagnosis`.

    Raises:
        ValueError: for embeddings, pairs or labels that cannot be used, with the row named.
        FileNotFoundError, ImportError: as the loaders.
    """
    if isinstance(embeddings, str | Path):
        embeddings = load_embeddings(embeddings)
    z = check_rows(embeddings)
    if len(z) < LEAST_ROWS:
        raise ValueError(
            f"{len(z)} rows are too few for a tail: at least {LEAST_ROWS} are needed "
            f"({LEAST_ROWS * (LEAST_ROWS - 1) // 2:,} pairs), and hundreds for a narrow interval"
        )
    if not 0.0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, got {temperature}")
    if batch_size < 4:
        raise ValueError(f"batch_size must be at least 4 pairs, got {batch_size}")
    pairs = None if pairs is None else check_pair_rows(pairs, len(z))
    labels = None if labels is None else check_labels(labels, len(z))
    settings = settings or BankSettings(seed=seed)
    bank = streamed_bank(
        z, pairs=pairs, labels=labels, settings=settings, store=store, progress=progress
    )
    shapes = shapes_of(bank, seed)
    found, main = verdict(shapes)
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
        reason=reason(found, main),
        main=main,
        shapes=tuple(shapes),
        rows=len(z),
        columns=z.shape[1],
        corrections=tuple(done),
        open_share_all=share,
        open_share_all_error=error,
        duplicates=near_duplicates(bank),
        assumptions=assumptions(bank, pairs, labels, done[0], main),
        bank=bank,
    )


def shapes_of(bank: StreamedBank, seed: int = 0) -> list[ShapeAt]:
    """The tail of a bank at every threshold with enough exceedances, ascending.

    Identical rows are left out; the thresholds are order statistics of what remains.

    Raises:
        ValueError: if no threshold has enough exceedances, with the likely cause.
    """
    distinct = bank.shortfalls > DUPLICATE
    order = np.argsort(bank.shortfalls[distinct], kind="stable")
    delta = bank.shortfalls[distinct][order]
    members = bank.members[distinct][order]
    shapes: list[ShapeAt] = []
    for level in LEVELS:
        count = round(bank.pairs * (1.0 - level))
        if level == bank.level or (not shapes and count >= len(delta)):
            count = min(count, len(delta) - 1)  # the base threshold was itself estimated
        if not LEAST_EXCEEDANCES <= count < len(delta) or level < bank.level - 1e-9:
            continue
        beyond = np.searchsorted(delta, delta[count])  # ties with the threshold are not above it
        if beyond == 0 or delta[0] == delta[beyond - 1]:
            continue  # one distance over and over, as between two items with many copies
        shapes.append(
            shape_at(
                delta[:count],
                members[:count],
                level=level,
                threshold=1.0 - float(delta[count]),
                seed=seed,
            )
        )
    if not shapes:
        raise ValueError(
            f"no threshold has {LEAST_EXCEEDANCES} pairs of different rows above it, of "
            f"{bank.pairs:,} negative pairs: too few rows, too few negatives, or most rows are "
            "duplicates of each other"
        )
    return shapes


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


def _open_share(bank: StreamedBank) -> tuple[float, float]:
    """Calibrated gate over the hardest of all negatives of each anchor."""
    calibrated = PRESETS["calibrated"]
    k = min(calibrated.min_tail, bank.tails.shape[1] - 1)
    tails = torch.from_numpy(bank.tails[:, : k + 1].astype(np.float64))
    tails = tails.clamp_min(calibrated.floor)
    resolution = float(np.finfo(np.float32).eps)  # what the bank keeps
    reading = read_tail(tails, k, calibrated, resolution=resolution)
    usable = reading.usable & has_spread(tails[:, 0], tails[:, -1], resolution)
    opened = (usable & (reading.delta_aic > calibrated.evidence_margin)).double().numpy()
    share, a = float(opened.mean()), len(opened)
    return share, math.sqrt(share * (1.0 - share) / a * (1.0 - a / bank.rows))
