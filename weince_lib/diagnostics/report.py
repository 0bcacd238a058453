"""A diagnosis: its numbers, the sentences that say what they mean, and the page and JSON of both.

The figures of the page are drawn by :mod:`.report_figures`, which is loaded when a page is written:
the numbers and the sentences need no matplotlib.
"""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..errors import MissingPackageError
from ..evt import fit_gpd, fit_known_endpoint
from .batch_correction import Correction
from .shape_verdict import GROUPS, MARGIN, MOST_FITTED, ShapeAt, Verdict
from .streamed_bank import StreamedBank
from .tail_checks import DUPLICATE, DistinctTail, FarPairs, LawTest, NearDuplicates, NearGroup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Digits of an endpoint: near the cap the second digit says nothing.
COSINE_DIGITS = 4
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:860px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.6em}
.verdict{border-left:6px solid #0072B2;background:#f2f6fa;padding:.7em 1em;margin:1em 0}
.verdict b{font-size:1.25em}.endpoint-like{border-color:#CC79A7}.undecided{border-color:#999}
table{border-collapse:collapse;font-size:.9em;margin:.5em 0}
th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}
img{max-width:100%}figure{margin:1em 0}figcaption{font-size:.9em;color:#555}
tr.main{font-weight:600}
"""


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
    def headline(self) -> str:
        """The verdict in a line; after ``undecided:`` the check that failed, if one did."""
        return _headline(self)

    @property
    def reason(self) -> str:
        """The verdict in a sentence or two."""
        return _reason(self)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken for granted beside the notes, in sentences."""
        return _assumptions(self)

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
        page = as_html(self, name)  # first, as it may lack matplotlib
        text = json.dumps({"embeddings": name, **self.as_dict()}, indent=1, ensure_ascii=False)
        files.write_text(Path(folder) / "report.json", text + "\n")
        files.write_text(Path(folder) / "report.html", page)
        return Path(folder) / "report.html"


def _headline(d: Diagnosis) -> str:
    far, group = d.far, d.group
    if not d.few:
        return f"undecided: {_pairs(far.count)} far above the rest"
    if group.others and not d.told:
        return f"undecided: most rows have {_others(group)} much nearer than all the rest"
    if d.law.refused:
        return "undecided: the tail does not follow the law whose shape is read"
    return d.verdict


def _reason(d: Diagnosis) -> str:
    main, far, group, law = d.main, d.far, d.group, d.law
    advice = "give pairs or labels, or keep one row of each item"
    if d.told:
        advice = "pairs or labels were given: look whether they cover all such rows"
    if not d.few:
        return (
            f"{_pairs(far.count)} far above the rest: {_cosines(far)}. Such pairs are views or "
            "copies of the same items that count as negatives, or items of tight classes; rows "
            f"are then not independent and a shape of this tail says nothing; {advice}."
        )
    if group.others and not d.told:
        return (
            f"Most rows have {_others(group)} much nearer than all the rest: the gap to the next "
            f"is {group.ratio:.1f} times what it is around. So rows seem to be views or copies of "
            f"the same items, {group.others + 1} of each, that count as negatives; rows are then "
            f"not independent and a shape of this tail says nothing; {advice}."
        )
    if law.refused:
        return (
            "The pairs above the main threshold do not follow a generalised Pareto law "
            f"(A² = {law.statistic:.2f}, p = {law.p:.3f}, from {law.pairs} pairs without a common "
            "row), so its shape says nothing about an endpoint. Rows that belong together, or a "
            "mixture of several kinds of items, do this: give pairs or labels, or diagnose each "
            "kind alone."
        )
    interval = f"ξ̂ = {main.shape:.2f}, 95 % interval [{main.low:.2f}, {main.high:.2f}]"
    if main.by_moments:
        interval += " (by moments: maximum likelihood has no estimate at or below -1)"
    interval = interval.replace("-", "−")
    normal = f"{main.reference:.2f} of a normal law".replace("-", "−")
    if d.verdict == "endpoint-like":
        where = {
            "at the cap": "Its implied endpoint agrees with cosine 1, the one WEINCE supposes.",
            "below the cap": "But it ends below cosine 1, where WEINCE does not look for it.",
            "beyond the cap or none": "But the implied endpoint lies beyond cosine 1.",
            "unclear": "Where it ends is not clear from these pairs.",
        }[main.cap]
        return f"The tail is shorter than a normal law's: {interval}, against the {normal}. {where}"
    if d.verdict == "Gumbel-like":
        return (
            f"The tail is not shorter than a normal law's: {interval}, against the {normal}. "
            "Nothing here speaks for an endpoint; InfoNCE's own link is the natural one."
        )
    if main.vote != "undecided":
        return (
            f"At the main threshold the tail is {main.vote} ({interval}), higher thresholds say "
            "the opposite."
        )
    if main.high - main.low < 0.1:
        return (
            f"{interval}: close to the {normal}, where a law without an endpoint and one with an "
            "endpoint in many dimensions look alike. Whichever it is, it matters little."
        )
    return f"{interval}, against the {normal}: too wide to tell. More rows would narrow it."


def _assumptions(d: Diagnosis) -> tuple[str, ...]:
    bank, tail, far, group, law, main = d.bank, d.tail, d.far, d.group, d.law, d.main
    first = d.corrections[0]
    if d.labelled:
        negatives = "Rows with the same label are no negatives of each other; all other pairs are."
    elif d.positives is not None:
        negatives = f"The {d.positives:,} pairs given are positive; all other pairs are negatives."
    else:
        negatives = (
            "No pairs or labels were given, so all pairs count as negatives. Items that belong "
            "together, if there are any, are in the tail too."
        )
    if bank.all_anchors:
        sampling = f"All {bank.pairs:,} negative pairs were looked at."
    else:
        sampling = (
            f"{len(bank.anchors):,} of {bank.rows:,} rows, drawn at random, were paired with all "
            f"rows ({bank.pairs:,} pairs). The share of pairs above the base threshold is "
            f"{bank.share:.5f} ± {bank.share_error:.5f} (standard error of the draw)."
        )
    fitted = (
        "Intervals for the shape are 95 %, by a jackknife over groups of rows: the rows are taken "
        "for independent draws, the pairs are not."
    )
    if d.positives is not None:
        fitted += " The rows of a positive pair count as one."
    if main.fitted < main.exceedances:
        fitted += (
            f" Of {main.exceedances:,} exceedances {main.fitted:,}, drawn at random, were fitted."
        )
    repeated = (
        f"{tail.repeats:,} rows repeat an earlier row (1 − s ≤ {DUPLICATE:g}) and were left out of "
        "the fits, so that each item counts once."
        if tail.repeats
        else f"No row repeats another (1 − s ≤ {DUPLICATE:g})."
    )
    if not far.count:
        apart = "No pairs lie far above the rest."
    elif d.few:
        apart = (
            f"{_pairs(far.count)} far above the rest ({_cosines(far)}). As they are of {far.rows} "
            "rows only, they were left out of the fits, and their rows count as one in intervals."
        )
    else:
        apart = "Rows whose pairs lie far above the rest count as one in intervals."
    if np.isnan(group.ratio):
        near = "Whether rows have groups of near rows was not looked at, as too many repeat others."
    elif group.others and d.labelled:
        near = (
            f"Most rows have {_others(group)} much nearer than all the rest. So rows of one label "
            "were taken for views of one item, and count as one in intervals and tests."
        )
    elif group.others:
        near = f"Most rows have {_others(group)} much nearer than all the rest."
    else:
        near = "No number of nearest rows stands out, as it would with views of the same items."
    if np.isnan(law.p):
        tested = (
            f"The law was not tested: only {law.pairs} pairs above the main threshold have no row "
            "in common."
        )
    else:
        tested = (
            f"The generalised Pareto law above the main threshold was tested on {law.pairs} pairs "
            f"without a common row: p = {law.p:.3f}."
        )
    batch = (
        f"WEINCE was asked in {first.batches} "
        f"batch{'es' if first.batches > 1 else ''} of {first.views} rows at "
        f"τ = {first.temperature:g}, frozen: what training would change is not in it."
    )
    return (
        "Similarity is the cosine; rows were normalised.",
        negatives,
        sampling,
        fitted,
        repeated,
        apart,
        near,
        tested,
        batch,
    )


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


def as_html(diagnosis: Diagnosis, name: str) -> str:
    """The page as text; it refers to nothing outside itself.

    Raises:
        MissingPackageError: without matplotlib, with the extra to install.
    """
    d, main = diagnosis, diagnosis.main
    parts = [
        f"<h1>Tail of {html.escape(name)}</h1>",
        f"<p>{d.rows:,} embeddings of {d.columns} dimensions, {d.bank.pairs:,} negative pairs.</p>",
        f'<div class="verdict {d.verdict}"><b>{html.escape(d.headline)}</b><br>',
        f"{html.escape(d.reason)}</div>",
        _table(
            ("what", "value", "95 % interval"),
            [
                ("shape ξ̂", number(main.shape), interval(main.low, main.high)),
                (
                    "shape with the endpoint at 1",
                    number(main.known),
                    interval(main.known_low, main.known_high),
                ),
                (
                    "implied endpoint (cosine)",
                    number(main.endpoint, COSINE_DIGITS),
                    interval(main.endpoint_low, main.endpoint_high, COSINE_DIGITS),
                ),
                (
                    "effective dimension 2β̂, endpoint at 1",
                    number(main.dimension, 1),
                    interval(-2 / main.known_low, _dimension(main.known_high), 1),
                ),
                ("shape of a normal law there", number(main.reference), ""),
            ],
        ),
        *_figures(diagnosis),
        "<h2>Thresholds</h2>",
        _threshold_table(d.shapes, main),
        "<h2>What WEINCE would do here</h2>",
        _correction_table(d.corrections),
        "<p>An anchor shows evidence if ΔAIC exceeds the preset's margin. The paper's gate, two "
        "straight lines, opens for nearly every tail, also for those without an endpoint; the "
        "calibrated one compares likelihoods and keeps to 5&nbsp;% there. Reading the 32 hardest "
        f"of <i>all</i> an anchor's negatives, the calibrated gate opens for "
        f"{percent(d.open_share_all, d.open_share_all_error)} of the anchors.</p>",
        "<h2>Near-duplicates</h2>",
        _duplicates(diagnosis),
        "<h2>What was assumed, and how the verdict is reached</h2><ul>",
        *(f"<li>{html.escape(line)}</li>" for line in (*d.notes, *d.assumptions)),
        f"<li>At each threshold the interval for ξ is held against the shape r of a normal law "
        f"above the same quantile: endpoint-like if it lies below r − {MARGIN:g}, Gumbel-like if "
        f"above r − {MARGIN:g} and reaching r, undecided otherwise. The main threshold decides; a "
        f"higher one that says the opposite makes it undecided, and so do pairs far above the "
        f"rest, groups of near rows and a tail that does not follow the law. At most "
        f"{MOST_FITTED:,} exceedances are fitted, and {GROUPS} groups of rows left out in "
        "turn.</li></ul>",
    ]
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Tail of {html.escape(name)}: {d.verdict}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _figures(diagnosis: Diagnosis) -> list[str]:
    try:
        from matplotlib import pyplot as plt

        from . import report_figures as draw
    except ImportError as error:
        raise MissingPackageError(
            f"drawing the report needs {error.name}: pip install 'weince-lib[companion]'; without "
            "it, as_dict() gives the numbers"
        ) from error
    main, bank = diagnosis.main, diagnosis.bank
    cosines = 1.0 - diagnosis.tail.shortfalls.astype(np.float64)
    cosines = cosines[cosines > main.threshold]
    if len(cosines) > MOST_FITTED:
        cosines = np.random.default_rng(0).choice(cosines, MOST_FITTED, replace=False)
    known = fit_known_endpoint(cosines, threshold=main.threshold)
    shown = (
        (
            draw.cosines_and_tail(bank.sample, cosines - main.threshold, main),
            "Left: all negative cosines. Right: those above the main threshold, with the law that "
            "fits best, the law that ends at cosine 1 and the law that never ends.",
        ),
        (
            draw.shapes_over_thresholds(diagnosis.shapes, main),
            "Left: an endpoint tail lies below the shaded strip at every threshold; a Gumbel tail "
            "stays in or above it and rises towards 0. Right: where the tail would end.",
        ),
        (
            draw.quantile_quantile(cosines, fit_gpd(cosines, threshold=main.threshold), known),
            "A law fits where its dots follow the diagonal, or, right, stay in its band. Bands "
            "take pairs for independent and are too narrow.",
        ),
        (
            draw.correction(bank.rho, diagnosis.corrections),
            "Left: how near each anchor's hardest negative is. Middle: how far WEINCE would "
            "replace the softmax link. Right: what that does to the gradient.",
        ),
    )
    found = []
    for figure, caption in shown:
        found.append(
            f'<figure><img alt="{html.escape(caption)}" src="{_png(figure)}">'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )
        plt.close(figure)
    return found


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _threshold_table(shapes: tuple[ShapeAt, ...], main: ShapeAt) -> str:
    rows = [
        (
            f"{s.level:g}",
            number(s.threshold, 3),
            f"{s.exceedances:,}",
            f"{number(s.shape)} {interval(s.low, s.high)}",
            number(s.reference),
            f"{number(s.endpoint, COSINE_DIGITS)} "
            f"{interval(s.endpoint_low, s.endpoint_high, COSINE_DIGITS)}",
            s.cap,
            s.vote,
        )
        for s in shapes
    ]
    head = ("quantile", "u", "pairs above", "ξ̂", "normal", "endpoint", "it lies", "vote")
    return _table(head, rows, shapes.index(main))


def _correction_table(corrections: tuple[Correction, ...]) -> str:
    first = corrections[0]
    rows: list[tuple[str, ...]] = [
        (
            "anchors with evidence",
            *(percent(c.open_share, c.open_error) for c in corrections),
        ),
        ("mean λ", *(with_error(c.lam_mean, c.lam_error) for c in corrections)),
        (
            "λ at its 10 %, 50 %, 90 % quantile",
            *(
                ", ".join(number(q) for q in np.quantile(c.lam, [0.1, 0.5, 0.9]))
                for c in corrections
            ),
        ),
        ("anchors with λ > ½", *(percent(c.corrected_share) for c in corrections)),
        (
            "gradient sent to other negatives",
            *(percent(c.moved, c.moved_error) for c in corrections),
        ),
        (
            f"gradient on the hardest 1 % (InfoNCE: {percent(first.hardest_infonce)})",
            *(percent(c.hardest_weince) for c in corrections),
        ),
    ]
    head = (
        f"{first.batches} × {first.views} rows, τ = {first.temperature:g}",
        *(f"{c.preset} settings" for c in corrections),
    )
    return _table(head, rows)


def _duplicates(diagnosis: Diagnosis) -> str:
    found = diagnosis.duplicates
    if not found.near:
        return "<p>None: no negative pair has a cosine above 0.999.</p>"
    text = (
        f"<p>{found.near:,} negative pairs of {found.rows:,} rows have a cosine above 0.999"
        f"{'' if found.complete else ' (at least)'}, {found.identical:,} of them are identical. "
        "If they are copies and not different items, drop them: they look like an endpoint.</p>"
    )
    rows = [(f"{i}", f"{j}", f"{delta:.3g}") for i, j, delta in found.closest]
    return text + _table(("row", "row", "1 − s"), rows)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], bold: int | None = None) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(h)}</th>" for h in head) + "</tr>"]
    for k, row in enumerate(rows):
        mark = ' class="main"' if k == bold else ""
        lines.append(
            f"<tr{mark}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        )
    return "\n".join([*lines, "</table>"])


def _dimension(shape: float) -> float:
    return -2.0 / shape if shape < 0.0 else math.inf


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


def number(value: float, digits: int = 2) -> str:
    """Fixed digits, with a true minus sign; infinity and nan as signs."""
    if math.isinf(value):
        return "∞"
    return "–" if math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 2) -> str:
    """[low, high]."""
    return f"[{number(low, digits)}, {number(high, digits)}]"


def with_error(value: float, error: float) -> str:
    """Value ± error, if there is one."""
    return number(value) + ("" if math.isnan(error) else f" ± {number(error)}")


def percent(value: float, error: float = math.nan) -> str:
    """A share in per cent, ± its error if there is one."""
    spread = "" if math.isnan(error) or error == 0.0 else f" ± {100 * error:.1f}"
    return f"{100 * value:.1f}{spread} %"
