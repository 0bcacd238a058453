"""JupyterLab on the companion's notebooks, with this environment's kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from .. import paths
from ..errors import MissingPackageError
from . import notebooks

#: Defaults for JupyterLab: it neither asks to fetch news nor looks for updates of itself, as the
#: companion runs offline. What a user has chosen in the settings counts more.
SETTINGS = Path(__file__).with_name("jupyter")


def open_lab(notebook: str, port: int = 0, more: Sequence[str] = ()) -> None:
    """Become the server that shows a notebook, in the notebooks' folder.

    Args:
        notebook: its name, with or without suffix.
        port: to listen on; 0 takes the first free one of fifty from 8888.
        more: further options of ``jupyter lab``.

    Raises:
        NotebookError: for a notebook that does not exist.
        MissingPackageError: without JupyterLab in this environment.
    """
    name = notebooks.source_path(notebook).stem
    if find_spec("jupyterlab") is None:
        raise MissingPackageError("JupyterLab is not installed; pip install -e '.[companion]'")
    # A port that was asked for and is taken ends the server with one line; no other is taken.
    ports = (f"--port={port}", "--ServerApp.port_retries=0") if port else ("--port=8888",)
    command = [sys.executable, "-m", "jupyterlab", f"{name}.ipynb", *ports, *more]
    kept = {k: v for k, v in os.environ.items() if k not in notebooks.NOT_FOR_KERNELS}
    searched = [str(SETTINGS), *filter(None, [kept.get("JUPYTER_CONFIG_PATH")])]
    kept["JUPYTER_CONFIG_PATH"] = os.pathsep.join(searched)
    # Kernels of this environment go before those in the user's home.
    kept["JUPYTER_PREFER_ENV_PATH"] = "1"
    os.chdir(paths.notebooks())
    os.execve(command[0], command, kept)
