"""The study ``gpu-cifar`` for one GPU: ResNet-18 on CIFAR-10 (JPEG), InfoNCE and WEINCE.

    python -m weince_lib.experiments.gpu_study cifar10-imagefolder.tar.gz [--seed 21]

The archive is verified and unpacked once, under ``data/``. The command prints the study's plan
(runs, the measured time of a step, disk) and makes the two runs of one encoder seed: 100 epochs of
195 steps (batch 256, bfloat16), then linear probe and kNN on frozen features. Finished runs are
kept: the same command again finds them, another ``--seed`` adds two, and a run that was stopped by
Ctrl-C, SIGTERM or a time limit (``timeout 10m ...``) continues within its epoch.

**Expected time on one H200: 7 to 9 minutes for both losses (estimated, not measured).** The
estimate: a 3x32x32 image costs ResNet-18 with this stem 0.56 billion multiply-adds, so a step of
2 x 256 views, forward and backward, is 2 x 3 x 512 x 0.56e9 = 1.7e12 operations, 5 ms at a third of
the card's 990 TFLOP/s; normalisation and activations move about 25 MB an image, 13 GB a step, 3 ms
at 4.2 TB/s. With 1 ms for augmentation and 1 ms for loss and optimiser that is 10 ms a step,
2 x 19,500 steps = 6.5 minutes. Reading 60,000 small JPEGs takes 15 s, both evaluations about a
minute on 16 cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import paths
from ..runs.config import ConfigError
from ..studies import sweep
from ..studies.grid import study
from ..studies.plan import plan
from ..vision.datasets import cifar10_jpeg

STUDY = "gpu-cifar"
#: What the command shows of a run.
SHOWN_METRICS = ("linear_accuracy", "knn_accuracy", "recall_at_1")


def main(words: Sequence[str] | None = None) -> int:
    """Unpack, plan, train and evaluate.

    Returns:
        0 when done, 1 for an error, 75 (try again) after a stop.
    """
    parser = argparse.ArgumentParser(
        prog="python -m weince_lib.experiments.gpu_study",
        description="Train and compare InfoNCE and WEINCE on CIFAR-10 (JPEG) on one GPU.",
    )
    parser.add_argument("archive", type=Path, help="cifar10-imagefolder.tar.gz")
    parser.add_argument("--seed", type=int, default=7, help="encoder seed: 7, 21, 63 or 84")
    given = parser.parse_args(words)
    return sweep.guarded(lambda: _make(given.archive, given.seed))


def _make(archive: Path, seed: int) -> int:
    chosen = study(STUDY)
    runs = [run for run in chosen.runs() if run.seed == seed]
    if not runs:
        known = ", ".join(map(str, chosen.seeds))
        raise ConfigError(f"study {STUDY} has no seed {seed}; it has {known}")
    cifar10_jpeg.unpack(archive, paths.data())
    for line in plan(chosen):
        print(line, flush=True)
    for run in runs:
        record = sweep.run_one(STUDY, run.key)
        found = ", ".join(f"{m} {record.metric(m, 'test'):.2f} %" for m in SHOWN_METRICS)
        print(f"{run.setting}, seed {seed}: {found} {record.path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
