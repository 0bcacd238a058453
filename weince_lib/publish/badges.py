"""Badges that open README and notebooks in Colab and on Binder, and the cell Colab needs.

The companion has no address of its own. :func:`write` puts one in: badges under the titles, and
the repository into each notebook's first code cell. The same call twice changes nothing, and
without a repository everything is taken out again.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

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
_SETUP_WITHOUT = """\
# %% tags=["setup"]
# `weince badges --repo OWNER/NAME` lets this cell install the library in Colab.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    raise ModuleNotFoundError("weince_lib is not installed; see README.md, or run `make lab`")

"""
_SETUP = """\
# %% tags=["setup"]
# In Colab this installs the library; torch, numpy and all else that is there keep their versions.
import importlib.util

if importlib.util.find_spec("weince_lib") is None:
    import runpy
    import subprocess

    clone = "git clone -q --depth=1 --branch={ref} https://github.com/{repository} weince"
    subprocess.run(clone.split(), check=True)
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
    texts = {}
    readme = paths.root() / "README.md"
    if readme.exists():
        texts[readme] = with_badges(readme.read_text(encoding="utf-8"), OVERVIEW, repository, ref)
    for name in notebooks.names():
        source = notebooks.source_path(name)
        texts[source] = stamped(source.read_text(encoding="utf-8"), name, repository, ref)
    changed = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in changed:
        files.write_text(path, texts[path])
    behind = []
    for name in notebooks.names():
        executed = paths.notebooks() / f"{name}.ipynb"
        if not executed.exists():
            continue
        before = executed.read_bytes()
        try:
            notebooks.refresh(name)
        except NotebookError:
            behind.append(executed)
        if executed.read_bytes() != before:
            changed.append(executed)
    return changed, behind


def badges(name: str, repository: str, ref: str) -> str:
    """The badges of a notebook in Markdown, on one line: Colab, and Binder unless it trains."""
    where = f"notebooks/{name}.ipynb"
    colab = f"https://colab.research.google.com/github/{repository}/blob/{quote(ref)}/{where}"
    line = _badge("open in", "Colab", "F9AB00?logo=googlecolab", colab)
    if TRAINING.match(name):
        return line
    place = quote(f"lab/tree/{where}", safe="")
    binder = f"https://mybinder.org/v2/gh/{repository}/{quote(ref, safe='')}?urlpath={place}"
    return f"{line} {_badge('launch', 'Binder', '579ACA?logo=jupyter', binder)}"


def _badge(verb: str, title: str, look: str, link: str) -> str:
    picture = f"https://img.shields.io/badge/{quote(verb)}-{title}-{look}"
    return f"[![{verb} {title}]({picture})]({link})"


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
    start, end = (re.escape(comment + mark) for mark in (START, END))
    text = re.sub(rf"^{empty}\n{start}\n(?:.*\n)*?{end}\n", "", text, flags=re.MULTILINE)
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
    return _SETUP.format(repository=repository, ref=ref) if repository else _SETUP_WITHOUT


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
