"""The notebooks in reading order: their headers and the contents of ``00_overview``, generated.

``paper/reading.toml`` says what each notebook covers. From it, from the measured times, the imports
and the claims comes one markdown cell below a notebook's title, tagged ``header``, and one in the
overview, tagged ``contents``; everything else in a notebook is its author's.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import tomllib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from .. import files, paths
from ..runs.config import PROFILES, parse
from . import notebooks
from .claims import load_claims
from .notebooks import NotebookError

#: Rooms of the library that every notebook uses and that explain nothing about it.
EVERYWHERE = {"experiments", "plots"}
OVERVIEW = "00_overview"


class Entry(BaseModel):
    """What a reader is told about one notebook; see the head of ``paper/reading.toml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    paper: str
    about: str
    longer: dict[str, str] = {}


def load_reading() -> dict[str, Entry]:
    """``paper/reading.toml`` by notebook.

    Raises:
        ConfigError: for a field that is missing, unknown or of a wrong type.
    """
    text = (paths.root() / "paper" / "reading.toml").read_text(encoding="utf-8")
    entries = [parse(Entry, item) for item in tomllib.loads(text)["notebook"]]
    return {entry.name: entry for entry in entries}


def load_seconds() -> dict[str, float]:
    """Measured processor time of each notebook in the quick profile; empty if none was."""
    path = paths.results() / "notebook_seconds.csv"
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {row["notebook"]: float(row["seconds"]) for row in csv.DictReader(lines)}


def note_seconds(name: str, seconds: float) -> None:
    """Keep a measured time, unless it reads the same as the one that is there.

    Committed files would otherwise change with every execution.
    """
    known = load_seconds()
    if name in known and spell(known[name]) == spell(seconds):
        return
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["notebook", "seconds"])
    writer.writerows(sorted((known | {name: round(seconds)}).items()))
    files.write_text(paths.results() / "notebook_seconds.csv", out.getvalue())


def spell(seconds: float) -> str:
    """A duration as one would say it."""
    if seconds < 20:
        return "seconds"
    if seconds < 45:
        return "half a minute"
    return "a minute" if seconds < 90 else f"{round(seconds / 60)} minutes"


def title(name: str) -> str:
    """The notebook's own title, the first heading of its source.

    Raises:
        NotebookError: if its source does not begin with one.
    """
    source = notebooks.source_path(name).read_text(encoding="utf-8")
    return _split_title(name, source)[1]


def header(name: str) -> str:
    """The markdown of a notebook's header.

    Raises:
        NotebookError: if ``paper/reading.toml`` does not have the notebook.
    """
    entry = _entry(name)
    about = [f"**Paper:** {entry.paper}", f"**Time:** {_times(entry)}"]
    treated = sum(claim.notebook == name for claim in load_claims())
    if treated:
        claims = f"{treated} of the paper's" if treated > 1 else "one of the paper's"
        about.append(f"**Claims:** [{claims}](../paper/claims.toml)")
    rooms = [f"[{room}](../weince_lib/{file})" for room, file in _rooms(name)]
    if rooms:
        about.append(f"**Library:** {', '.join(rooms)}")
    order = notebooks.names()
    at = order.index(name)
    steps = [f"[← {_plain(n)}]({n}.ipynb)" for n in order[max(at - 1, 0) : at]]
    if at > 1:
        steps.append(f"[Contents]({OVERVIEW}.ipynb)")
    steps += [f"[{_plain(n)} →]({n}.ipynb)" for n in order[at + 1 : at + 2]]
    return " \\\n".join(about) + "\n\n" + " | ".join(steps)


