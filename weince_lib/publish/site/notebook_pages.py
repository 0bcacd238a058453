"""Executed notebooks made ready for the site: figures described, long code folded, links turned.

Nothing is executed and no committed notebook is changed: each is copied.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
        elif (
            "setup" in cell.metadata.get("tags", [])
            or len(cell.source.splitlines()) > LONGEST_OPEN_CELL
            or CHORES.search(cell.source)
        ):
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "hide-input"})
    own = [decision for decision in decisions if decision.claim.notebook == name]
    if own:
        notebook.cells.append(nbformat.v4.new_markdown_cell(_verdicts(own)))
    return notebook


def captions(notebook: nbformat.NotebookNode) -> list[tuple[nbformat.NotebookNode, str]]:
    """Every code cell that shows a figure, with its caption; empty where it has none."""
    found = []
    for cell, below in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        if cell.cell_type == "code" and _images(cell):
            match = CAPTION.match(below.source) if below and below.cell_type == "markdown" else None
            found.append((cell, match[1] if match else ""))
    return found


def spoken(caption: str) -> str:
    r"""A caption as plain text for a screen reader: no marks, and TeX commands by their names.

    >>> spoken(r"The slope is $\hat\beta_i$, at $\lambda = 0.5$.")
    'The slope is hat beta_i, at lambda = 0.5.'
    """
    text = re.sub(r"\]\([^)]*\)|[$*`\[]|\\[!,;]", "", caption)
    return " ".join(re.sub(r"[\\{}]", " ", text).split())


def turn_links(markdown: str, name: str) -> str:
    """Links that lead to files of the checkout, led to the site's page about them instead."""

    def turn(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        room = re.fullmatch(r"\.\./weince_lib/(\w+)(?:/.*|\.py)", target)
        if target == "../paper/claims.toml":
            return f"[{text}](../claims.md#{anchor(name)})"
        if room:
            return f"[{text}](../library/weince_lib.{room[1]}.rst)"
        # Other files are in the checkout and not on the site.
        return text if target.startswith("../") else match[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", turn, markdown)


def _images(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [out for out in cell.outputs if "image/png" in out.get("data", {})]


def _width(cell: nbformat.NotebookNode) -> str:
    """The width a figure is shown at, which is half its pixels as notebooks embed it."""
    return f"{_images(cell)[0].metadata['image/png']['width']}px"


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
