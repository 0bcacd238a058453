"""Run notebooks in batch: parameters checked, executed aside, moved into place when whole.

Each notebook exists twice: ``notebooks/source/NAME.py`` (py:percent, what people edit) and
``notebooks/NAME.ipynb`` (the same, executed in the quick profile).
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import jupytext
import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill import PapermillExecutionError
from pydantic import Field, TypeAdapter, ValidationError

from .. import files, paths
from ..errors import WeinceError
from ..runs.config import AUTO

#: Seconds a single cell may take in the quick profile before the run is stopped.
CELL_TIMEOUT = 600
#: Settings of the caller's that kernels do not take over: a plot backend for scripts without a
#: screen would leave a notebook without figures, and without ``assert`` nothing is checked.
NOT_FOR_KERNELS = ("MPLBACKEND", "PYTHONOPTIMIZE")
#: Characters of an executed copy's parameters in its name. File systems take 255 of a name; the
#: notebook's own, a suffix and a temporary file's prefix need some of them.
LONGEST_NAME = 150
#: What committed notebooks carry: the kernel every front end has, and nothing of this machine.
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


#: Where a reader starts.
OVERVIEW = "00_overview"
#: How an execution can fail: a cell raised, took too long, or the kernel died.
FAILURES = (PapermillExecutionError, CellTimeoutError, DeadKernelError)


class NotebookError(WeinceError):
    """A notebook that does not exist, or parameters it does not have."""


def names() -> list[str]:
    """All notebooks in reading order."""
    return sorted(path.stem for path in (paths.notebooks() / "source").glob("[0-9]*.py"))


def source_path(name: str) -> Path:
    """The py:percent source of a notebook, named with or without suffix.

    Raises:
        NotebookError: if there is none, with the known ones listed.
    """
    stem = Path(name).stem if name.endswith((".py", ".ipynb")) else name
    path = paths.notebooks() / "source" / f"{stem}.py"
    if not path.exists():
        raise NotebookError(f"unknown notebook {stem!r}; known: {', '.join(names())}")
    return path


def title(name: str) -> str:
    """The notebook's title, the first heading of its source.

    Raises:
        NotebookError: if its source does not begin with one.
    """
    source = source_path(name).read_text(encoding="utf-8")
    found = re.match(r"(?s)(?:.*?^)?# %% \[markdown\]\n# # ([^\n]+)\n", source, re.MULTILINE)
    if found is None:
        raise NotebookError(f"{name} has no markdown cell that begins with a title, '# ...'")
    return found[1]


def build(name: str, text: str | None = None) -> nbformat.NotebookNode:
    """The unexecuted notebook made from its source, with stable cell ids.

    Args:
        name: the notebook's.
        text: its source; by default what :func:`source_path` holds.
    """
    if text is None:
        text = source_path(name).read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    for cell, own in zip(notebook.cells, _ids(notebook), strict=True):
        cell.id = own
        cell.metadata.pop("lines_to_next_cell", None)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    return notebook


def _ids(notebook: nbformat.NotebookNode) -> list[str]:
    """Each cell's id: one that depends on its text alone does not change when neighbours do."""
    seen: dict[str, int] = {}
    ids = []
    for cell in notebook.cells:
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
        seen[digest] = seen.get(digest, 0) + 1
        ids.append(digest if seen[digest] == 1 else f"{digest}-{seen[digest]}")
    return ids


def refuse_edited(name: str) -> None:
    """Refuse to write ``notebooks/NAME.ipynb`` anew if somebody edited it and not its source.

    A cell that was edited there, in JupyterLab for example, keeps the id of its former text.

    Raises:
        NotebookError: with the first such cell. Nothing is lost yet.
    """
    target = paths.notebooks() / f"{name}.ipynb"
    if not target.exists():
        return
    notebook = nbformat.read(target, as_version=4)
    for cell, own in zip(notebook.cells, _ids(notebook), strict=True):
        if cell.get("id", "").partition("-")[0] != own.partition("-")[0]:
            start = (cell.source.strip().splitlines() or ["an empty cell"])[0]
            raise NotebookError(
                f"notebooks/{name}.ipynb was edited and its source was not, at {start[:60]!r}; "
                f"make the edit in notebooks/source/{name}.py, "
                f"then drop the other: git checkout notebooks/{name}.ipynb"
            )


