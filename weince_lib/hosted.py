"""Install this checkout beside packages that must keep their versions, as in Colab.

A notebook's first cell runs this file where ``weince_lib`` is missing, by path and before the
library can be imported: it needs the standard library and pip, nothing else. The package itself
goes in without its dependencies; of these only the ones that are not there at all follow, held by
constraints made from what is installed. So torch, numpy and the rest stay as the host made them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

#: What the notebooks need of pyproject.toml's extras.
EXTRA = "companion"
#: Large, and not needed in a session: the command line's pipeline, a front end beside the host's.
LEFT_OUT = {"snakemake", "jupyterlab"}


class HostedError(Exception):
    """The installation failed; the message holds pip's last words."""


def canonical(name: str) -> str:
    """A distribution's name as package indices compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Versions of everything that can be imported here, by canonical name."""
    # The first of a name on the path is the one that counts.
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(canonical(name), distribution.version)
    return found


def requirements(pyproject: Path, extra: str = EXTRA) -> list[str]:
    """The requirements of the package with an extra, as pyproject.toml has them.

    Args:
        pyproject: the file.
        extra: its name; extras it includes are followed.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    found = list(project["dependencies"])
    waiting = [extra]
    while waiting:
        for requirement in project["optional-dependencies"][waiting.pop()]:
            included = re.fullmatch(rf"{re.escape(project['name'])}\[(.+)\]", requirement)
            if included:
                waiting += included[1].split(",")
            else:
                found.append(requirement)
    return found


def missing(wanted: Iterable[str], here: Mapping[str, str]) -> list[str]:
    """Those requirements whose package is not installed in any version."""
    names = {text: canonical(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in wanted}
    return [text for text, name in names.items() if name not in here and name not in LEFT_OUT]


def older(wanted: Iterable[str], here: Mapping[str, str]) -> list[str]:
    """One sentence for each installed package that is older than the release we test from.

    Args:
        wanted: requirements, with their lower bound as ``>=``.
        here: installed versions by canonical name.
    """
    found = []
    for text in wanted:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[.*\])?\s*>=\s*([0-9.]+).*", text)
        version = here.get(canonical(match[1])) if match else None
        if match and version and _release(version) < _release(match[2]):
            found.append(f"{match[1]} {version} is here; {match[2]} or later is what we test")
    return found


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a release, without zeros at the end: enough to tell an older one."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def constraints(here: Mapping[str, str]) -> str:
    """A pip constraints file that holds every installed version."""
    # Versions that no index could serve (of a debug build, say) would stop pip from reading it.
    usual = re.compile(r"[0-9][0-9A-Za-z.!+-]*")
    lines = [f"{name}=={version}" for name, version in here.items() if usual.fullmatch(version)]
    return "\n".join(sorted(lines)) + "\n"


def install(checkout: Path) -> list[str]:
    """Install a checkout and what it lacks, and make it importable in this process.

    Args:
        checkout: the folder that holds pyproject.toml.

    Returns:
        The requirements that were missing.

    Raises:
        HostedError: if pip failed; nothing that was installed before has been changed.
    """
    here = installed()
    wanted = requirements(checkout / "pyproject.toml")
    absent = missing(wanted, here)
    _pip("--no-deps", "--editable", str(checkout))
    if absent:
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder) / "constraints.txt"
            held.write_text(constraints(here), encoding="utf-8")
            _pip("--constraint", str(held), *absent)
    now = installed()
    changed = [n for n, v in here.items() if now.get(n) != v and n != "weince-lib"]
    if changed:
        raise HostedError(f"these have changed their version: {', '.join(changed)}; please report")
    # This process read its path files before the package was there.
    sys.path.insert(0, str(checkout))
    for sentence in older(wanted, here):
        print(sentence)
    return absent


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *words]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise HostedError("pip install failed:\n" + "\n".join(done.stdout.splitlines()[-40:]))


if __name__ == "__main__":
    install(Path(__file__).resolve().parents[1])
