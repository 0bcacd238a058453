"""Studies whose definition was fixed before their first run.

``paper/registered.toml`` holds, for each such study, the hash of its definition and the day it was
fixed. A study that differs from what was fixed is refused: its runs would no longer answer the
question that was asked. What is added later goes into ``Study.added``.
"""

from __future__ import annotations

import hashlib
import time
import tomllib
from pathlib import Path

from .. import files, paths
from ..runs.config import ConfigError
from .study_types import Study


def path() -> Path:
    """``paper/registered.toml``."""
    return paths.root() / "paper" / "registered.toml"


def digest(study: Study) -> str:
    """SHA-256 of a study's definition, its first sixteen hex digits."""
    return hashlib.sha256(study.definition().encode()).hexdigest()[:16]


def registered() -> dict[str, dict[str, str]]:
    """``hash`` and ``fixed`` (a day) of each registered study, by name."""
    if not path().exists():
        return {}
    found: dict[str, dict[str, str]] = tomllib.loads(path().read_text(encoding="utf-8"))
    return found


def check(study: Study) -> None:
    """Make sure that a study is what was fixed; one that was never registered passes.

    Raises:
        ConfigError: if its definition has changed since, with both hashes and the mend.
    """
    entry = registered().get(study.name)
    if entry is not None and entry["hash"] != digest(study):
        raise ConfigError(
            f"study {study.name} was fixed on {entry['fixed']} as {entry['hash']} and is "
            f"{digest(study)} now; undo the change, name added methods in its `added`, or make a "
            "study of another name"
        )


def register(study: Study) -> None:
    """Fix a study's definition, before its first run.

    Raises:
        ConfigError: if it is registered already.
    """
    found = registered()
    if study.name in found:
        check(study)
        raise ConfigError(f"study {study.name} was fixed on {found[study.name]['fixed']} already")
    found[study.name] = {"hash": digest(study), "fixed": time.strftime("%Y-%m-%d", time.gmtime())}
    parts = [
        f'[{name}]\nhash = "{entry["hash"]}"\nfixed = {entry["fixed"]!r}\n'.replace("'", '"')
        for name, entry in sorted(found.items())
    ]
    head = (
        "# Studies fixed before their first run: hash of the definition, and the day. Written by\n"
        "# `python -m weince_lib.studies.sweep register STUDY`; not edited by hand.\n\n"
    )
    files.write_text(path(), head + "\n".join(parts))