def contents() -> str:
    """The markdown of the overview's list of notebooks."""
    lines = ["| notebook | paper | what runs there | quick profile |", "|---|---|---|---|"]
    for name in notebooks.names():
        if name != OVERVIEW:
            entry = _entry(name)
            cells = (f"[{title(name)}]({name}.ipynb)", entry.paper, entry.about, _quick(entry))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_generated(name: str, source: str) -> str:
    """A py:percent source with its generated cells as they should be.

    The first time, the header goes below the title, and an author's line ``*Paper: ...*`` gives way
    to it. Applied twice, nothing changes.
    """
    if _generated_cell("header").search(source):
        source = _replace_cell(source, "header", header(name))
    else:
        start, _, rest = _split_title(name, source)
        rest = re.sub(r"\A(?:#\n)*# \*Paper: [^*]*\*\n", "", rest)
        rest = re.sub(r"\A(?:#\n)+", "", rest)
        if rest and not rest.startswith(("\n", "# %%")):
            rest = f"\n# %% [markdown]\n{rest}"
        source = f"{start}\n{_cell('header', header(name))}{rest}"
    if name == OVERVIEW:
        if not _generated_cell("contents").search(source):
            raise NotebookError(f"{name} has no markdown cell tagged 'contents'")
        source = _replace_cell(source, "contents", contents())
    return source


def update(only: Iterable[str] = ()) -> list[str]:
    """Write the generated cells into sources and committed notebooks; nothing is executed.

    Args:
        only: these notebooks; all by default.

    Returns:
        The notebooks whose source changed.

    Raises:
        NotebookError: if a notebook's code differs from its source's; its source is updated.
    """
    changed = []
    for name in list(only) or notebooks.names():
        path = notebooks.source_path(name)
        source = path.read_text(encoding="utf-8")
        fresh = with_generated(name, source)
        if fresh != source:
            files.write_text(path, fresh)
            changed.append(name)
    for name in list(only) or notebooks.names():
        notebooks.refresh(name)
    return changed


def _entry(name: str) -> Entry:
    entries = load_reading()
    if name not in entries:
        raise NotebookError(f"paper/reading.toml says nothing about {name}; add it there")
    return entries[name]


def _quick(entry: Entry) -> str:
    seconds = load_seconds().get(entry.name)
    return "not measured" if seconds is None else spell(seconds)


def _times(entry: Entry) -> str:
    unknown = entry.longer.keys() - set(PROFILES)
    if unknown:
        raise NotebookError(f"paper/reading.toml, {entry.name}: no profile {sorted(unknown)}")
    times = {"quick": f"{_quick(entry)} (one core)", **entry.longer}
    return "; ".join(f"`{profile}` {time}" for profile, time in times.items())


def _rooms(name: str) -> list[tuple[str, str]]:
    """Rooms of the library a notebook imports from, each with the file that lists its names."""
    found = set()
    for cell in notebooks.build(name).cells:
        if cell.cell_type != "code":
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom) and node.module:
                package, *below = node.module.split(".")
                if package == "weince_lib":
                    found |= {below[0]} if below else {alias.name for alias in node.names}
    library = paths.root() / "weince_lib"
    rooms = []
    for room in sorted(found - EVERYWHERE):
        for file in (f"{room}/__init__.py", f"{room}.py"):
            if (library / file).exists():
                rooms.append((room, file))
    return rooms


def _plain(name: str) -> str:
    return f"{name[:2]} · Overview" if name == OVERVIEW else title(name)


def _split_title(name: str, source: str) -> tuple[str, str, str]:
    """A source up to the end of its title's line, the title, and what follows."""
    found = re.match(r"(?s)(.*?^# %% \[markdown\]\n# # ([^\n]+)\n)(.*)", source, re.MULTILINE)
    if found is None:
        raise NotebookError(f"{name} has no markdown cell that begins with a title, '# ...'")
    return found[1], found[2], found[3]


def _generated_cell(tag: str) -> re.Pattern[str]:
    return re.compile(
        rf'^# %% \[markdown\] tags=\["{tag}"\]\n(?:#[^\n]*\n)+?(?=\n|# %%|\Z)', re.MULTILINE
    )


def _cell(tag: str, markdown: str) -> str:
    lines = [f"# {line}".rstrip() for line in markdown.splitlines()]
    return "\n".join([f'# %% [markdown] tags=["{tag}"]', *lines]) + "\n"


def _replace_cell(source: str, tag: str, markdown: str) -> str:
    return _generated_cell(tag).sub(lambda _: _cell(tag, markdown), source, count=1)
