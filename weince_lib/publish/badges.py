"""Badges that open README and notebooks in Colab and on Binder, and the cell Colab needs.

The companion has no address of its own. :func:`write` puts one in: badges under the titles, and
the repository into each notebook's first code cell. Sources and executed notebooks change alike
and keep their outputs; the same call twice changes nothing, and without a repository everything is
taken out again.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import nbformat

from .. import files, paths
from . import notebooks
from .notebooks import OVERVIEW, NotebookError

#: An owner and a name as GitHub allows them: no two hyphens in a row in an owner, and a name
#: without the ``.git`` of a clone's address.
REPOSITORY = re.compile(
    r"[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*/(?!.*\.git$)[A-Za-z0-9._-]*[A-Za-z0-9_-]", re.IGNORECASE
)
#: A tag or branch: what git allows, without what an address or a string would have to escape.
REF = re.compile(r"(?!.*(?:\.\.|//|\.lock(?:/|$)))[A-Za-z0-9_][A-Za-z0-9._/-]*(?<![./])")
START, END = "<!-- badges -->", "<!-- /badges -->"
#: Notebooks that train for longer than Binder's sessions are made for.
TRAINING = re.compile(r"\d+_train_")

_SETUP = """\
# %% tags=["setup"]
# In Colab this fetches the library; torch, numpy and all else that is there keep their versions.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    import pathlib
    import runpy
    import subprocess

    repository, ref = "{address}", "{ref}"  # written by `weince badges`
    if not repository:
        raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")
    if not pathlib.Path("weince").exists():
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--depth=1"]
        subprocess.run([*clone, f"--branch={{ref}}", repository, "weince"], check=True)
    runpy.run_path("weince/weince_lib/hosted.py", run_name="__main__")

