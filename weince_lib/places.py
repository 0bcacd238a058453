"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder of all downloaded data: ``$WEINCE_DATA``, else ``data/`` under the project root.

    The root is ``$WEINCE_HOME``, else the checkout that this package lies in, else (only the
    library is installed) the working directory. A relative ``$WEINCE_DATA`` starts at the root, so
    that a notebook's kernel and the command that started it mean the same folder.
    """
    named = os.environ.get("WEINCE_DATA") or "data"
    return _root() / Path(named).expanduser()


def _root() -> Path:
    if home := os.environ.get("WEINCE_HOME"):
        return Path(home).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "notebooks").is_dir() else Path.cwd()
