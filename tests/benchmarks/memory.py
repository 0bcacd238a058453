"""What the notebooks that Binder offers take of memory: each in a process that may have 2 GB.

    python -m tests.benchmarks.memory [--limit-mb 2048] [NOTEBOOK ...]

Each notebook is executed in the quick profile by a process whose data (heap, stacks, private
mappings: ``RLIMIT_DATA``) is limited, the kernel included; printed is the kernel's peak of resident
memory. What Jupyter's own server takes on Binder, some 150 MB, comes on top. A notebook that
trains is reported, and so is one that fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

#: What a container on Binder may have, and what its Jupyter server takes of it.
LIMIT_MB, SERVER_MB = 2048, 200

# Waits for the kernel, so that the largest child it has waited for is the kernel.
_CHILD = """
import json, resource, sys, time
from pathlib import Path

name, limit, target = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
from weince_lib.publish import notebooks

began = time.time()
notebooks.run(name, output=target)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"peak": peak, "seconds": time.time() - began}))
"""


@dataclass(frozen=True)
class Taken:
    """What one notebook took: the kernel's peak of resident memory, and encoders it trained.

    ``error`` says why it failed, and is empty if it did not.
    """

    name: str
    peak_mb: float
    seconds: float
    trained: int
    error: str

    def line(self) -> str:
        """For printing."""
        if self.error:
            return f"{self.name:<24} FAILED: {self.error}"
        trained = f", trained {self.trained} encoders" if self.trained else ""
        return f"{self.name:<24}{self.peak_mb:7.0f} MB{self.seconds:7.0f} s{trained}"


def take(name: str, limit_mb: int = LIMIT_MB - SERVER_MB) -> Taken:
    """Execute a notebook in a limited process."""
    from weince_lib import paths

    def encoders() -> int:
        return len(list(paths.runs().glob("vision/*/record.json")))

    before = encoders()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, name, str(limit_mb * 2**20), f"{folder}/{name}.ipynb"],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            check=False,
        )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Taken(name, 0, 0, encoders() - before, lines[-1] if lines else "it was killed")
    found = json.loads(done.stdout.splitlines()[-1])
    return Taken(name, found["peak"] / 1024, found["seconds"], encoders() - before, "")


def main() -> None:
    """Print a line for each notebook."""
    from weince_lib.publish import notebooks
    from weince_lib.publish.badges import TRAINING

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NOTEBOOK")
    parser.add_argument("--limit-mb", type=int, default=LIMIT_MB - SERVER_MB)
    given = parser.parse_args()
    names = given.names or [name for name in notebooks.names() if not TRAINING.match(name)]
    # What the notebooks write is of no use here.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEINCE_FIGURES"] = folder
        taken = []
        for name in names:
            taken.append(take(Path(name).stem, given.limit_mb))
            print(taken[-1].line(), flush=True)
    worst = max(taken, key=lambda t: t.peak_mb)
    print(f"largest: {worst.name} with {worst.peak_mb:.0f} MB of {given.limit_mb}")
    sys.exit(any(t.error or t.trained or t.peak_mb > given.limit_mb for t in taken))


if __name__ == "__main__":
    main()