"""
_SETUP_CELL = re.compile(r'^# %% tags=\["setup"\]\n(?:(?!# %%).*\n)*', re.MULTILINE)
_PARAMETERS = re.compile(r'^# %% tags=\["parameters"\]$', re.MULTILINE)


def write(repository: str | None, ref: str = "main") -> tuple[list[Path], list[Path]]:
    """Write badges and setup cells for a repository, or take the badges out.

    Args:
        repository: ``OWNER/NAME`` on GitHub; ``None`` leaves no badge and no address.
        ref: the tag or branch they open.

    Returns:
        The files that changed, and the executed notebooks that were left alone because they are
        not in step with their sources: they want executing first.

    Raises:
        NotebookError: for a repository or ref that cannot be one, or a text without a place for
            badge or cell; nothing has been written then.
    """
    if repository is not None and not REPOSITORY.fullmatch(repository):
        raise NotebookError(f"{repository!r} is not a repository; give it as OWNER/NAME")
    if not REF.fullmatch(ref):
        raise NotebookError(f"{ref!r} is not a tag or branch")
    readme = paths.root() / "README.md"
    texts: dict[Path, str] = {}
    behind: list[Path] = []
    if readme.exists():
        texts[readme] = with_badges(readme.read_text(encoding="utf-8"), OVERVIEW, repository, ref)
    for name in notebooks.names():
        source = notebooks.source_path(name)
        texts[source] = stamped(source.read_text(encoding="utf-8"), name, repository, ref)
        executed = paths.notebooks() / f"{name}.ipynb"
        if executed.exists():
            text = _carried_over(executed, notebooks.build(name, texts[source]))
            if text is None:
                behind.append(executed)
            else:
                texts[executed] = text
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        files.write_text(path, texts[path])
    return changed, behind


def badges(name: str, repository: str, ref: str) -> str:
    """The badges of a notebook in Markdown, on one line: Colab, and Binder unless it trains."""
    where = f"notebooks/{name}.ipynb"
    at = quote(ref, safe="")
    links = {
        ("Colab", "open in", "F9AB00", "googlecolab"): (
            f"https://colab.research.google.com/github/{repository}/blob/{quote(ref)}/{where}"
        ),
    }
    if not TRAINING.match(name):
        links["Binder", "launch", "579ACA", "jupyter"] = (
            f"https://mybinder.org/v2/gh/{repository}/{at}?urlpath={quote(f'lab/tree/{where}', '')}"
        )
    return " ".join(
        f"[![{verb} {title}](https://img.shields.io/badge/{quote(verb)}-{title}-{colour}"
        f"?logo={logo})]({link})"
        for (title, verb, colour, logo), link in links.items()
    )


def with_badges(
    text: str, name: str, repository: str | None, ref: str = "main", *, comment: str = ""
) -> str:
    """Markdown with its badges under the first title and nowhere else.

    Args:
        text: the Markdown.
        name: the notebook that the badges open.
        repository: ``OWNER/NAME``; ``None`` takes badges out.
        ref: the tag or branch they open.
        comment: what stands before each line, ``"# "`` in py:percent.

    Raises:
        NotebookError: for a text without a title.
    """
    empty = comment.rstrip()
    marks = [re.escape(comment + mark) for mark in (START, END)]
    block = rf"^{empty}\n{marks[0]}\n(?:.*\n)*?{marks[1]}\n"
    text = re.sub(block, "", text, flags=re.MULTILINE)
    title = re.search(rf"^{comment}# .+\n", text, re.MULTILINE)
    if title is None:
        raise NotebookError(f"{name} has no title to put badges under")
    if repository is None:
        return text
    lines = (START, badges(name, repository, ref), END)
    new = f"{empty}\n" + "".join(f"{comment}{line}\n" for line in lines)
    return text[: title.end()] + new + text[title.end() :]


def setup_cell(repository: str | None, ref: str = "main") -> str:
    """The first code cell of every notebook, in py:percent."""
    address = f"https://github.com/{repository}" if repository else ""
    return _SETUP.format(address=address, ref=ref if repository else "")


def stamped(source: str, name: str, repository: str | None, ref: str = "main") -> str:
    """A notebook's source with its badges and its setup cell, just before the parameters.

    Raises:
        NotebookError: for a source without a cell of parameters.
    """
    source = _SETUP_CELL.sub("", source)
    place = _PARAMETERS.search(source)
    if place is None:
        raise NotebookError(f"{name} has no cell tagged 'parameters'")
    source = source[: place.start()] + setup_cell(repository, ref) + source[place.start() :]
    return with_badges(source, name, repository, ref, comment="# ")


def _carried_over(path: Path, built: nbformat.NotebookNode) -> str | None:
    """An executed notebook with the cells of its new source and the outputs it had.

    ``None`` if its cells are not those of the source.
    """
    old = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    kept = [cell for cell in old.cells if "setup" not in cell.metadata.get("tags", [])]
    fresh = [cell for cell in built.cells if "setup" not in cell.metadata.get("tags", [])]
    if [_plain(cell) for cell in kept] != [_plain(cell) for cell in fresh]:
        return None
    outputs = iter(kept)
    executed = any(cell.get("execution_count") for cell in kept)
    count = 0
    for cell in built.cells:
        setup = "setup" in cell.metadata.get("tags", [])
        twin = None if setup else next(outputs)
        if cell.cell_type == "code":
            cell.outputs = twin.outputs if twin else []
            if executed:  # it prints nothing and changes nothing where the library is
                count += 1
                cell.execution_count = count
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = cell.execution_count
    built.metadata = old.metadata
    return nbformat.writes(built) + "\n"


def _plain(cell: nbformat.NotebookNode) -> tuple[str, str]:
    """Kind and text of a cell without its badges."""
    if cell.cell_type != "markdown" or START not in cell.source:
        return cell.cell_type, cell.source
    block = rf"\n\n{re.escape(START)}\n(?:.*\n)*?{re.escape(END)}"
    return cell.cell_type, re.sub(block, "", cell.source)
