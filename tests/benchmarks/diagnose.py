"""What a diagnosis costs: time of each part, and peak memory, for 50,000 x 384 embeddings.

    python -m tests.benchmarks.diagnose [--rows 50000] [--columns 384] [--threads 2] [--bank-only]
        [--file FOLDER]

The pass over the pairs (1.25e9 for 50,000 rows) is meant to take under 90 seconds and 2 GiB on two
cores. Peak memory is that of the whole process, with torch. ``--file`` writes the embeddings to a
folder and maps them, as a run on a file does; with a million rows only anchors drawn at random are
paired.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch

from weince_lib.diagnostics import diagnose, read_embeddings, streamed_bank


def clustered(rows: int, columns: int, out: np.ndarray) -> np.ndarray:
    """Unequal clusters with noise: a tail with some reach, unlike that of plain noise."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((max(2, rows // 100), columns), dtype=np.float32)
    for start in range(0, rows, 10_000):
        part = out[start : start + 10_000]
        part[:] = centres[(len(centres) * rng.random(len(part)) ** 2).astype(int)]
        part += rng.standard_normal(part.shape, dtype=np.float32)
    return out


def peak() -> float:
    """Peak memory of this process, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def main() -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bank-only", action="store_true")
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    shape = (given.rows, given.columns)
    if given.file is None:
        z = clustered(*shape, np.empty(shape, dtype=np.float32))
    else:
        given.file.mkdir(parents=True, exist_ok=True)
        path = given.file / "embeddings.npy"
        held = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=shape)
        clustered(*shape, held)
        held.flush()
        del held
        z = read_embeddings(path).values
    print(f"{given.rows:,} x {given.columns}, {given.threads} threads; before: {peak():.2f} GiB")
    wall, cpu = time.perf_counter(), time.process_time()
    bank = streamed_bank(z)
    print(
        f"bank: {time.perf_counter() - wall:.1f} s ({time.process_time() - cpu:.1f} s of "
        f"processor), {bank.pairs:,} pairs, {len(bank.anchors):,} anchors, "
        f"{len(bank.shortfalls):,} above u = {bank.threshold:.3f} "
        f"({100 * bank.share:.3f} ± {100 * bank.share_error:.3f} %); peak {peak():.2f} GiB"
    )
    if given.bank_only:
        return
    del bank
    wall = time.perf_counter()
    found = diagnose(z)
    print(
        f"whole diagnosis: {time.perf_counter() - wall:.1f} s; peak {peak():.2f} GiB; "
        f"{found.verdict}, shape {found.main.shape:.2f}"
    )


if __name__ == "__main__":
    main()