def parameters(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """The literals of the one cell tagged ``parameters``.

    Raises:
        NotebookError: if there is not exactly one such cell, or it holds anything but assignments
            of literals.
    """
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        raise NotebookError(f"{len(cells)} cells are tagged 'parameters'; there must be one")
    values: dict[str, Any] = {}
    for node in ast.parse(cells[0].source).body:
        single = isinstance(node, ast.Assign) and len(node.targets) == 1
        if not (single and isinstance(node.targets[0], ast.Name)):
            raise NotebookError(
                f"the parameters cell holds more than literals: {ast.unparse(node)}"
            )
        try:
            values[node.targets[0].id] = ast.literal_eval(node.value)
        except (ValueError, TypeError) as error:
            raise NotebookError(f"not a literal: {ast.unparse(node)}") from error
    return values


def check_parameters(name: str, given: Mapping[str, Any]) -> None:
    """Refuse parameters the notebook does not have, and values of another kind than its own.

    papermill itself would only log the first, and a cell fail on the second without naming it. What
    may stand in place of ``"auto"``, the settings it belongs to know and check.

    Raises:
        NotebookError: naming the nearest and all known parameters, or the value and its kind.
    """
    known = parameters(build(name))
    for parameter in given:
        if parameter not in known:
            near = difflib.get_close_matches(parameter, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise NotebookError(
                f"{name} has no parameter {parameter!r}{hint}; known: {', '.join(known)}"
            )
        usual, value = known[parameter], given[parameter]
        try:
            listed = list(value) if isinstance(value, tuple) else value
            TypeAdapter(_kind(usual)).validate_python(listed, strict=True)
        except ValidationError as error:
            why = error.errors()[0]["msg"]
            raise NotebookError(
                f"{name}: parameter {parameter!r}, such as {usual!r}, got {value!r}: {why}"
            ) from error


def _kind(usual: Any) -> Any:
    """The type that a value must have to stand for the one in the parameters cell."""
    if usual == AUTO:
        return Any
    if not isinstance(usual, list):
        return type(usual)
    part = type(usual[0]) if usual else Any
    return Annotated[list[part], Field(min_length=1)]  # type: ignore[valid-type]


def output_path(name: str, given: Mapping[str, Any]) -> Path:
    """Where an executed notebook goes: ``runs/notebooks/NAME[--parameters].ipynb``.

    Parameters that make a longer name than file systems take are cut, with a hash of them all.
    """
    words = [f"{key}={value}" for key, value in sorted(given.items())]
    tail = re.sub(r"[^A-Za-z0-9=.,_-]+", "_", ",".join(words))
    if len(tail) > LONGEST_NAME:
        digest = hashlib.sha256(",".join(words).encode()).hexdigest()[:8]
        tail = f"{tail[:LONGEST_NAME]}-{digest}"
    return paths.runs() / "notebooks" / (f"{name}--{tail}.ipynb" if tail else f"{name}.ipynb")


def run(
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    output: Path | None = None,
    timeout: int = CELL_TIMEOUT,
    progress: bool = False,
) -> Path:
    """Execute a notebook with papermill and return the executed copy's path.

    Args:
        name: for example ``"06_train_vision"``; the working directory does not matter.
        given: parameters to change.
        output: where to write; :func:`output_path` by default. Only a whole run is written: a
            failed one leaves an earlier output as it was, and its partial copy beside it under
            ``NAME.failed.ipynb``.
        timeout: seconds a cell may take.
        progress: show papermill's bar.

    Raises:
        NotebookError: for an unknown notebook or parameter, before anything runs.
        papermill.PapermillExecutionError: if a cell raised.
        nbclient.exceptions.CellTimeoutError: if a cell took too long.
        nbclient.exceptions.DeadKernelError: if the kernel died, for want of memory for example.
    """
    import papermill

    given = dict(given or {})
    source = build(name)
    check_parameters(name, given)
    target = (output or output_path(name, given)).absolute()
    with files.replacing(target) as aside:
        nbformat.write(source, aside)
        held = {v: os.environ.pop(v) for v in NOT_FOR_KERNELS if v in os.environ}
        try:
            papermill.execute_notebook(
                str(aside),
                str(aside),
                parameters=given,
                kernel_name=KERNEL["name"],
                cwd=str(paths.notebooks()),
                execution_timeout=timeout,
                progress_bar=progress,
                log_output=False,
                # Kernels listen on the loopback interface only; their warning about it is noise.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        except FAILURES:
            aside.replace(target.with_suffix(".failed.ipynb"))
            raise
        finally:
            os.environ.update(held)
        aside.write_text(tidy(aside.read_text(encoding="utf-8")), encoding="utf-8")
    target.with_suffix(".failed.ipynb").unlink(missing_ok=True)
    return target


def reason(error: Exception) -> str:
    """One line on why an execution failed."""
    if isinstance(error, PapermillExecutionError):
        why = error.evalue or error.source.strip().splitlines()[-1]
        return f"{error.ename}: {why}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def tidy(text: str) -> str:
    """An executed notebook without times, paths and other marks of the machine it ran on."""
    notebook = nbformat.reads(text, as_version=4)
    version = notebook.metadata.get("language_info", {}).get("version", "3")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": KERNEL,
            "language_info": {
                "name": "python",
                "file_extension": ".py",
                "mimetype": "text/x-python",
                "pygments_lexer": "ipython3",
                "version": ".".join(version.split(".")[:1]),
            },
        }
    )
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if "hide-input" in tags:  # what the site folds away, JupyterLab folds as well
            cell.metadata["jupyter"] = {"source_hidden": True}
        if cell.cell_type == "code":
            for out in cell.outputs:
                out.pop("metadata", None) if out.output_type == "stream" else None
    return nbformat.writes(notebook) + "\n"


def execute_reference(name: str) -> Path:
    """Rebuild ``notebooks/NAME.ipynb`` from its source, executed with default parameters.

    Raises:
        NotebookError: if the notebook was edited and its source was not; otherwise as :func:`run`.
    """
    refuse_edited(name)
    return run(name, output=paths.notebooks() / f"{name}.ipynb")


def refresh(name: str) -> Path:
    """Bring the text of ``notebooks/NAME.ipynb`` up to its source without executing anything.

    Outputs are kept, each with the code cell that made it.

    Raises:
        NotebookError: if the notebook does not exist yet, or code differs from the source's: then
            the outputs would not be those of the code above them. Also if the notebook was edited
            and its source was not: the edit would be lost.
    """
    target = paths.notebooks() / f"{name}.ipynb"
    advice = f"execute it with `weince notebooks {name}`"
    if not target.exists():
        raise NotebookError(f"notebooks/{name}.ipynb does not exist; {advice}")
    refuse_edited(name)
    text = target.read_text(encoding="utf-8")
    old, new = nbformat.reads(text, as_version=4), build(name)
    executed, code = ([c for c in nb.cells if c.cell_type == "code"] for nb in (old, new))
    if [_compared(cell) for cell in executed] != [_compared(cell) for cell in code]:
        raise NotebookError(f"notebooks/{name}.ipynb has other code than its source; {advice}")
    for cell, done in zip(code, executed, strict=True):
        cell.outputs, cell.execution_count = done.outputs, done.execution_count
    new.metadata = old.metadata
    fresh = tidy(nbformat.writes(new))
    if fresh != text:
        files.write_text(target, fresh)
    return target


def _compared(cell: nbformat.NotebookNode) -> str:
    """The code that outputs depend on: the setup cell has none, whatever its address."""
    return "" if "setup" in cell.metadata.get("tags", []) else str(cell.source)


def parse_value(text: str) -> Any:
    """A parameter from the command line: JSON or Python literal if it is one, else the text."""
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, SyntaxError):
            continue
    return text
