"""What a result was made with: commit, versions, hardware."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata

import torch

from .. import paths

#: Packages whose version can change a number in a record.
PACKAGES = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "weince-lib")


def git_state() -> tuple[str, bool | None]:
    """The checkout's commit and whether it has uncommitted changes to tracked code.

    Generated results (``paper/results``, ``figures``, executed notebooks) do not count as changes:
    they are made by the very runs that ask. ``("unknown", None)`` outside a git checkout.
    """

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=paths.root(),
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "weince_lib")
    except (OSError, subprocess.SubprocessError):
        return "unknown", None
    return commit, bool(changed)


def cpu_name() -> str:
    """The processor's name as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (a pseudo-file)
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def provenance() -> dict[str, object]:
    """Everything about the machine and the code that a record keeps."""
    commit, dirty = git_state()
    versions: dict[str, str] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "commit": commit,
        "dirty": dirty,
        "versions": versions,
        "cpu": cpu_name(),
        "cpu_count": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cuda_device": device,
        "platform": f"{platform.system()} {platform.machine()}",
    }
