"""The companion as a PDF: ``paper/companion.typ`` with every number from results and claims.

:func:`gather` puts what the document shows into one JSON value, as text that is ready to print, and
:func:`render` sets it with typst. The document types no measured number itself.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from .. import files
from ..errors import MissingPackageError
from ..evaluation import Interval
from . import grid_gain, paths, sweep, tables
from .claims import STRENGTH, VERDICTS, Decision, decide_all, format_interval
from .collect import load_reported, load_results
from .gain import CONTRASTS, called, contrasts, seed_table, verdict
from .grid import STUDIES
from .selection import chosen_by_method, compare, study_frame
from .study_types import Study
from .vision_metrics import STANDARDISED

#: Studies the document shows, in its order; one without records says so.
SHOWN = ("cpu-fashion", "cpu-gain-fashion", "cpu-gain-pairs", "cpu-static")
#: Their metrics with the words for them; a study has the columns that its rows have.
METRICS = {
    "linear_accuracy": "linear probe",
    "standardised_linear_accuracy": "converged probe",
    "recall_at_1": "R@1",
    "sts_spearman": "STS-B Spearman",
}
#: Factors that cannot be told, beyond which the document counts them.
MANY = 8
#: What stands behind a number of ours in a table of the paper's.
OURS = " †"
#: A PDF without a date of its own has the same bytes whenever it is made.
TIMESTAMP = 0


def gather() -> dict[str, Any]:
    """Everything the document shows, as JSON values."""
    decisions = decide_all()
    return {
        "counts": {v: sum(d.verdict == v for d in decisions) for v in VERDICTS},
        "claims": [_claim(d) for d in decisions],
        "checks": _checks(),
        "reported": _reported(),
        "tables": (rows := _paper_rows()),
        "own_cells": sum(OURS in value for row in rows for value in row.values()),
        "studies": [_study(name) for name in SHOWN],
    }


def data_path() -> Path:
    """``paper/results/companion.json``."""
    return paths.results() / "companion.json"


def as_text(data: dict[str, Any]) -> str:
    """The JSON file's text."""
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def write_data() -> dict[str, Any]:
    """Write :func:`gather`'s value to :func:`data_path` and return it."""
    data = gather()
    files.write_text(data_path(), as_text(data))
    return data


def render(data: dict[str, Any], form: Literal["pdf", "png"] = "pdf") -> list[bytes]:
    """Set the document: one PDF, or a PNG for each page.

    Args:
        data: see :func:`gather`.
        form: of the result.

    Raises:
        MissingPackageError: without the package ``typst``, with the command that installs it.
    """
    try:
        import typst
    except ImportError as error:
        raise MissingPackageError("the PDF needs typst: pip install 'weince-lib[paper]'") from error
    text = as_text(data)
    made = typst.compile(
        str(paths.root() / "paper" / "companion.typ"),
        root=str(paths.root()),
        format=form,
        ppi=110.0,
        ignore_system_fonts=True,
        sys_inputs={"data": text, "sources": sources(text)},
        timestamp=TIMESTAMP,
    )
    return list(made) if isinstance(made, list) else [bytes(made)]


def build() -> Path:
    """Write the data and ``paper/companion.pdf`` from them; the same sources give the same bytes.

    Raises:
        MissingPackageError: as :func:`render`.
    """
    target = paths.root() / "paper" / "companion.pdf"
    (made,) = render(write_data())
    with files.replacing(target) as aside:
        aside.write_bytes(made)
    return target


def sources(text: str) -> str:
    """A hash of what a PDF is made from: the document, its data and its figures.

    It stands in the PDF's keywords, so that one that is out of date is found without setting it.
    """
    home = paths.root()
    document = (home / "paper" / "companion.typ").read_bytes()
    found = hashlib.sha256(document + text.encode())
    for figure in sorted((home / "figures").glob("*.pdf")):
        if figure.stem.encode() in document:
            found.update(figure.read_bytes())
    return found.hexdigest()[:16]


def _claim(d: Decision) -> dict[str, Any]:
    quantity, _, value = d.ours.rpartition(": ")
    return {
        "id": d.claim.id,
        "label": d.claim.label,
        "section": d.claim.section,
        "statement": d.claim.statement,
        "verdict": d.verdict,
        "paper": d.paper,
        "quantity": quantity,
        "value": value,
        "evidence": d.evidence,
        # Limits that follow from data set and encoder are said by these already.
        "conditions": "; ".join(filter(None, (d.evidence, _own(d)))),
        "needs": d.needs,
        "record": _records(d.records),
    }


def _records(keys: tuple[str, ...]) -> str:
    """The first record's key, shortened, and how many more there are."""
    more = f" +{len(keys) - 1}" if len(keys) > 1 else ""
    return keys[0][:8] + more if keys else ""


def _own(d: Decision) -> str:
    """The limits of a claim that holds with some, if it has words of its own for them."""
    return d.claim.ours.limits if d.claim.ours and d.limits else ""


def _checks() -> dict[str, dict[str, str]]:
    """Numbers that notebooks computed, by notebook and metric; the strongest profile's."""
    found: dict[str, dict[str, str]] = {}
    for profile in reversed(STRENGTH):
        table = load_results(profile)
        for row in table[table["experiment"].str.startswith("check-")].to_dict("records"):
            interval = Interval(float(row["value"]), float(row["low"]), float(row["high"]), 1)
            notebook = str(row["experiment"]).removeprefix("check-")
            found.setdefault(notebook, {})[str(row["metric"])] = format_interval(interval)
    return found


