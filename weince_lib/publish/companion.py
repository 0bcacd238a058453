"""The companion as a PDF: ``paper/companion.typ`` with every number from results and claims.

:func:`gather` puts what the document shows into one JSON value, as text that is ready to print, and
:func:`render` sets it with typst. The document types no measured number itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from .. import files, paths
from ..errors import MissingPackageError
from ..evaluation import Interval
from ..studies import tables
from ..studies.collect import load_reported, load_results
from ..studies.decide import FURTHER_CONTRASTS, RULE, finding
from ..studies.grid import STUDIES, study
from . import findings
from .claims import STRENGTH, VERDICTS, Decision, decide_all, format_interval

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
        "decisions": _decisions(),
    }


def as_text(data: dict[str, Any]) -> str:
    """The data as the JSON text that the document reads."""
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


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
    """Write ``paper/companion.pdf``; the same sources give the same bytes.

    Raises:
        MissingPackageError: as :func:`render`.
    """
    target = paths.root() / "paper" / "companion.pdf"
    (made,) = render(gather())
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


def _decisions() -> dict[str, Any]:
    """What the studies decide, all from :mod:`.findings`; ``answer`` is empty without any rows."""
    found = findings.decisions()
    further = findings.decisions(contrasts=FURTHER_CONTRASTS)
    names = list(dict.fromkeys(found["study"]))
    title = study(findings.SENTENCES).title
    sentences = findings.sentence_decisions().query("checkpoint == 'best'")
    return {
        "margin": f"{RULE.margin:g}",
        "measures": list(findings.MEASURES.values()),
        "answer": [list(line) for line in findings.answer(found, further)] if names else [],
        "primary": _cells(found),
        "further": _cells(further),
        "floors": [_levels(name) for name in names],
        "sentences": [
            {"pair": f"{title(row['method'])} minus {title(row['against'])}"}
            | {"text": finding(row), "seeds": row["seeds"]}
            for row in sentences.to_dict("records")
        ],
    }


def _cells(found: pd.DataFrame) -> list[dict[str, Any]]:
    table = findings.cells(found)
    return [
        {"contrast": contrast, "data": data, "cells": [str(text) for text in row]}
        for (contrast, data), row in zip(table.index, table.to_numpy().tolist(), strict=True)
    ]


def _levels(name: str) -> dict[str, Any]:
    """A study's accuracies beside its floors, to one decimal."""
    table = findings.levels(name)[list(findings.MEASURES.values())]
    rows = [
        {"name": str(label), "cells": ["" if math.isnan(v) else f"{v:.1f}" for v in row]}
        for label, row in zip(table.index, table.to_numpy().tolist(), strict=True)
    ]
    return {"data": study(name).data, "rows": rows}
