"""A diagnosis: its numbers, and the sentences that say what they mean.

The page is written by :mod:`.report_page`, which is loaded when it is asked for: the numbers and
the sentences need no matplotlib.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..errors import MissingPackageError
from .batch_correction import Correction
from .shape_verdict import ShapeAt, Verdict
from .streamed_bank import StreamedBank
from .tail_checks import DUPLICATE, DistinctTail, FarPairs, LawTest, NearDuplicates, NearGroup


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found.

    Attributes:
        verdict: ``"endpoint-like"``, ``"Gumbel-like"`` or ``"undecided"``.
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
        far: pairs that lie far above all others.
        few: whether these are so few that they were left out and the rest was judged.
        group: whether most rows have a group of others much nearer than the rest.
        law: the test of the generalised Pareto law above the main threshold.
        notes: what was taken for a header, left out or taken for granted when files were read.
        positives: number of positive pairs that were given; ``None`` without any.
        labelled: whether labels were given.
        tail: what was fitted: the highest pairs of different items.
        bank: the highest pairs of all rows.
    """

    verdict: Verdict
    main: ShapeAt
    shapes: tuple[ShapeAt, ...]
    rows: int
    columns: int
    corrections: tuple[Correction, ...]
    open_share_all: float
    open_share_all_error: float
    duplicates: NearDuplicates
    far: FarPairs
    few: bool
    group: NearGroup
    law: LawTest
    notes: tuple[str, ...]
    positives: int | None
    labelled: bool
    tail: DistinctTail
    bank: StreamedBank

    @property
    def told(self) -> bool:
        """Whether pairs or labels were given."""
        return self.labelled or self.positives is not None

    @property
    def failed_check(self) -> tuple[str, str] | None:
        """The check that failed, in a few words, and what follows from it; ``None`` without one."""
        far, group, law = self.far, self.group, self.law
        advice = "give pairs or labels, or keep one row of each item"
        if self.told:
            advice = "pairs or labels were given: look whether they cover all such rows"
        if not self.few:
            return (
                f"{_pairs(far.count)} far above the rest",
                f"{_pairs(far.count)} far above the rest: {_cosines(far)}. Such pairs are views or "
                "copies of the same items that count as negatives, or items of tight classes; rows "
                f"are then not independent and a shape of this tail says nothing; {advice}.",
            )
        if group.others and not self.told:
            near = f"ost rows have {_others(group)} much nearer than all the rest"
            return (
                f"m{near}",
                f"M{near}: the gap to the next "
                f"is {group.ratio:.1f} times what it is around. So rows seem to be views or copies "
                f"of the same items, {group.others + 1} of each, that count as negatives; rows are "
                f"then not independent and a shape of this tail says nothing; {advice}.",
            )
        if law.refused:
            return (
                "the tail does not follow the law whose shape is read",
                "The pairs above the main threshold do not follow a generalised Pareto law "
                f"(A² = {law.statistic:.2f}, p = {law.p:.3f}, from {law.pairs} pairs without a "
                "common row), so its shape says nothing about an endpoint. Rows that belong "
                "together, or a mixture of several kinds of items, do this: give pairs or labels, "
                "or diagnose each kind alone.",
            )
        return None

    @property
    def headline(self) -> str:
        """The verdict in a line; after ``undecided:`` the check that failed, if one did."""
        failed = self.failed_check
        return f"undecided: {failed[0]}" if failed else self.verdict

    @property
    def reason(self) -> str:
        """The verdict in a sentence or two."""
        failed = self.failed_check
        if failed:
            return failed[1]
        main = self.main
        interval = f"ξ̂ = {main.shape:.2f}, 95 % interval [{main.low:.2f}, {main.high:.2f}]"
        if main.by_moments:
            interval += " (by moments: maximum likelihood has no estimate at or below -1)"
        interval = interval.replace("-", "−")
        normal = f"{main.reference:.2f} of a normal law".replace("-", "−")
        if self.verdict == "endpoint-like":
            where = {
                "at the cap": "Its implied endpoint agrees with cosine 1, the one WEINCE supposes.",
                "below the cap": "But it ends below cosine 1, where WEINCE does not look for it.",
                "beyond the cap or none": "But the implied endpoint lies beyond cosine 1.",
                "unclear": "Where it ends is not clear from these pairs.",
            }[main.cap]
            return (
                f"The tail is shorter than a normal law's: {interval}, against the {normal}. "
                f"{where}"
            )
        if self.verdict == "Gumbel-like":
            return (
                f"The tail is not shorter than a normal law's: {interval}, against the {normal}. "
                "Nothing here speaks for an endpoint; InfoNCE's own link is the natural one."
            )
        if main.vote != "undecided":
            return (
                f"At the main threshold the tail is {main.vote} ({interval}), higher thresholds "
                "say the opposite."
            )
        if main.high - main.low < 0.1:
            return (
                f"{interval}: close to the {normal}, where a law without an endpoint and one with "
                "an endpoint in many dimensions look alike. Whichever it is, it matters little."
            )
        return f"{interval}, against the {normal}: too wide to tell. More rows would narrow it."

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken for granted beside the notes, in sentences."""
        bank, tail, far, law, first = self.bank, self.tail, self.far, self.law, self.corrections[0]
        if self.labelled:
            negatives = (
                "Rows with the same label are no negatives of each other; all other pairs are."
            )
        elif self.positives is not None:
            negatives = (
                f"The {self.positives:,} pairs given are positive; all other pairs are negatives."
            )
        else:
            negatives = (
                "No pairs or labels were given, so all pairs count as negatives. Items that belong "
                "together, if there are any, are in the tail too."
            )
        sampling = f"All {bank.pairs:,} negative pairs were looked at."
        if not bank.all_anchors:
            sampling = (
                f"{len(bank.anchors):,} of {bank.rows:,} rows, drawn at random, were paired with "
                f"all rows ({bank.pairs:,} pairs). The share of pairs above the base threshold is "
                f"{bank.share:.5f} ± {bank.share_error:.5f} (standard error of the draw)."
            )
        fitted = (
            "Intervals for the shape are 95 %, by a jackknife over groups of rows: the rows are "
            "taken for independent draws, the pairs are not."
        )
        if self.positives is not None:
            fitted += " The rows of a positive pair count as one."
        if self.main.fitted < self.main.exceedances:
            fitted += (
                f" Of {self.main.exceedances:,} exceedances {self.main.fitted:,}, drawn at random, "
                "were fitted."
            )
        repeated = f"No row repeats another (1 − s ≤ {DUPLICATE:g})."
        if tail.repeats:
            repeated = (
                f"{tail.repeats:,} rows repeat an earlier row (1 − s ≤ {DUPLICATE:g}) and were "
                "left out of the fits, so that each item counts once."
            )
        if not far.count:
            apart = "No pairs lie far above the rest."
        elif self.few:
            apart = (
                f"{_pairs(far.count)} far above the rest ({_cosines(far)}). As they are of "
                f"{far.rows} rows only, they were left out of the fits, and their rows count as "
                "one in intervals."
            )
        else:
            apart = "Rows whose pairs lie far above the rest count as one in intervals."
        if math.isnan(law.p):
            tested = (
                f"The law was not tested: only {law.pairs} pairs above the main threshold have no "
                "row in common."
            )
        else:
            tested = (
                "The generalised Pareto law above the main threshold was tested on "
                f"{law.pairs} pairs without a common row: p = {law.p:.3f}."
            )
        batches = f"{first.batches} batch{'es' if first.batches > 1 else ''}"
        return (
            "Similarity is the cosine; rows were normalised.",
            negatives,
            sampling,
            fitted,
            repeated,
            apart,
            self._near_rows(),
            tested,
            f"WEINCE was asked in {batches} of {first.views} rows at τ = {first.temperature:g}, "
            "frozen: what training would change is not in it.",
        )

    def _near_rows(self) -> str:
        group = self.group
        if math.isnan(group.ratio):
            return (
                "Whether rows have groups of near rows was not looked at, as too many repeat "
                "others."
            )
        if not group.others:
            return "No number of nearest rows stands out, as it would with views of the same items."
        near = f"Most rows have {_others(group)} much nearer than all the rest."
        if self.labelled:
            near += (
                " So rows of one label were taken for views of one item, and count as one in "
                "intervals and tests."
            )
        return near

    def as_dict(self) -> dict[str, Any]:
        """Everything but the pairs, in plain JSON values; infinities and nan are ``None``.

        Of arrays there are quantiles.
        """
        from .. import __version__

        bank = self.bank
        corrections = []
        for c in self.corrections:
            row = {f.name: getattr(c, f.name) for f in dataclasses.fields(c) if f.name != "lam"}
            row["lam_quantiles"] = _quantiles(c.lam)
            corrections.append(row)
        plain = {
            "verdict": self.verdict,
            "headline": self.headline,
            "reason": self.reason,
            "rows": self.rows,
            "columns": self.columns,
            "main_level": self.main.level,
            "shapes": [dataclasses.asdict(s) for s in self.shapes],
            "effective_dimension": self.main.dimension,
            "corrections": corrections,
            "open_share_all": self.open_share_all,
            "open_share_all_error": self.open_share_all_error,
            "near_duplicates": dataclasses.asdict(self.duplicates),
            "repeated_rows": self.tail.repeats,
            "far_pairs": dataclasses.asdict(self.far),
            "near_group": dataclasses.asdict(self.group),
            "law_test": dataclasses.asdict(self.law),
            "notes": list(self.notes),
            "assumptions": list(self.assumptions),
            "bank": {
                "anchors": len(bank.anchors),
                "pairs": bank.pairs,
                "level": bank.level,
                "threshold": bank.threshold,
                "kept": len(bank.shortfalls),
                "share": bank.share,
                "share_error": bank.share_error,
                "rho_quantiles": _quantiles(bank.rho),
            },
            "version": __version__,
        }
        return dict(_plain(plain))

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
        try:
            from .report_page import as_html
        except ImportError as error:
            raise MissingPackageError(
                f"drawing the report needs {error.name}: pip install 'weince-lib[companion]'; "
                "without it, as_dict() gives the numbers"
            ) from error
        page = as_html(self, name)
        text = json.dumps({"embeddings": name, **self.as_dict()}, indent=1, ensure_ascii=False)
        files.write_text(Path(folder) / "report.json", text + "\n")
        files.write_text(Path(folder) / "report.html", page)
        return Path(folder) / "report.html"


def _pairs(count: int) -> str:
    """How many pairs lie somewhere, verb included."""
    return "1 pair lies" if count == 1 else f"{count:,} pairs lie"


def _others(group: NearGroup) -> str:
    return "1 other" if group.others == 1 else f"{group.others} others"


def _cosines(far: FarPairs) -> str:
    return (
        f"their cosines are at least {far.lowest:.3f}, all others at most {far.rest:.3f}".replace(
            "-", "−"
        )
    )


def _quantiles(values: np.ndarray) -> dict[str, float]:
    levels = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    return {f"{q:g}": float(v) for q, v in zip(levels, np.quantile(values, levels), strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
