"""Executed notebooks made ready for the site: figures described, long code folded, links turned.

Nothing is executed and no committed notebook is changed: each is copied.
"""

from __future__ import annotations

import base64
import re
import struct
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

from ... import paths
from ..badges import END, START
from ..claims import Decision
from ..notebooks import NotebookError
from .claims_page import VERDICT_MARKS, anchor

#: Code cells longer than this are folded: a reader who follows the argument need not see them.
LONGEST_OPEN_CELL = 20
#: What also folds, as a hosted session's set-up does: cells that only import, keep the record or
#: show where the numbers came from.
CHORES = re.compile(r"\A(?:import |from )|record_checks\(|provenance\b")
#: Badges come from another server and open what the reader already reads: not on the site.
BADGES = re.compile(rf"\n*^{re.escape(START)}\n(?:.*\n)*?{re.escape(END)}$", re.MULTILINE)
#: A caption: the first paragraph of the cell below the figure, in italics to its end.
CAPTION = re.compile(r"\A\*(?!\*)((?:(?!\n\n).)+?)(?<![*\\])\*(?!\*)(?=\n\n|\Z)", re.DOTALL)


def read_executed(name: str) -> nbformat.NotebookNode:
    """The committed notebook, which must be executed.

    Raises:
        NotebookError: naming the notebook if it is missing or a code cell of it has not run.
    """
    path = paths.notebooks() / f"{name}.ipynb"
    advice = f"run `weince notebooks {name}` first"
    if not path.exists():
        raise NotebookError(f"notebooks/{name}.ipynb is missing; {advice}")
    notebook = nbformat.read(path, as_version=4)
    code = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
    waiting = sum(cell.execution_count is None for cell in code)
    if waiting:
        raise NotebookError(
            f"notebooks/{name}.ipynb: {waiting} of {len(code)} code cells were not executed; "
            f"{advice}"
        )
    return notebook


def page(name: str, decisions: Sequence[Decision]) -> nbformat.NotebookNode:
    """A notebook as a page of the site.

    Args:
        name: for example ``"05_weince_loss"``.
        decisions: all claims with their verdicts; those of this notebook are listed at its end.

    Raises:
        NotebookError: for a notebook that was not executed, or a figure without a caption.
    """
    notebook = read_executed(name)
    for cell, caption in captions(notebook):
        if not caption:
            raise NotebookError(
                f"{name}: the figure of this cell has no caption (a paragraph in *italics* that "
                f"begins the cell below it):\n{cell.source}"
            )
        cell.metadata["mystnb"] = {"image": {"alt": spoken(caption), "width": _width(cell)}}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = turn_links(BADGES.sub("", cell.source), name)
        elif "setup" in cell.metadata.get("tags", []) or folds(cell.source):
            cell.metadata["tags"] = list(
                dict.fromkeys([*cell.metadata.get("tags", []), "hide-input"])
            )
    own = [decision for decision in decisions if decision.claim.notebook == name]
    if own:
        notebook.cells.append(nbformat.v4.new_markdown_cell(_verdicts(own)))
    return notebook


def captions(notebook: nbformat.NotebookNode) -> list[tuple[nbformat.NotebookNode, str]]:
    """Every code cell that shows a figure, with its caption; empty where it has none."""
    found = []
    for i, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and _images(cell):
            below = notebook.cells[i + 1] if i + 1 < len(notebook.cells) else None
            text = below.source if below is not None and below.cell_type == "markdown" else ""
            match = CAPTION.match(text)
            found.append((cell, match[1] if match else ""))
    return found


def folds(code: str) -> bool:
    """Whether a code cell is shown folded."""
    return len(code.splitlines()) > LONGEST_OPEN_CELL or CHORES.search(code) is not None


def spoken(caption: str) -> str:
    r"""A caption as plain text for a screen reader: no marks, formulas as one would type them.

    >>> spoken(r"The slope is $\\hat\\beta_i$, at $\\lambda = 0.5$.")
    'The slope is β_i, at λ = 0.5.'
    """
    text = re.sub(r"\\(?:hat|bar|tilde|mathrm|mathbb|mathcal|text|operatorname|big|left|right|!)\b"
                  r"|\\[!,;]", "", caption)  # fmt: skip
    text = re.sub(r"\\(?:t?frac)(\{[^{}]*\}|\w)(\{[^{}]*\}|\w)", r"\1/\2", text)
    text = re.sub(r"\\([A-Za-z]+)(?=(\w?))", _symbol, text)
    text = re.sub(r"\]\([^)]*\)|[$*`{}\[\]\\]", "", text)
    return " ".join(text.split())


def turn_links(markdown: str, name: str) -> str:
    """Links that lead to files of the checkout, led to the site's page about them instead."""

    def turn(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        room = re.fullmatch(r"\.\./weince_lib/(\w+)(?:/.*|\.py)", target)
        if target == "../paper/claims.toml":
            return f"[{text}](../claims.md#{anchor(name)})"
        if room:
            return f"[{text}](../library/{room[1]}.rst)"
        # Other files are in the checkout and not on the site.
        return text if target.startswith("../") else match[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", turn, markdown)


def _symbol(match: re.Match[str]) -> str:
    """A TeX command as text: Greek letters and a few signs; others by their name."""
    name = match[1]
    signs = {"to": "→", "infty": "∞", "le": "≤", "ge": "≥", "cdot": "·", "pm": "±", "approx": "≈",
             "mid": "|", "circ": "°", "in": "∈", "sqrt": "√", "quad": " "}  # fmt: skip
    if name in signs:
        return signs[name]
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    letter = {"varepsilon": "epsilon", "lambda": "lamda", "Lambda": "Lamda"}.get(name, name)
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {letter.upper()}")
    except KeyError:
        return f"{name} " if match[2] else name


def _images(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [out for out in cell.outputs if "image/png" in out.get("data", {})]


def _width(cell: nbformat.NotebookNode) -> str:
    """The width a figure is shown at, which is half its pixels where it is embedded sharply."""
    (out, *_) = _images(cell)
    known: Mapping[str, int] = out.get("metadata", {}).get("image/png", {})
    pixels = struct.unpack(">I", base64.b64decode(out.data["image/png"])[16:20])[0]
    return f"{known.get('width', pixels)}px"


def _verdicts(own: Sequence[Decision]) -> str:
    """The end of a notebook's page: which claims it treats and what was found."""
    lines = ["## The claims of this notebook", "", "| claim | verdict |", "|---|---|"]
    for decision in own:
        claim = decision.claim
        link = f"[{claim.label}](../claims.md#{claim.id}): {claim.statement}"
        lines.append(f"| {link} | {VERDICT_MARKS[decision.verdict]} |".replace("\n", " "))
    return "\n".join(lines)


def write(name: str, decisions: Sequence[Decision], folder: Path) -> Path:
    """Write a notebook's page into the folder that the site is built from."""
    target = folder / f"{name}.ipynb"
    nbformat.write(page(name, decisions), target)
    return target
