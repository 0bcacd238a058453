"""One sentence run from config to record: SimCSE training, then STS with the best and last weights.

python -m weince_lib.experiments.text --profile paper --loss infonce --seed 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from .. import files
from ..errors import SHOWN, one_line
from ..losses import PRESETS
from ..records import store
from ..records.store import Metric, Record
from ..text import sts_score
from ..text.simcse import SimCSE, encode
from ..text.sts import StsPairs
from ..text.tokens import SentenceTokenizer
from ..text.training import BEST, SimCSESettings, snapshot, train_simcse
from ..vision.checkpoints import load_checkpoint, restore_model
from ..vision.processes import World, current_world, join_processes
from ..vision.stopping import sigterm_interrupts
from .config import ConfigError
from .text_config import TEXT_PROFILES, TextConfig, text_config, text_stamp
from .text_data import (
    TextData,
    build_text_model,
    check_current_text,
    load_text,
    text_labels,
    total_steps,
)

__all__ = [
    "TextConfig",
    "TextData",
    "build_text_model",
    "load_text",
    "models_along_text",
    "run_text",
    "score",
    "text_config",
    "text_labels",
    "train_text",
]

EXPERIMENT = "text"
CHECKPOINT = "checkpoint.safetensors"


def run_text(
    config: TextConfig, *, profile: str, device: torch.device | str | None = None
) -> Record:
    """Train and evaluate, or return the record if this config has been run before.

    A run that was killed continues from its last checkpoint, to the same bits on one machine with
    one build of torch. Under ``torchrun`` the processes
    train together; the first evaluates and writes.

    Args:
        config: see :class:`TextConfig`.
        profile: the profile it was asked for; decides which table it is collected into.
        device: where to train; a CUDA device if there is one, else the CPU.

    Returns:
        The record. Metrics, Spearman times 100: ``sts_spearman`` of the checkpoint that was best on
        dev, ``sts_spearman_last`` of the last one and ``sts_spearman_start`` before training, each
        on ``validation`` (dev) and ``test`` of the first set, and with ``_<set>`` on the test of
        further ones; ``best_step``; for WEINCE ``mean_lambda`` and ``mean_beta`` over training.

    Raises:
        StaleRecordError: if there is a record, of other sentences or pairs than the names stand
            for now.
    """
    text_stamp(profile)  # an unknown one is better known now than after training
    settings = config.canonical()
    done = store.find(EXPERIMENT, settings)
    if done is not None:
        return check_current_text(done, config)
    folder = store.record_path(EXPERIMENT, settings).parent
    folder.mkdir(parents=True, exist_ok=True)
    with join_processes(device) as (world, own), ExitStack() as stack:
        if world.first:
            # Two notebooks that need the same run at once: the second waits and finds the record.
            stack.enter_context(files.locked(folder / ".lock"))
        world.wait()
        done = store.find(EXPERIMENT, settings)
        if done is None:
            done = _train_and_evaluate(config, profile, settings, own, world)
        world.wait()
        return done or store.read(store.record_path(EXPERIMENT, settings))


def _train_and_evaluate(
    config: TextConfig,
    profile: str,
    settings: dict[str, Any],
    device: torch.device,
    world: World,
) -> Record | None:
    """The record, written by the first process; the others have none.

    ``settings`` are the config's canonical ones from before the data were read: a corpus's file
    that changes during the run does not move its record.
    """
    folder = store.record_path(EXPERIMENT, settings).parent
    started = time.time()
    data = load_text(config) if world.first else None  # tokenises; the others find the file
    world.wait()
    data = data or load_text(config)
    # On the device from the start: on a CPU, a large encoder takes minutes for the first scores.
    model = build_text_model(config, data).to(device)
    begun = (folder / CHECKPOINT).exists()
    steps = total_steps(config, len(data.corpus))
    start = {} if not world.first else _scores(model, data)
    history = train_text(config, model, data, folder / CHECKPOINT, device, {steps // 2})
    if not world.first:
        return None
    metrics = _named(start, "_start") + _named(_scores(model, data), "_last")
    load_into(model, folder / BEST)
    metrics += _named(_scores(model, data), "")
    best = max(history, key=lambda row: row["dev"])
    metrics.append(Metric("best_step", best["step"]))
    if "lam" in history[0]:
        metrics += [
            Metric(f"mean_{name}", _over_steps(history, key))
            for name, key in (("lambda", "lam"), ("beta", "beta"), ("rho", "rho"))
        ]
    return store.save(
        EXPERIMENT,
        settings,
        metrics,
        labels=text_labels(config, profile),
        started=started,
        details={
            "data": {
                "corpus": data.corpus_hash,
                "sentences": len(data.corpus),
                "tokens": data.corpus.digest,
                "weights": data.weights,
                "dev": data.dev.content_hash(),
                "test": [pairs.content_hash() for pairs in data.test],
            },
            "steps": steps,
            "resumed": begun,
            "history": history,
        },
    )


def train_text(
    config: TextConfig,
    model: SimCSE,
    data: TextData,
    checkpoint: Path,
    device: torch.device | str,
    snapshots: set[int],
) -> list[dict[str, float]]:
    """Train the run's model."""
    loss = config.build_loss()
    loss.gather_distributed = current_world().size > 1
    settings = SimCSESettings(
        **{
            name: getattr(config, name)
            for name in SimCSESettings.__dataclass_fields__
            if name != "chunk_size"
        },
        chunk_size=config.chunk_size,
    )
    return train_simcse(
        model,
        loss,
        data.corpus,
        settings,
        lambda trained: score(trained, data.tokenizer, data.dev),
        checkpoint=checkpoint,
        fingerprint=config.canonical() | {"tokens": data.corpus.digest, "weights": data.weights},
        device=device,
        snapshots=snapshots,
    )


