"""The companion as a PDF: ``paper/companion.typ`` with every number from results and claims.

:func:`gather` puts what the document shows into one JSON value, as text that is ready to print, and
:func:`render` sets it with typst. The document types no measured number itself.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .. import files, paths
from ..errors import MissingPackageError
from ..evaluation import Interval
from ..studies.collect import load_reported, load_results
from ..studies.decide import FURTHER_CONTRASTS, RULE, finding
from ..studies.grid import study
from . import findings
from .claims import STRENGTH, VERDICTS, decide_all, format_interval


def gather() -> dict[str, Any]:
    """Everything the document shows, as JSON values."""
    decided = decide_all()
    claims = [
        {
            "id": d.claim.id,
            "verdict": d.verdict,
            "value": d.ours.rpartition(": ")[2],
            "evidence": d.evidence,
        }
        for d in decided
    ]
    return {
        "counts": {v: sum(d.verdict == v for d in decided) for v in VERDICTS},
        "claims": claims,
        "checks": _checks(),
        "reported": {
            f"{r.table}/{r.metric}/{r.loss}": f"{r.value:g}" for r in load_reported().itertuples()
        },
        "decisions": _decisions(),
    }


def as_text(data: dict[str, Any]) -> str:
    """The data as the JSON text that the document reads."""
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def render(data: dict[str, Any]) -> bytes:
    """Set the document as a PDF. The same data and sources give the same bytes.

    Args:
        data: see :func:`gather`.

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
        ignore_system_fonts=True,
        sys_inputs={"data": text, "sources": sources(text)},
        timestamp=0,
    )
    return bytes(made)


def build() -> Path:
    """Write ``paper/companion.pdf``.

    Raises:
        MissingPackageError: as :func:`render`.
    """
    target = paths.root() / "paper" / "companion.pdf"
    made = render(gather())
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


def _decisions() -> dict[str, Any]:
    """What the studies decide, all from :mod:`.findings`; ``answer`` is empty without any rows."""
    found = findings.decisions()
    further = findings.decisions(contrasts=FURTHER_CONTRASTS)
    table = findings.cells(found)
    title = study(findings.SENTENCES).title
    sentences = findings.sentence_decisions().query("checkpoint == 'best'").to_dict("records")
    return {
        "margin": f"{RULE.margin:g}",
        "measures": list(findings.MEASURES.values()),
        "answer": [] if found.empty else [list(line) for line in findings.answer(found, further)],
        "primary": [
            {"contrast": contrast, "data": data, "cells": list(row)}
            for (contrast, data), row in zip(table.index, table.to_numpy().tolist(), strict=True)
        ],
        "sentences": [
            {"pair": f"{title(r['method'])} minus {title(r['against'])}", "text": finding(r)}
            for r in sentences
        ],
    }
