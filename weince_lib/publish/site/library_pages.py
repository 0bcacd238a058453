"""The library's reference: one page for each room, from the docstrings.

What to document is read from the source, without importing anything: the names in a room's
``__all__``, and the public names of its files that are not among them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

from ... import paths

#: Not for a reader's import: the command line, this, and a helper for whole files.
NO_ROOMS = {"cli", "files", "site"}


def rooms() -> list[str]:
    """The library's rooms, in alphabetical order."""
    library = paths.root() / "weince_lib"
    found = [p.parent.name for p in library.glob("*/__init__.py")]
    found += [p.stem for p in library.glob("*.py")]
    return sorted(name for name in found if name[0] != "_" and name not in NO_ROOMS)


def library_page(room: str) -> str:
    """The reference of one room in reStructuredText; ``""`` is the package itself."""
    library = paths.root() / "weince_lib"
    module = f"weince_lib.{room}" if room else "weince_lib"
    folder = library / room
    parts = [_heading(module, "="), f".. automodule:: {module}"]
    if not folder.is_dir():
        return "\n\n".join([*parts, _documented(module, defined(folder.with_suffix(".py")))]) + "\n"
    files = _files(folder)
    kinds: dict[str, str] = {}
    for file in files:
        kinds = defined(file) | kinds
    # Constants are documented where they are written: only there does their comment belong to them.
    offered = {n: kinds.get(n, "data") for n in exported(folder / "__init__.py")}
    offered = {name: kind for name, kind in offered.items() if kind != "data"}
    if offered:
        documented = _documented(module, offered)
        if not room:  # what the package offers is at home in its rooms, where the index leads
            documented = re.sub(r"(?m)^(\.\. auto.*)$", r"\1\n   :no-index:", documented)
        parts += [_heading("What it offers", "-"), documented]
    if room:
        parts += [_submodule(file, module, offered) for file in files]
    return "\n\n".join(part for part in parts if part) + "\n"


def exported(path: Path) -> list[str]:
    """The names in a file's ``__all__``; none if it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            return [str(name) for name in names]
    return []


def defined(path: Path) -> dict[str, str]:
    """The public, documented names a file defines, each with what it is.

    ``class`` and ``function`` with a docstring, and ``data`` with a ``#:`` comment above it.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if ast.get_docstring(node):
                found[node.name] = "class" if isinstance(node, ast.ClassDef) else "function"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and lines[node.lineno - 2].startswith("#:"):
                found[target.id] = "data"
    return {name: kind for name, kind in found.items() if name[0] != "_"}


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py") if not p.stem.startswith("_"))


def _submodule(file: Path, package: str, offered: Mapping[str, str]) -> str:
    """A section on what a file defines beyond what its package offers; empty for nothing."""
    module = ".".join(file.relative_to(paths.root()).with_suffix("").parts)
    names = {name: kind for name, kind in defined(file).items() if name not in offered}
    if not names:
        return ""
    # Some files are named like the function in them; only one of the two goes into the index.
    head = [
        _heading(module.removeprefix(f"{package}."), "-"),
        f".. automodule:: {module}\n   :no-index:",
    ]
    return "\n\n".join([*head, _documented(module, names)])


def _documented(module: str, names: Mapping[str, str]) -> str:
    """Directives for names of a module."""
    return "\n\n".join(
        f".. auto{kind}:: {module}.{name}" + ("\n   :members:" if kind == "class" else "")
        for name, kind in names.items()
    )


def _heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"
