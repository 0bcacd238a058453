"""JupyterLab on the companion's notebooks, with this environment's kernel and a port that is free.

Jupyter itself finds a port too, but says on failure only that there is none, and a kernel of the
user's own settings could take the place of the environment's.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from .. import paths
from ..errors import WeinceError
from . import notebooks

#: Where Jupyter looks first, and how many ports from there are tried.
FIRST_PORT, PORTS = 8888, 50
#: Defaults for JupyterLab: it neither asks to fetch news nor looks for updates of itself, as the
#: companion runs offline. What a user has chosen in the settings counts more.
SETTINGS = Path(__file__).with_name("jupyter")


class LabError(WeinceError):
    """JupyterLab cannot be started here; the message says why and what to do."""


def free_port(first: int = FIRST_PORT, count: int = PORTS) -> int:
    """The first port of this machine's loopback interface that nothing listens on.

    Args:
        first: the port to begin with.
        count: ports to try, one after the other.

    Raises:
        LabError: if none of them is free, naming them.
    """
    if not 1 <= first <= 65535:
        raise LabError(f"port {first} does not exist; ports go from 1 to 65535")
    last = min(first + count - 1, 65535)
    for port in range(first, last + 1):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # As servers do: a connection closed a moment ago does not count as a listener.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    tried = f"port {first} is" if last == first else f"ports {first} to {last} are"
    raise LabError(f"{tried} all taken; stop a server, or name another: make lab PORT=9000")


def lab_command(
    notebook: str = "00_overview", *, port: int = 0, more: Sequence[str] = ()
) -> list[str]:
    """The command that opens a notebook in JupyterLab.

    Args:
        notebook: its name, with or without suffix.
        port: to listen on; 0 takes the first that is free.
        more: further options of ``jupyter lab``.

    Raises:
        NotebookError: for a notebook that does not exist.
        LabError: without JupyterLab in this environment, or without a free port.
    """
    name = notebooks.source_path(notebook).stem
    if find_spec("jupyterlab") is None:
        raise LabError("JupyterLab is not installed here; pip install -e '.[companion]'")
    chosen = free_port(port, 1) if port else free_port()
    return [
        *(sys.executable, "-m", "jupyterlab", f"{name}.ipynb"),
        *(f"--port={chosen}", "--ServerApp.port_retries=0", *more),
    ]


def open_lab(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """Become the server that :func:`lab_command` names, in the notebooks' folder."""
    searched = [str(SETTINGS), *filter(None, [environment.get("JUPYTER_CONFIG_PATH")])]
    ours = {
        "JUPYTER_CONFIG_PATH": os.pathsep.join(searched),
        # Kernels of this environment go before those in the user's home.
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    os.chdir(paths.notebooks())
    kept = {k: v for k, v in environment.items() if k not in notebooks.NOT_FOR_KERNELS}
    os.execve(command[0], list(command), {**kept, **ours})