def score(model: nn.Module, tokenizer: SentenceTokenizer, pairs: StsPairs) -> float:
    """Spearman times 100 of the model's encoder, without its head, on some pairs."""
    encoder = model.encoder
    assert isinstance(encoder, nn.Module)
    return sts_score(partial(encode, encoder, tokenizer), pairs)


def _scores(model: SimCSE, data: TextData) -> dict[tuple[str, str], float]:
    """By set (the first one's name is empty) and split."""
    found = {("", "validation"): score(model, data.tokenizer, data.dev)}
    for number, pairs in enumerate(data.test):
        found["" if number == 0 else f"_{pairs.name}", "test"] = score(model, data.tokenizer, pairs)
    return found


def _named(scores: dict[tuple[str, str], float], which: str) -> list[Metric]:
    return [
        Metric(f"sts_spearman{which}{name}", value, split)
        for (name, split), value in scores.items()
    ]


def _over_steps(history: list[dict[str, float]], key: str) -> float:
    """Mean over steps of a number that rows give as means since the row before."""
    before, total = 0.0, 0.0
    for row in history:
        total += row[key] * (row["step"] - before)
        before = row["step"]
    return total / before


def load_into(model: SimCSE, path: Path) -> SimCSE:
    """Put kept weights into the run's model.

    Raises:
        CheckpointError: if they are of another model.
    """
    restore_model(model, load_checkpoint(path), path)
    return model.eval()


def models_along_text(
    config: TextConfig, data: TextData, device: torch.device | str = "cpu"
) -> dict[str, SimCSE]:
    """The run's model at the start, in the middle and at the end of training.

    Weights of the middle that are gone are made again by training once more, on ``device``, on
    which the models come.

    Raises:
        FileNotFoundError: if the run has not been finished yet.
    """
    record = store.record_path(EXPERIMENT, config.canonical())
    checkpoint = record.parent / CHECKPOINT
    if not (record.exists() and checkpoint.exists()):
        raise FileNotFoundError(f"{checkpoint} is missing; run_text with this config first")
    step = total_steps(config, len(data.corpus)) // 2
    kept = snapshot(checkpoint, step)
    with files.locked(record.parent / ".lock"), TemporaryDirectory(dir=record.parent) as folder:
        if not kept.exists():
            again = Path(folder) / CHECKPOINT
            train_text(config, build_text_model(config, data), data, again, device, {step})
            snapshot(again, step).replace(kept)
    models = {"start": build_text_model(config, data).eval()}
    for stage, path in (("middle", kept), ("end", checkpoint)):
        models[stage] = load_into(build_text_model(config, data), path)
    return {stage: model.to(device) for stage, model in models.items()}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m weince_lib.runs.text",
        description="Train a sentence encoder, judge it on STS, and print its record's path. "
        "A run that is there is found; one that was stopped continues.",
    )
    parser.add_argument(
        "--profile",
        default="paper",
        choices=tuple(TEXT_PROFILES),
        help="settings that are not given come from it (default: %(default)s)",
    )
    parser.add_argument(
        "--loss",
        default="weince",
        choices=("infonce", "weince"),
        help="what is trained with (default: %(default)s)",
    )
    parser.add_argument(
        "--preset",
        default="paper",
        choices=tuple(PRESETS),
        help="how WEINCE reads the batch's tail; nothing to InfoNCE (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="of weights, order and dropout, 0 or more (default: %(default)s)",
    )
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="NAME=VALUE",
        help="further fields of TextConfig, such as corpus=file:lines.txt, temperature=0.07 or "
        "sts=stsb,sickr",
    )
    return parser


def _settings(words: list[str]) -> dict[str, Any]:
    """Settings from NAME=VALUE, values in JSON or else as text; ``sts`` may have commas."""
    settings: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in ("profile", "loss", "preset", "seed"):
            raise ConfigError(f"{word!r}: give --{name} {value or 'VALUE'} instead")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
        if name == "sts" and isinstance(settings[name], str):
            settings[name] = tuple(part.strip() for part in value.split(",") if part.strip())
    return settings


def main(words: list[str] | None = None) -> int:
    """One run from the command line; errors that say what is wrong are one line.

    Returns:
        0 for a record that is there, 1 for an error, 130 for a run that Ctrl-C or SIGTERM stopped.
    """
    given = _parser().parse_args(words)
    try:
        config = text_config(
            given.profile,
            loss=given.loss,
            preset=given.preset,
            seed=given.seed,
            **_settings(given.settings),
        )
        with sigterm_interrupts():
            record = run_text(config, profile=given.profile)
    except SHOWN as error:
        sys.stderr.write(f"Error: {one_line(error)}\n")
        return 1
    except KeyboardInterrupt as stopped:
        sys.stderr.write(f"{str(stopped) or 'stopped; run again to continue'}\n")
        return 130
    sys.stdout.write(f"{record.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
