"""A diagnosis as one HTML page with its plots inside, and as JSON."""

from __future__ import annotations

import base64
import dataclasses
import html
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..errors import MissingPackageError
from ..evt import fit_gpd, fit_known_endpoint
from .batch_correction import Correction
from .report_numbers import COSINE_DIGITS, interval, number, percent, with_error
from .shape_verdict import GROUPS, MARGIN, MOST_FITTED, ShapeAt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .diagnosis import Diagnosis

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


def as_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Plain JSON values; infinities and nan become ``None``, arrays their quantiles."""
    from .. import __version__

    bank = diagnosis.bank
    corrections = []
    for c in diagnosis.corrections:
        row = {f.name: getattr(c, f.name) for f in dataclasses.fields(c) if f.name != "lam"}
        row["lam_quantiles"] = _quantiles(c.lam)
        corrections.append(row)
    plain = {
        "verdict": diagnosis.verdict,
        "headline": diagnosis.headline,
        "reason": diagnosis.reason,
        "rows": diagnosis.rows,
        "columns": diagnosis.columns,
        "main_level": diagnosis.main.level,
        "shapes": [dataclasses.asdict(s) for s in diagnosis.shapes],
        "effective_dimension": diagnosis.main.dimension,
        "corrections": corrections,
        "open_share_all": diagnosis.open_share_all,
        "open_share_all_error": diagnosis.open_share_all_error,
        "near_duplicates": dataclasses.asdict(diagnosis.duplicates),
        "repeated_rows": diagnosis.tail.repeats,
        "far_pairs": dataclasses.asdict(diagnosis.far),
        "near_group": dataclasses.asdict(diagnosis.group),
        "law_test": dataclasses.asdict(diagnosis.law),
        "notes": list(diagnosis.notes),
        "assumptions": list(diagnosis.assumptions),
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


def save(diagnosis: Diagnosis, folder: Path, name: str) -> Path:
    """Write ``report.html`` and ``report.json``; see :meth:`Diagnosis.save`."""
    page = as_html(diagnosis, name)  # first, as it may lack matplotlib
    text = json.dumps({"embeddings": name, **as_dict(diagnosis)}, indent=1, ensure_ascii=False)
    files.write_text(folder / "report.json", text + "\n")
    files.write_text(folder / "report.html", page)
    return folder / "report.html"


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

        from .. import plots
        from ..plots import diagnosis as draw
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
            plots.quantile_quantile(cosines, fit_gpd(cosines, threshold=main.threshold), known),
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
