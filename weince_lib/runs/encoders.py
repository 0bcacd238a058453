"""Frozen encoders that are committed: weights with their run's record, verified before each use.

Training amplifies rounding, so that an encoder trained on another processor gives other numbers.
The encoders that notebooks look at are therefore part of the repository. Under
``paper/results/encoders/vision/`` each has two files, named by its record's key:

- ``KEY.safetensors``: weights after the last epoch and, for InfoNCE, along training (Figure 9);
- ``KEY.json``: the record of the run that made them, with the SHA-256 of the weights' file.

A run of any other config has no committed encoder and is trained where it is needed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from .. import files, paths
from ..errors import WeinceError
from ..records import store
from ..records.store import Record
from ..training import load_checkpoint, restore_model
from ..vision import ImageSet, SimCLR
from ..vision.training import snapshot_path
from .config import SEEDS, ConfigError, VisionConfig, parse, vision_config
from .trained import CHECKPOINT
from .vision import (
    EXPERIMENT,
    build_model,
    models_along_training,
    run_vision,
    snapshot_epochs,
    trained_model,
)

FORMAT = "weince-encoder-1"
#: The one entry in the head of a weights file. It holds format, key and config as JSON.
HEADER = "weince"
LOSSES = ("infonce", "weince")
#: Losses whose weights along training are committed too. One encoder's take 1.4 MB.
ALONG_TRAINING = ("infonce",)
#: The folder below runs/ of what was measured on encoders that were trained anew.
RETRAINED = "retrained"


class EncoderError(WeinceError):
    """A committed encoder that is not its record's; one line with both and the mend."""


def configs() -> list[VisionConfig]:
    """The runs whose encoders are committed: both losses, four seeds, the quick profile."""
    return [vision_config("quick", loss=loss, seed=seed) for loss in LOSSES for seed in SEEDS]


def key_of(config: VisionConfig) -> str:
    """The key of a run's record."""
    return store.content_key(EXPERIMENT, config.canonical())


def weights_path(key: str) -> Path | None:
    """Where a committed encoder is, or would be; ``None`` where ``WEINCE_ENCODERS`` is empty."""
    folder = paths.encoders()
    return None if folder is None else folder / EXPERIMENT / f"{key}.safetensors"


def train_anew() -> Path:
    """Let this process train its encoders and not read the committed ones.

    Runs, figures and what is measured on the runs then go to ``runs/retrained/``. Records there
    have the keys of those measured on committed encoders; in one folder one would be taken for the
    other.

    Returns:
        The folder.
    """
    runs = paths.runs()
    folder = runs if runs.name == RETRAINED else runs / RETRAINED
    folder.mkdir(parents=True, exist_ok=True)
    return paths.keep_retrained_in(folder)


def ready_encoder(config: VisionConfig, *, profile: str, along_training: bool = False) -> Record:
    """Make sure that a run's encoder is there: committed, or else trained here.

    After :func:`train_anew` it is trained, unless ``runs/`` has the finished run already; that is
    copied.

    Args:
        config: the run.
        profile: see :func:`~.vision.run_vision`.
        along_training: the weights along training will be needed too.

    Returns:
        The record of the run that made the encoder.

    Raises:
        EncoderError: for a committed encoder that is damaged, missing, another run's, or without
            the weights along training that are asked for.
    """
    held = committed_record(config)
    if held is not None:
        if along_training:
            _require_epochs(held, config)
        return held
    runs = paths.runs()
    folder = store.run_folder(EXPERIMENT, key_of(config))
    if runs.name == RETRAINED and not (folder / "record.json").exists():
        _take_over(runs.parent / EXPERIMENT / folder.name, folder)
    return run_vision(config, profile=profile)


def frozen_model(config: VisionConfig, images: ImageSet) -> SimCLR:
    """A run's model after its last epoch: the committed one, else the one trained here.

    Args:
        config: the run.
        images: its training images, for the shape of the network's input.

    Raises:
        EncoderError: see :func:`ready_encoder`.
        FileNotFoundError: if it is not committed and has not been trained here yet.
    """
    held = committed_record(config)
    if held is None:
        return trained_model(config, images)
    return _restored(config, images, held, [config.epochs])[config.epochs]


def frozen_models(config: VisionConfig, images: ImageSet) -> dict[int, SimCLR]:
    """A run's model by epoch, see :func:`~.vision.models_along_training`; committed if it is.

    Raises:
        EncoderError: see :func:`ready_encoder`.
        FileNotFoundError: if it is not committed and has not been trained here yet.
    """
    held = committed_record(config)
    if held is None:
        return models_along_training(config, images)
    _require_epochs(held, config)
    epochs = [int(epoch) for epoch in held.details["encoder"]["epochs"]]
    return {0: build_model(config, images).eval()} | _restored(config, images, held, epochs)


def committed_record(config: VisionConfig) -> Record | None:
    """The record behind a run's committed encoder, after verifying its weights; or ``None``.

    Raises:
        EncoderError: if weights or record are missing or damaged, or do not fit each other or the
            config.
    """
    return _verified(key_of(config))


def committed_records() -> list[Path]:
    """The record files of all committed encoders, each verified; see :func:`committed_record`."""
    folder = paths.encoders()
    if folder is None:
        return []
    keys = sorted({path.stem for path in (folder / EXPERIMENT).glob("*.*")})
    return [record.path for key in keys if (record := _verified(key)) is not None]