def _reported() -> dict[str, str]:
    """The paper's numbers outside its large tables, ``table/metric/loss`` to text."""
    rows = load_reported()
    rows = rows[~rows["table"].isin(list(tables.TABLES))]
    return {f"{r.table}/{r.metric}/{r.loss}": f"{r.value:g}" for r in rows.itertuples()}


def _paper_rows() -> list[dict[str, str]]:
    """Linear accuracy and R@1 where the sources or our studies have either; ours are marked."""
    studies = [study for study in STUDIES.values() if study.profile != "quick"]
    both = {"linear": tables.paper_table("2", studies), "recall": tables.paper_table("3", studies)}
    both["recall"] = both["recall"][both["recall"]["metric"] == "recall_at_1"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for name, table in both.items():
        for record in table.to_dict("records"):
            cell = (str(record["dataset"]), str(record["encoder"]))
            texts = [
                tables.cell_text(record, which) + mark
                for which, mark in (("paper", ""), ("ours", OURS))
                if not pd.isna(record[which])
            ]
            own = rows.setdefault(cell, {"dataset": cell[0], "encoder": cell[1]})
            own[f"{name}_{record['loss']}"] = "; ".join(texts) or "not given"
    return [
        row
        for row in rows.values()
        if {*row.values()} - {"not given", row["dataset"], row["encoder"]}
    ]


def _study(name: str) -> dict[str, Any]:
    """A study's methods and comparisons; ``run`` is false while there are no rows."""
    found: dict[str, Any] = {"name": name, "run": False, "question": ""}
    if name not in STUDIES:
        return found
    study = STUDIES[name]
    found |= {"question": study.question, "profile": study.profile}
    # Its own table alone: what a profile's table has of its runs is no finished study.
    frame = study_frame(study) if sweep.table_path(name).exists() else pd.DataFrame()
    if frame.empty:
        return found
    known = [metric for metric in METRICS if (frame["metric"] == metric).any()]
    chosen = {metric: chosen_by_method(study, frame, metric) for metric in known}
    methods = [
        {"method": method, "name": called(method)}
        | {"values": [_level(chosen[metric].get(method)) for metric in known]}
        | {"settings": len(study.methods[method])}
        for method in study.methods
        if any(method in chosen[metric] for metric in known)
    ]
    compared = []
    for a, b in _pairs(study):
        cells = [_difference(chosen[metric].get(a), chosen[metric].get(b)) for metric in known]
        if any(cell["text"] not in ("", "same runs") for cell in cells):
            names = [called(a), called(b)]
            compared.append({"method": a, "against": b, "names": names, "cells": cells})
    first = frame.iloc[0]
    return found | {
        "run": True,
        "data": f"{first['dataset']}, {first['encoder']}".removesuffix(", "),
        "seeds": max(c.test.n for by_method in chosen.values() for c in by_method.values()),
        "metrics": [METRICS[metric] for metric in known],
        "methods": methods,
        "comparisons": compared,
        "verdicts": _verdicts(study, frame, known),
    }


def _verdicts(study: Study, frame: pd.DataFrame, known: list[str]) -> list[dict[str, str]]:
    """Factors of a gain study by what its records say, after Holm's adjustment; else empty."""
    if not _of_gain(study):
        return []
    metric = STANDARDISED if STANDARDISED in known else known[0]
    rows = contrasts(seed_table(study, frame, metric)).to_dict("records")
    words: dict[str, list[str]] = {"helps": [], "hurts": [], "cannot tell": []}
    for row in rows:
        words.setdefault(verdict(row), []).append(str(row["factor"]))
    found = []
    for word, names in words.items():
        text = "; ".join(names)
        if word == "cannot tell" and len(names) > MANY:  # a list says less than its length
            text = f"{'the other' if len(names) < len(rows) else 'all'} {len(names)} factors"
        if names:
            found.append({"word": word, "factors": text, "metric": METRICS[metric]})
    return found


def _of_gain(study: Study) -> bool:
    return study.name in {s.name for s in grid_gain.STUDIES}


#: Pairs of the gain studies beside those that differ in one factor.
AGAINST_TUNED = ("weibit-2", "released", "infonce+both", "weince-0.5", "weince-0.2")


def _pairs(study: Study) -> list[tuple[str, str]]:
    """The comparisons to show; of a study of many settings, those that single out a factor."""
    if not _of_gain(study):
        return list(study.compare)
    pairs = [*CONTRASTS.values(), *((name, "infonce-tuned") for name in AGAINST_TUNED)]
    return [pair for pair in pairs if set(pair) <= study.methods.keys()]


def _level(chosen: Any) -> str:
    if chosen is None:
        return ""
    one = chosen.test.n < 2  # a single encoder has no interval
    return f"{chosen.test.mean:.2f}" + ("" if one else f" ± {chosen.test.half_width:.2f}")


def _difference(a: Any, b: Any) -> dict[str, Any]:
    """A paired difference as text, and whether its interval leaves 0 out."""
    pair = compare(a, b) if a is not None and b is not None else None
    if pair is None:
        return {"text": "", "apart": False}
    if a.setting == b.setting:
        return {"text": "same runs", "apart": False}
    i = pair.interval
    if i.n < 2:  # a single encoder has no interval
        return {"text": f"{i.mean:+.2f} (one seed)", "apart": False}
    apart = bool(i.low > 0 or i.high < 0)
    # An end that would be rounded to 0 decides nothing for a reader: one digit more.
    digits = 3 if any(abs(end) < 0.005 for end in (i.low, i.high)) else 2
    text = f"{i.mean:+.{digits}f} [{i.low:+.{digits}f}, {i.high:+.{digits}f}]"
    return {"text": text, "apart": apart}
