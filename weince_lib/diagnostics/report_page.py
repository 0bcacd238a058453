"""The page of a diagnosis, one HTML file with its figures inside."""

from __future__ import annotations

import base64
import functools
import html
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from ..evt import fit_gpd, fit_known_endpoint
from ..plots import LOSS_COLOURS, PAGE_WIDTH, quantile_quantile, style
from ..plots.style import DATA_COLOUR, REFERENCE_COLOUR
from ..plots.tail import draw_intervals
from .batch_correction import Correction
from .shape_verdict import GROUPS, MARGIN, MOST_FITTED, ShapeAt

if TYPE_CHECKING:
    from .report import Diagnosis

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
_FREE, _GUMBEL, _KNOWN = (LOSS_COLOURS[n] for n in ("weibit", "infonce", "weince-calibrated"))
_PRESET_COLOURS = {"paper": LOSS_COLOURS["weince"], "calibrated": _KNOWN}
_bars = functools.partial(draw_intervals, width=1.2, size=3.5)


def as_html(diagnosis: Diagnosis, name: str) -> str:
    """The page as text; it refers to nothing outside itself.

    Raises:
        MissingPackageError: without matplotlib, with the extra to install.
    """
    d, main = diagnosis, diagnosis.main
    widest = -2 / main.known_high if main.known_high < 0.0 else math.inf
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
                    interval(-2 / main.known_low, widest, 1),
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
    main, bank = diagnosis.main, diagnosis.bank
    cosines = 1.0 - diagnosis.tail.shortfalls.astype(np.float64)
    cosines = cosines[cosines > main.threshold]
    if len(cosines) > MOST_FITTED:
        cosines = np.random.default_rng(0).choice(cosines, MOST_FITTED, replace=False)
    known = fit_known_endpoint(cosines, threshold=main.threshold)
    shown = (
        (
            cosines_and_tail(bank.sample, cosines - main.threshold, main),
            "Left: all negative cosines. Right: those above the main threshold, with the law that "
            "fits best, the law that ends at cosine 1 and the law that never ends.",
        ),
        (
            shapes_over_thresholds(diagnosis.shapes, main),
            "Left: an endpoint tail lies below the shaded strip at every threshold; a Gumbel tail "
            "stays in or above it and rises towards 0. Right: where the tail would end.",
        ),
        (
            quantile_quantile(cosines, fit_gpd(cosines, threshold=main.threshold), known),
            "A law fits where its dots follow the diagonal, or, right, stay in its band. Bands "
            "take pairs for independent and are too narrow.",
        ),
        (
            correction(bank.rho, diagnosis.corrections),
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
    hardest = percent(first.hardest_infonce)
    shown: dict[str, Callable[[Correction], str]] = {
        "anchors with evidence": lambda c: percent(c.open_share, c.open_error),
        "mean λ": lambda c: with_error(c.lam_mean, c.lam_error),
        "λ at its 10 %, 50 %, 90 % quantile": lambda c: ", ".join(
            number(q) for q in np.quantile(c.lam, [0.1, 0.5, 0.9])
        ),
        "anchors with λ > ½": lambda c: percent(c.corrected_share),
        "gradient sent to other negatives": lambda c: percent(c.moved, c.moved_error),
        f"gradient on the hardest 1 % (InfoNCE: {hardest})": lambda c: percent(c.hardest_weince),
    }
    rows = [(what, *(show(c) for c in corrections)) for what, show in shown.items()]
    head = f"{first.batches} × {first.views} rows, τ = {first.temperature:g}"
    return _table((head, *(f"{c.preset} settings" for c in corrections)), rows)


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


def cosines_and_tail(sample: np.ndarray, excesses: np.ndarray, main: ShapeAt) -> Figure:
    """All negative cosines, and the excesses over the main threshold with three laws.

    Args:
        sample: cosines of random negative pairs, shape ``(n,)``.
        excesses: s - u of the pairs above the main threshold, shape ``(m,)``.
        main: their fits.
    """
    room = 1.0 - main.threshold
    with style():
        figure, (every, tail) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 2.7))
        every.hist(sample, bins=120, color=DATA_COLOUR, alpha=0.45, density=True)
        every.axvline(main.threshold, color=_FREE, lw=1.2, label=f"main threshold, {main.level:g}")
        every.axvline(1.0, color=REFERENCE_COLOUR, lw=1, ls=":", label="cap, cosine 1")
        every.set(xlabel="cosine of a negative pair", ylabel="density", title="All negative pairs")
        every.set_ylim(0, 1.45 * every.get_ylim()[1])
        every.legend(loc="upper left")
        top = min(1.05 * room, 1.5 * float(excesses.max()))
        heights, edges = np.histogram(excesses, bins=50, range=(0.0, top), density=True)
        tail.stairs(heights, edges, fill=True, color=DATA_COLOUR, alpha=0.3)
        grid = np.linspace(0.0, top, 400)
        laws = {
            "endpoint at cosine 1": (stats.genpareto(main.known, scale=-main.known * room), _KNOWN),
            "exponential (ξ = 0)": (stats.expon(scale=float(excesses.mean())), _GUMBEL),
        }
        if main.shape > -1.0:
            # A shape of 0 has no endpoint to take the scale from.
            scale = (
                -main.shape * (main.endpoint - main.threshold)
                if np.isfinite(main.endpoint)
                else float(excesses.mean()) * (1.0 - main.shape)
            )
            name = f"generalised Pareto, ξ̂ = {main.shape:.2f}".replace("-", "−")
            laws[name] = (stats.genpareto(main.shape, scale=scale), _FREE)
        for name, (law, colour) in laws.items():
            density = law.pdf(grid)
            # Dashed, as it often lies on another.
            dash = "--" if colour == _FREE else "-"
            shown = np.where(density > 0, density, np.nan)
            tail.plot(grid, shown, color=colour, ls=dash, label=name)
        if room <= top:
            tail.axvline(room, color=REFERENCE_COLOUR, ls=":", lw=1)
        tail.set(
            xlabel=f"excess over u = {main.threshold:.4g} (cosine)",
            ylabel="density",
            title=f"{main.exceedances:,} pairs above it",
            xlim=(0.0, top),
            ylim=(0.0, 1.6 * float(heights.max())),
        )
        tail.legend(loc="upper right")
    return figure


