"""Floors and a ceiling for a study's encoders, by the evaluation that the encoders get.

    weince study floors STUDY [--kind KIND ...] [--device DEVICE]

An accuracy of an encoder means little beside those of other encoders alone. Four numbers stand
beside it here, from the same images, splits, probes and neighbours:

- *raw pixels*, and for the neighbours also pixels less their mean over the labelled training
  images: an encoder that is no better has learned nothing that a cosine of pixels does not know;
- an *untrained encoder* of the study's shape, with its initial weights and batch statistics, from
  each of the study's seeds;
- a *supervised encoder* of the same shape, steps, batches, optimiser and augmentation, trained with
  labels on one view of each image, from each seed: a ceiling for this shape and budget, though no
  strict one.

Each is a record in the store, made once and found again by every study on the same images. The
table of all is ``paper/results/studies/floors.csv``. The command continues where it was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from ..evaluation import mean_within, t_interval
from ..records import store
from ..records.store import Metric, Record
from ..runs.config import ConfigError, VisionConfig
from ..runs.fastest import step_form
from ..runs.vision import (
    CHECKPOINT,
    build_model,
    check_evaluable,
    evaluate,
    evaluate_features,
    files_now,
    labelled_images,
    load_images,
)
from ..vision import ImageSet, TrainingSettings, augmentation, to_unit_range, train_supervised
from .collect import STUDY_COLUMNS, load_study, study_rows, table_path, write_table
from .study_types import Study, execution

EXPERIMENT = "floor"
#: The table's name among those of studies.
TABLE = "floors"
#: Kinds in the order of tables, and what these call them.
KINDS = {
    "pixels": "raw pixels",
    "pixels-centred": "raw pixels, centred",
    "untrained": "untrained encoder",
    "supervised": "supervised encoder",
}
#: Settings of a run that each kind depends on, on top of those before it.
_DATA = ("dataset", "train_limit", "image_size", "probe_epochs", "probe_seeds", "split_seeds")
_SHAPE = (*_DATA, "encoder", "width", "seed")
_BUDGET = (*_SHAPE, "epochs", "batch_size", "learning_rate", "weight_decay", "precision")
_DEPENDS = {"pixels": _DATA, "pixels-centred": _DATA, "untrained": _SHAPE, "supervised": _BUDGET}


@dataclass(frozen=True)
class Floor:
    """One of :data:`KINDS` beside a run of a study, whose loss does not matter."""

    kind: str
    run: VisionConfig

    @property
    def config(self) -> dict[str, Any]:
        """What the result depends on, as JSON values."""
        every = self.run.canonical()
        return {"kind": self.kind} | {name: every[name] for name in _DEPENDS[self.kind]}

    @property
    def key(self) -> str:
        """The key of its record."""
        return store.content_key(EXPERIMENT, self.config)

    @property
    def labels(self) -> dict[str, Any]:
        """How tables name it; pixels have no encoder and no seed."""
        shaped = "seed" in _DEPENDS[self.kind]
        return {
            "profile": "",
            "dataset": self.run.dataset,
            "encoder": self.run.encoder if shaped else "",
            "loss": self.kind,
            "temperature": "",
            "seed": self.run.seed if shaped else 0,
        }


def floors_of(
    chosen: Study, kinds: Iterable[str] = tuple(KINDS), seeds: Sequence[int] = ()
) -> list[Floor]:
    """A study's floors: of pixels one each, of encoders one a seed.

    Args:
        chosen: the study.
        kinds: some of :data:`KINDS`.
        seeds: of encoders; none for the study's.

    Raises:
        ConfigError: for a study of sentences, or an unknown kind.
    """
    found: dict[str, Floor] = {}
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"unknown kind {kind!r} of floor; known: {', '.join(KINDS)}")
        for seed in seeds or chosen.seeds:
            run = chosen.example(seed)
            if not isinstance(run, VisionConfig):
                raise ConfigError(f"study {chosen.name} is of sentences; floors are for images")
            floor = Floor(kind, run)
            found.setdefault(floor.key, floor)
    return list(found.values())


def make(
    floor: Floor,
    *,
    device: torch.device | str | None = None,
    sets: tuple[ImageSet, ImageSet] | None = None,
) -> Record:
    """Compute a floor, or return the record that is there.

    A supervised training that was stopped continues after its last step. It takes the epochs of
    contrastive training, over the labelled images (of STL-10 fewer than contrastive training has,
    and so fewer steps).

    Args:
        floor: which.
        device: where to compute; a CUDA device if there is one, else the CPU.
        sets: labelled training images and test images in memory already; loaded by default.

    Raises:
        StaleRecordError: if the record that is there was made from other images.
    """

    def found() -> Record | None:
        done = store.find(EXPERIMENT, floor.config)
        if done is not None:
            store.compare_data(done, files_now(floor.run), floor.run.dataset)
        return done

    def measure() -> tuple[list[Metric], dict[str, Any]]:
        labelled, test = sets or (labelled_images(floor.run), load_images(floor.run, "test"))
        check_evaluable(labelled, floor.run)
        folder = store.run_folder(EXPERIMENT, floor.key)
        metrics, history = _measure(floor, labelled, test, folder, device)
        data = {"labelled": labelled.content_hash(), "test": test.content_hash()}
        return metrics, {"data": data | files_now(floor.run), "history": history}

    return store.once(EXPERIMENT, floor.config, measure, labels=floor.labels, found=found)


def pixel_metrics(
    labelled: ImageSet, test: ImageSet, config: VisionConfig, *, centred: bool = False
) -> list[Metric]:
    """Metrics of pixels in [0, 1] as features, by :func:`.vision.evaluate_features`.

    Args:
        labelled: training images.
        test: test images.
        config: gives the seeds of splits and probes.
        centred: subtract each pixel's mean over the training images; then neighbours alone are
            measured, as a probe has an offset of its own.
    """
    bank, queries = (to_unit_range(part.images).flatten(1) for part in (labelled, test))
    if centred:
        mean = bank.mean(dim=0)
        bank, queries = bank - mean, queries - mean
    return evaluate_features(
        bank, labelled.labels, queries, test.labels, config, probes=not centred
    )


def _measure(
    floor: Floor,
    labelled: ImageSet,
    test: ImageSet,
    folder: Path,
    device: torch.device | str | None,
) -> tuple[list[Metric], list[dict[str, float]]]:
    """A floor's metrics, and the history of its training if it has one."""
    run = floor.run
    if floor.kind.startswith("pixels"):
        return pixel_metrics(labelled, test, run, centred=floor.kind == "pixels-centred"), []
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = build_model(run, labelled).to(device)
    history: list[dict[str, float]] = []
    if floor.kind == "supervised":
        form = step_form(run, labelled.images, torch.device(device), folder)
        history = train_supervised(
            model.encoder,
            labelled.images,
            labelled.labels,
            augmentation(run.dataset),
            TrainingSettings(
                epochs=run.epochs,
                batch_size=run.batch_size,
                learning_rate=run.learning_rate,
                weight_decay=run.weight_decay,
                seed=run.seed,
                precision=form.precision,
            ),
            checkpoint=folder / CHECKPOINT,
            fingerprint=floor.config | {"data": labelled.content_hash()},
            device=device,
            execution=form.apply(execution(run)),
        )
    return evaluate(model.eval(), labelled, test, run), history


