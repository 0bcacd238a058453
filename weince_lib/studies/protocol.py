"""The evaluation protocol, checked: what the paper states in Section 4 and Appendix F of itself.

The numbers are properties of this library's code, which follows the paper's text. They say that
our comparisons were made as described; how the paper's own were made they cannot say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

from ..evaluation import stratified_split
from ..runs.config import SEEDS, vision_config
from .grid import PAPER_GRID
from .selection import choose

#: What Appendix F.2 states, under the names of :class:`~.config.VisionConfig`.
STATED = {"epochs": 100, "batch_size": 256, "weight_decay": 1e-6, "temperature": 0.5}
#: The paper's encoder seeds.
STATED_SEEDS = (7, 21, 63, 84)
METRIC = "linear_accuracy"


def protocol_checks(labels: Tensor, seeds: Sequence[int] = (1, 2, 3, 4, 5)) -> dict[str, float]:
    """Every check by name; each is 0 where code and text agree.

    Args:
        labels: of the labelled training images, shape ``(rows,)``.
        seeds: of the splits.

    Returns:
        ``split_rows_misplaced``: rows by which validation of any class differs from a fifth of it,
        rounded down. ``held_out_rows_in_bank``: validation rows in the neighbour bank.
        ``rows_lost``: rows in neither part. ``choices_changed_by_test``: of 20 made-up tables of
        five settings, those whose choice changes with the test results. ``probe_interval_gap``:
        interval over four encoders against the textbook's, after averaging five probes in each.
        ``settings_off_the_text`` and ``settings_apart``: settings of profile ``paper`` that differ
        from Appendix F.2, and those in which the two losses' runs differ besides the loss.
    """
    misplaced, shared, lost = (
        max(gaps) for gaps in zip(*(_gaps(labels, s) for s in seeds), strict=True)
    )
    return {
        "split_rows_misplaced": float(misplaced),
        "held_out_rows_in_bank": float(shared),
        "rows_lost": float(lost),
        "choices_changed_by_test": float(choices_changed_by_test()),
        "probe_interval_gap": probe_interval_gap(),
        "settings_off_the_text": float(len(settings_off_the_text())),
        "settings_apart": float(len(settings_apart())),
    }


def _gaps(labels: Tensor, seed: int) -> tuple[int, int, int]:
    """Misplaced, shared and lost rows of one split."""
    split = stratified_split(labels, seed=seed)
    held = labels[split.validation].bincount(minlength=int(labels.max()) + 1)
    misplaced = int((held - labels.bincount() // 5).abs().max())
    shared = int(torch.isin(split.train, split.validation).sum())
    both = torch.cat([split.train, split.validation])
    return misplaced, shared, len(labels) - both.unique().numel()


def _made_up(generator: np.random.Generator, settings: Sequence[str], probes: int) -> pd.DataFrame:
    """A study's table of accuracies without any meaning."""
    levels: dict[str, Sequence[Hashable]] = {
        "setting": settings,
        "metric": [METRIC],
        "split": ["validation", "test"],
        "seed": SEEDS,
        "replicate": range(probes),
    }
    rows = pd.MultiIndex.from_product(list(levels.values()), names=list(levels))
    frame = rows.to_frame(index=False)
    return frame.assign(value=generator.normal(80.0, 1.0, len(frame)))


def choices_changed_by_test(tables: int = 20, seed: int = 0) -> int:
    """Tables whose chosen setting changes when all test results are drawn anew."""
    generator = np.random.default_rng(seed)
    settings = [s.label for s in PAPER_GRID[:5]]
    frame = _made_up(generator, settings, probes=1)
    test = frame["split"] == "test"
    changed = 0
    for _ in range(tables):
        frame["value"] = generator.normal(80.0, 1.0, len(frame))
        first = choose(frame, settings, METRIC)
        frame.loc[test, "value"] = generator.normal(80.0, 1.0, int(test.sum()))
        second = choose(frame, settings, METRIC)
        assert first is not None and second is not None
        changed += first.setting != second.setting
    return changed


def probe_interval_gap(seed: int = 0) -> float:
    """Largest difference of the end points from mean ± t(0.975, 3) s / 2 of the encoders' means."""
    frame = _made_up(np.random.default_rng(seed), ["one"], probes=5)
    chosen = choose(frame, ["one"], METRIC)
    assert chosen is not None
    test = frame[frame["split"] == "test"]
    means = [statistics.fmean(test.loc[test["seed"] == s, "value"]) for s in SEEDS]
    half = float(stats.t.ppf(0.975, 3)) * statistics.stdev(means) / math.sqrt(4)
    middle = statistics.fmean(means)
    low, high = middle - half, middle + half
    return max(abs(chosen.test.low - low), abs(chosen.test.high - high))


def settings_off_the_text() -> list[str]:
    """Settings of profile ``paper`` that are not what Appendix F.2 states, for either loss."""
    off = [] if SEEDS == STATED_SEEDS else ["seed"]
    for loss in ("infonce", "weince"):
        config = vision_config("paper", dataset="cifar100", encoder="resnet18", loss=loss)
        off += [f"{loss}.{k}" for k, v in STATED.items() if getattr(config, k) != v]
    return off


def settings_apart() -> list[str]:
    """Settings besides the loss in which the two losses' runs of one seed differ."""
    first, second = (
        vision_config("paper", dataset="cifar100", encoder="resnet18", loss=loss).canonical()
        for loss in ("infonce", "weince")
    )
    return [k for k in first if k not in ("loss", "tail") and first[k] != second[k]]