def shapes_over_thresholds(shapes: Sequence[ShapeAt], main: ShapeAt) -> Figure:
    """Shape and implied endpoint at every threshold, with intervals over rows.

    Args:
        shapes: ascending, at least one.
        main: the one the verdict is read at; its dot is filled.
    """
    x = np.arange(len(shapes), dtype=float)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(PAGE_WIDTH, 3.4))
        reference = np.array([s.reference for s in shapes])
        wide = np.r_[-0.5, x, len(shapes) - 0.5]
        padded = np.r_[reference[0], reference, reference[-1]]
        left.plot(wide, padded, color=_GUMBEL, lw=1, label="normal law")
        left.fill_between(
            wide,
            padded - MARGIN,
            padded,
            color=_GUMBEL,
            alpha=0.12,
            lw=0,
            label=f"margin, {MARGIN:g}",
        )
        _bars(left, x - 0.08, [(s.shape, s.low, s.high) for s in shapes], _FREE, "free endpoint")
        _bars(
            left,
            x + 0.08,
            [(s.known, s.known_low, s.known_high) for s in shapes],
            _KNOWN,
            "endpoint at cosine 1",
        )
        left.axhline(0.0, color=REFERENCE_COLOUR, lw=0.8, ls=":")
        left.set(ylabel="shape ξ̂", title="Shape, with 95 % intervals over rows")
        ends = [s.endpoint for s in shapes if np.isfinite(s.endpoint)]
        lows = [s.endpoint_low for s in shapes if np.isfinite(s.endpoint_low)]
        highest = max(1.0, 1.1 * max(min(max(ends, default=1.0), 1.8), max(lows, default=1.0)))
        highest = min(max(highest, 1.15), 2.2)
        shown = [(s.endpoint, s.endpoint_low, s.endpoint_high) for s in shapes]
        _bars(right, x, np.minimum(shown, highest).tolist(), _FREE)
        beyond = [k for k, s in enumerate(shapes) if s.endpoint_high > highest]
        if beyond:
            right.plot(x[beyond], np.full(len(beyond), highest), "^", ms=4, color=_FREE)
        right.plot(x, [s.threshold for s in shapes], "_", ms=9, color=DATA_COLOUR, label="u")
        right.axhline(1.0, color=REFERENCE_COLOUR, lw=1, ls=":", label="cap, cosine 1")
        right.set(
            ylabel="cosine",
            title="Implied endpoint (arrow: goes on)",
            ylim=(min(s.threshold for s in shapes) - 0.05, highest + 0.04),
        )
        for axes in (left, right):
            axes.set_xticks(x, [f"{s.level:g}" for s in shapes], rotation=45)
            axes.get_xticklabels()[list(shapes).index(main)].set_fontweight("bold")
            axes.set(xlabel="threshold quantile (bold: main)", xlim=(-0.5, len(shapes) - 0.5))
        handles, names = left.get_legend_handles_labels()
        more, other_names = right.get_legend_handles_labels()
        figure.legend(
            handles + more, names + other_names, loc="outside lower center", ncols=3, fontsize=8
        )
    return figure