def collect_floor(record: Record) -> None:
    """Put a record into the table of floors, beside the rows that it has of others."""
    before = load_study(TABLE)
    before = before[before["key"] != record.key]
    new = pd.DataFrame(
        study_rows(record, KINDS[record.config["kind"]]), columns=list(STUDY_COLUMNS)
    )
    frame = pd.concat([before, new]) if len(before) else new
    frame = frame.sort_values(
        ["dataset", "setting", "seed", "key", "metric", "split", "replicate"], kind="stable"
    )
    write_table(frame, table_path(TABLE), [record])


def make_all(chosen: Study, kinds: Iterable[str] = tuple(KINDS), device: str | None = None) -> None:
    """Compute a study's floors that neither store nor table have, and put them into the table."""
    known = set(load_study(TABLE)["key"])
    sets: tuple[ImageSet, ImageSet] | None = None
    for floor in floors_of(chosen, kinds):
        if floor.key in known:
            continue
        if sets is None and store.find(EXPERIMENT, floor.config) is None:
            sets = labelled_images(floor.run), load_images(floor.run, "test")
        record = make(floor, device=device, sets=sets)
        collect_floor(record)
        sys.stderr.write(f"{KINDS[floor.kind]}, seed {floor.labels['seed']}: {floor.key}\n")


def floor_table(chosen: Study, metrics: Iterable[str], split: str = "test") -> pd.DataFrame:
    """A study's floors as far as the table of floors has them.

    Encoders of the study's recipe count whatever their seed: a screening and its decision have the
    same floors.

    Args:
        chosen: the study.
        metrics: in the order of the rows.
        split: ``"test"`` or ``"validation"``.

    Returns:
        One row a metric and kind: ``metric, kind, floor`` (its name), ``value, low, high, seeds``,
        in percent. Replicates are averaged within a seed and the 95 % t-interval is over seeds;
        pixels have neither interval nor seeds (0).
    """
    columns = ["metric", "kind", "floor", "value", "low", "high", "seeds"]
    frame = load_study(TABLE)
    if frame.empty or chosen.experiment != "vision":
        return pd.DataFrame(columns=columns)
    made = [int(seed) for seed in frame["seed"].dropna().unique()]
    keys = {floor.key: floor.kind for floor in floors_of(chosen, seeds=made)}
    frame = frame[frame["key"].isin(keys) & (frame["split"] == split)]
    frame = frame.assign(kind=frame["key"].map(keys))
    rows = []
    for metric in metrics:
        for kind, name in KINDS.items():
            own = frame[(frame["metric"] == metric) & (frame["kind"] == kind)]
            if own.empty:
                continue
            by_seed = {int(str(s)): g["value"].tolist() for s, g in own.groupby("seed")}
            i = t_interval(list(mean_within(by_seed).values()))
            seeds = 0 if kind.startswith("pixels") else i.n
            rows.append((metric, kind, name, i.mean, i.low, i.high, seeds))
    return pd.DataFrame(rows, columns=columns)


def shown(chosen: Study) -> str:
    """A study's floors on three measures as text, one line each."""
    table = floor_table(chosen, ["standardised_linear_accuracy", "recall_at_1", "knn_accuracy"])
    found = ""
    for metric, own in table.groupby("metric", sort=False):
        lines = [f"  {row.floor:20} {row.value:6.2f}\n" for row in own.itertuples()]
        found += f"{metric}\n" + "".join(lines)
    return found
