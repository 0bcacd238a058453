"""Add the loss metrics to finished runs that were made before runs recorded them.

    python -m weince_lib.experiments.amend STUDY

Network and loss are read from the run's checkpoint; nothing is trained, and nothing that a record
holds is changed. A run that has the metrics is left alone.
"""

from __future__ import annotations

import argparse
import sys

from ..errors import SHOWN, one_line
from ..vision import load_checkpoint
from ..vision.checkpoints import restore_loss
from . import store
from .config import VisionConfig, parse
from .grid import study
from .loss_metrics import NAMES, loss_metrics
from .store import Record
from .vision import CHECKPOINT, EXPERIMENT, trained_model, training_images


def amend(record: Record) -> bool:
    """Add ``negative_entropy`` and ``mean_lambda`` to a vision record that lacks them.

    Returns:
        Whether the record was changed.

    Raises:
        FileNotFoundError: if its checkpoint is gone.
    """
    if {m.name for m in record.metrics} >= set(NAMES):
        return False
    config = parse(VisionConfig, record.config)
    images = training_images(config)
    model, loss = trained_model(config, images), config.build_loss()
    path = record.folder / CHECKPOINT
    if path.exists():  # what earlier versions wrote holds no loss with a state
        restore_loss(loss, load_checkpoint(path), path)
    store.add_metrics(record, loss_metrics(model, loss, images, config))
    return True


def main(words: list[str] | None = None) -> int:
    """Amend every finished run of a study; says how many."""
    parser = argparse.ArgumentParser(prog="python -m weince_lib.experiments.amend")
    parser.add_argument("study")
    given = parser.parse_args(words)
    changed = found = 0
    try:
        for run in study(given.study).runs():
            path = store.run_folder(EXPERIMENT, run.key) / "record.json"
            if path.exists():
                found += 1
                changed += amend(store.read(path))
    except SHOWN as error:
        sys.stderr.write(f"Error: {one_line(error)}\n")
        return 1
    sys.stdout.write(f"{found} finished runs, {changed} of them amended\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