def correction(rho: np.ndarray, corrections: Sequence[Correction]) -> Figure:
    """How near the hardest negatives are, lambda over anchors, and where the gradient goes.

    Args:
        rho: shortfall of each anchor's hardest negative, shape ``(anchors,)``.
        corrections: one per preset.
    """
    with style():
        figure, (near, lam, bars) = plt.subplots(1, 3, figsize=(PAGE_WIDTH, 2.6))
        finite = rho[np.isfinite(rho)]
        # A few duplicates shall not squeeze the rest: what lies below is put into the first bin.
        finite = np.maximum(finite, max(float(np.quantile(finite, 0.005)), 1e-8))
        low, high = np.floor(np.log10(finite.min())), np.ceil(np.log10(finite.max()))
        near.hist(finite, bins=np.logspace(low, max(high, low + 1), 40), color=DATA_COLOUR)
        near.set(
            xscale="log", xlabel="ρ: 1 − s of the\nhardest negative", ylabel="anchors", title="ρ"
        )
        bins = np.linspace(0.0, 1.0, 21)
        shares = [np.histogram(c.lam, bins)[0] / c.lam.size for c in corrections]
        for c, share in zip(corrections, shares, strict=True):
            lam.stairs(share, bins, color=_PRESET_COLOURS[c.preset], lw=1.6, label=c.preset)
        lam.set(
            xlabel="λ, blend weight\nof an anchor",
            ylabel="share of anchors",
            title="λ in batches",
            ylim=(0, 1.35 * np.max(shares)),
        )
        lam.legend(loc="upper right")
        heights = [100 * corrections[0].hardest_infonce]
        heights += [100 * c.hardest_weince for c in corrections]
        colours = [_GUMBEL, *(_PRESET_COLOURS[c.preset] for c in corrections)]
        drawn = bars.bar(range(len(heights)), heights, color=colours, width=0.65)
        bars.bar_label(drawn, fmt="%.1f", fontsize=8)
        names = ["InfoNCE", *(c.preset for c in corrections)]
        bars.set_xticks(range(len(names)), names, fontsize=7)
        bars.set(
            xlabel="loss",
            ylabel="% of the gradient",
            title="On the hardest 1 %",
            ylim=(0, 1.15 * max(heights) + 1e-9),
        )
    return figure
