"""Install this checkout beside packages that must keep their versions, as in Colab.

A notebook's first cell runs this file where ``weince_lib`` is missing. The package itself goes in
without its dependencies; of these only the ones that are not there at all follow, held by
constraints made from what is installed. So torch, numpy and the rest stay as the host made them.
Beside pip it needs ``packaging``, which every host with matplotlib or JupyterLab has.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: What the notebooks need of pyproject.toml's extras.
EXTRAS = ("companion", "vision")
#: The package itself; and what is large and not needed in a session: the command line's pipeline,
#: a front end beside the host's.
LEFT_OUT = {"weince-lib", "snakemake", "jupyterlab"}


class HostedError(Exception):
    """The installation failed; the message holds pip's last words."""


def installed() -> dict[str, str]:
    """Versions of everything that can be imported here, by canonical name."""
    # The first of a name on the path is the one that counts.
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        if name := distribution.metadata["Name"]:
            found.setdefault(canonicalize_name(name), distribution.version)
    return found


def wanted(requirements: Iterable[str]) -> list[Requirement]:
    """Of a package's requirements those that the notebooks need."""
    found = [Requirement(text) for text in requirements]
    return [
        needed
        for needed in found
        if canonicalize_name(needed.name) not in LEFT_OUT
        and (not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in EXTRAS))
    ]


def older(needed: Iterable[Requirement], here: Mapping[str, str]) -> list[str]:
    """One sentence for each installed package that is older than the release we test from."""
    return [
        f"{one.name} {version} is here; {one.specifier} is what we test"
        for one in needed
        if (version := here.get(canonicalize_name(one.name)))
        and not one.specifier.contains(version, prereleases=True)
    ]


def constraints(here: Mapping[str, str]) -> str:
    """A pip constraints file that holds every installed version."""
    # Versions that no index could serve (of a debug build, say) would stop pip from reading it.
    usual = re.compile(r"[0-9][0-9A-Za-z.!+-]*")
    lines = [f"{name}=={version}" for name, version in here.items() if usual.fullmatch(version)]
    return "\n".join(sorted(lines)) + "\n"


def install(checkout: Path) -> None:
    """Install a checkout and what it lacks, and make it importable in this process.

    Args:
        checkout: the folder that holds pyproject.toml.

    Raises:
        HostedError: if pip failed; nothing that was installed before has been changed.
    """
    here = installed()
    _pip("--no-deps", "--editable", str(checkout))
    needed = wanted(metadata.requires("weince-lib") or ())
    absent = [f"{n.name}{n.specifier}" for n in needed if canonicalize_name(n.name) not in here]
    if absent:
        with tempfile.TemporaryDirectory() as folder:
            held = Path(folder) / "constraints.txt"
            held.write_text(constraints(here), encoding="utf-8")
            _pip("--constraint", str(held), *absent)
    # This process read its path files before the package was there.
    sys.path.insert(0, str(checkout))
    for sentence in older(needed, here):
        print(sentence)


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()[-40:]
        raise HostedError("pip install failed:\n" + "\n".join(said))


if __name__ == "__main__":
    install(Path(__file__).resolve().parents[1])