def measured_on(config: VisionConfig) -> dict[str, Any]:
    """What a record of a measurement says of the encoder: the hash of a committed one's weights."""
    held = committed_record(config)
    return {} if held is None else {"encoder": {"sha256": held.details["encoder"]["sha256"]}}


def is_current(record: Record, config: VisionConfig | None = None) -> bool:
    """Whether a record was measured on the encoder that counts now.

    Args:
        record: of any experiment.
        config: the encoder's run; by default what the record's own config says. A record that
            names no encoder is current.
    """
    if config is None:
        if "encoder_run" not in record.config:
            return True
        try:
            config = parse(VisionConfig, record.config["encoder_run"])
        except ConfigError:  # of a version with other settings
            return True
    now = measured_on(config)
    return not now or record.details.get("encoder") == now["encoder"]


def commit_encoder(config: VisionConfig) -> Path:
    """Write a run's encoder and record to be committed; the run is made if it is not finished.

    Returns:
        The file of weights.

    Raises:
        ConfigError: if this process reads no committed encoders.
    """
    record = run_vision(config, profile="quick")
    target = weights_path(record.key)
    if target is None:
        raise ConfigError("WEINCE_ENCODERS is empty: there is no folder for committed encoders")
    checkpoint = record.folder / CHECKPOINT
    sources = {config.epochs: checkpoint}
    if config.loss in ALONG_TRAINING:
        sources |= {e: snapshot_path(checkpoint, e) for e in snapshot_epochs(config.epochs)}
    tensors: dict[str, Tensor] = {
        f"{_prefix(epoch)}{name}": value.contiguous()
        for epoch, path in sorted(sources.items())
        for name, value in load_checkpoint(path)["model"].items()
    }
    about = {"format": FORMAT, "key": record.key, "config": config.canonical()}
    # One entry: several come in any order, and the same weights would have another hash.
    content = save(tensors, {HEADER: json.dumps(about, sort_keys=True)})
    kept = json.loads(record.path.read_text(encoding="utf-8"))
    kept["details"]["encoder"] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "epochs": sorted(sources),
    }
    with files.replacing(target) as aside:
        aside.write_bytes(content)
    text = json.dumps(kept, indent=1, allow_nan=False)
    files.write_text(target.with_suffix(".json"), f"{text}\n")
    return target


def _verified(key: str) -> Record | None:
    weights = weights_path(key)
    if weights is None:
        return None
    about = weights.with_suffix(".json")
    mend = f"restore both with git, or make them anew: weince encoders --make {key}"
    missing = [path for path in (weights, about) if not path.exists()]
    if len(missing) == 2:
        return None
    if missing:
        raise EncoderError(f"{missing[0]} is missing, the other of its two files is there; {mend}")
    try:
        record = store.read(about)
        wanted = str(record.details["encoder"]["sha256"])
    except (store.RecordError, KeyError, TypeError) as error:
        raise EncoderError(f"{about} is no record of an encoder ({error}); {mend}") from error
    own = store.content_key(record.experiment, record.config)
    if not record.key == own == key:
        raise EncoderError(f"{about} holds the record of {own}, expected {key}; {mend}")
    found, whose = hashlib.sha256(weights.read_bytes()).hexdigest(), _key_in(weights)
    if found != wanted:
        of = f" of encoder {whose}" if whose not in ("", key) else ""
        raise EncoderError(
            f"{weights} has the SHA-256 {found[:16]}{of}, its record {about.name} says "
            f"{wanted[:16]}; {mend}"
        )
    if whose != key:
        raise EncoderError(f"{weights} holds the encoder of {whose}, expected {key}; {mend}")
    return record


def _key_in(weights: Path) -> str:
    """The key that a file of weights says it is of; empty if it cannot be read."""
    try:
        with safe_open(weights, framework="pt") as file:
            return str(json.loads((file.metadata() or {})[HEADER])["key"])
    except Exception:  # a damaged file raises many kinds
        return ""


def _restored(
    config: VisionConfig, images: ImageSet, held: Record, epochs: list[int]
) -> dict[int, SimCLR]:
    """Models by epoch from a committed file of weights."""
    path = held.path.with_suffix(".safetensors")
    models = {}
    with safe_open(path, framework="pt") as file:
        for epoch in epochs:
            prefix = _prefix(epoch)
            own = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            weights = {name.removeprefix(prefix): file.get_tensor(name).clone() for name in own}
            models[epoch] = build_model(config, images).eval()
            restore_model(models[epoch], {"model": weights}, path)
    return models


def _require_epochs(record: Record, config: VisionConfig) -> None:
    epochs = snapshot_epochs(config.epochs)
    if not set(epochs) <= set(record.details["encoder"]["epochs"]):
        raise EncoderError(
            f"{weights_path(record.key)} holds the last epoch of a {config.label} run and not the "
            f"epochs {epochs}; train it here: -p retrain True"
        )


def _prefix(epoch: int) -> str:
    return f"epoch-{epoch:03d}/"


def _take_over(finished: Path, folder: Path) -> None:
    """Copy a finished run, its record last, as the record says that the run is whole."""
    if not (finished / "record.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(finished.iterdir(), key=lambda path: path.name == "record.json"):
        if path.is_file() and not path.name.startswith("."):
            with files.replacing(folder / path.name) as aside:
                shutil.copyfile(path, aside)
