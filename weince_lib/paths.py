"""Where things are: the companion's root, its data, its runs, its committed results.

Paths never depend on the working directory: papermill runs a notebook in its caller's, nbval in
the notebook's own.
"""

from __future__ import annotations

import os
from pathlib import Path


def root() -> Path:
    """The companion's folder: ``$WEINCE_HOME``, else the checkout this package lies in.

    Raises:
        FileNotFoundError: if neither holds the notebooks (the bare library was installed).
    """
    folder = _home()
    if not (folder / "notebooks").is_dir():
        raise FileNotFoundError(
            f"{folder} holds no notebooks; set WEINCE_HOME to a checkout of the companion"
        )
    return folder


def _home() -> Path:
    if named := os.environ.get("WEINCE_HOME"):
        return Path(named).expanduser().absolute()
    return Path(__file__).resolve().parents[1]


def _folder(variable: str, default: str) -> Path:
    """The folder that a variable names; empty counts as not set, and ``~`` is the user's home.

    A relative name starts at the root: a kernel and the command that started it both find it.

    Raises:
        FileNotFoundError: if something is there that is no folder.
    """
    named = os.environ.get(variable)
    folder = root() / Path(named or default).expanduser()
    if folder.exists() and not folder.is_dir():
        raise FileNotFoundError(f"{variable}={named or default} is no folder; name another")
    return folder


def runs() -> Path:
    """Generated records, checkpoints and executed notebooks: ``$WEINCE_RUNS`` or ``runs/``."""
    return _folder("WEINCE_RUNS", "runs")


def keep_runs_in(folder: str | Path) -> Path:
    """Keep this process's runs in a folder that outlasts it, such as one of a mounted drive.

    Args:
        folder: made if it is missing; the folder above it must be there. A relative name starts
            at the root.

    Raises:
        FileNotFoundError: if the folder above is missing. A drive that is not mounted looks so,
            and what was written in its place would be lost with the session.
    """
    chosen = (root() / Path(folder).expanduser()).absolute()
    if not chosen.parent.is_dir():
        raise FileNotFoundError(
            f"{chosen.parent} is not there, so that runs cannot be kept in {chosen.name!r} in it; "
            "mount the drive or make the folder first"
        )
    chosen.mkdir(exist_ok=True)
    os.environ["WEINCE_RUNS"] = str(chosen)
    return chosen


def notebooks() -> Path:
    """The notebooks, executed with outputs; their sources are in ``source/`` below."""
    return root() / "notebooks"


def figures() -> Path:
    """Generated figures, PNG and PDF: ``$WEINCE_FIGURES`` or ``figures/``."""
    return _folder("WEINCE_FIGURES", "figures")


def results() -> Path:
    """Tidy tables of our records: ``$WEINCE_RESULTS`` or ``paper/results/``."""
    return _folder("WEINCE_RESULTS", "paper/results")


def committed_results() -> Path:
    """The tables that are committed, wherever this process writes its own."""
    return root() / "paper" / "results"


def encoders() -> Path | None:
    """Frozen encoders that are committed: ``$WEINCE_ENCODERS`` or ``paper/results/encoders/``.

    ``None`` where the variable is empty: then no committed encoder counts and all are trained.
    """
    if os.environ.get("WEINCE_ENCODERS") == "":
        return None
    return _folder("WEINCE_ENCODERS", "paper/results/encoders")


#: What :func:`keep_retrained_in` sets.
RETRAINED_VARIABLES = ("WEINCE_RUNS", "WEINCE_FIGURES", "WEINCE_ENCODERS")


def keep_retrained_in(folder: Path) -> Path:
    """Keep this process's runs and figures in a folder, and let no committed encoder count."""
    os.environ["WEINCE_ENCODERS"] = ""
    os.environ["WEINCE_FIGURES"] = str(folder / "figures")
    return keep_runs_in(folder)


def data() -> Path:
    """Downloaded data sets: ``$WEINCE_DATA`` or ``data/``.

    A relative name starts at the root. Where only the library is installed and there is no root, it
    starts in the working directory.
    """
    named = os.environ.get("WEINCE_DATA") or "data"
    home = _home()
    bare = not os.environ.get("WEINCE_HOME") and not (home / "notebooks").is_dir()
    return (Path.cwd() if bare else home) / Path(named).expanduser()


def reported() -> Path:
    """The paper's own numbers."""
    return root() / "paper" / "reported"
