"""One sentence run from config to record: SimCSE training, then STS with the best and last weights.

python -m weince_lib.experiments.text --profile paper --loss infonce --seed 1
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn

from .. import paths
from ..errors import SHOWN, MissingPackageError, checking_input, one_line
from ..losses import PRESETS
from ..records import store
from ..records.store import Metric, Record
from ..text import load_corpus, load_sts, sts_score
from ..text.encoders import StaticEncoder, TinyTransformer, load_transformer
from ..text.simcse import SimCSE, encode, seeded
from ..text.sts import StsPairs
from ..text.tokens import SentenceTokenizer, TokenisedCorpus, tokenise, word_tokenizer
from ..text.training import BEST, SimCSESettings, snapshot, train_simcse
from ..text.weights import check_hash, model_folder, read_tokenizer, weights_file, word_embeddings
from ..training import load_checkpoint, restore_model
from ..training.processes import World
from ..training.stopping import sigterm_interrupts
from .config import ConfigError
from .text_config import TEXT_PROFILES, TextConfig, text_config, text_labels
from .trained import CHECKPOINT, Measured, finished_checkpoint, trained_once

__all__ = [
    "TextConfig",
    "TextData",
    "build_text_model",
    "check_current_text",
    "load_text",
    "models_along_text",
    "run_text",
    "score",
    "text_config",
    "text_labels",
]

EXPERIMENT = "text"


@dataclass(frozen=True)
class TextData:
    """What a run reads.

    Attributes:
        corpus: the sentences as tokens.
        corpus_hash: of the sentences.
        tokenizer: that made them.
        folder: of the model's weights; None for an encoder from scratch.
        weights: SHA-256 of these; empty for an encoder from scratch.
        dev: pairs that choose the best checkpoint.
        test: pairs of every set.
    """

    corpus: TokenisedCorpus
    corpus_hash: str
    tokenizer: SentenceTokenizer
    folder: Path | None
    weights: str
    dev: StsPairs
    test: tuple[StsPairs, ...]


def load_text(config: TextConfig) -> TextData:
    """Find model, corpus and pairs of a run; what is missing is known before training.

    Raises:
        ModelFolderError: for a model that lacks a part or has other weights than asked for.
        FileNotFoundError: for a corpus or pairs that are not here.
        InputError: for a corpus or pairs that are wrong.
    """
    with checking_input():
        dev = load_sts(config.sts[0], "dev")
        test = tuple(load_sts(name, "test") for name in config.sts)
        folder, weights = None, ""
        if config.model:
            folder = model_folder(config.model)
            weights = check_hash(weights_file(folder), config.weights_sha256)
        corpus = load_corpus(config.corpus, limit=config.train_limit)
    tokenizer = SentenceTokenizer(
        word_tokenizer(corpus) if folder is None else read_tokenizer(folder),
        config.max_length,
        special=config.encoder == "transformer",
    )
    tokens = tokenise(corpus, tokenizer, folder=paths.runs() / "tokens")
    return TextData(tokens, corpus.content_hash(), tokenizer, folder, weights, dev, test)


def data_now(config: TextConfig) -> dict[str, str]:
    """Hashes of what the names of a run's corpus and pairs stand for on this machine now.

    Named as records keep them. Left out is what cannot change (the built-in grammar), what the
    run's key holds already (a text file of one's own, a model's folder), what is not here, and
    what only the hub could answer; a data set of the hub that is a local folder is looked at.

    Raises:
        InputError: for a corpus or pairs that are wrong.
    """
    found = {}
    if _may_change(config.corpus):
        with checking_input(), suppress(FileNotFoundError, MissingPackageError):
            found["corpus"] = load_corpus(config.corpus, limit=config.train_limit).content_hash()
    for part, names in (("dev", config.sts[:1]), ("test", config.sts)):
        with checking_input(), suppress(FileNotFoundError, MissingPackageError):
            if any(_may_change(name) for name in names):
                found[part] = " ".join(load_sts(name, part).content_hash() for name in names)
    return found


def _may_change(name: str) -> bool:
    """Whether a name stands for local data of which the run's key says nothing."""
    kind, _, rest = name.partition(":")
    if kind == "hub":
        return any(Path(place).is_dir() for place in (rest, rest.rpartition(":")[0]) if place)
    return kind not in ("grammar", "file")


def check_current_text(record: Record, config: TextConfig) -> Record:
    """The record of a run, or one measured on it, if its names stand for the same data now.

    Args:
        record: of the run, or made from its encoder; one of an earlier version that holds no
            hashes of its own is taken as it is.
        config: of the run.

    Raises:
        StaleRecordError: for other sentences or pairs.
        InputError: for data that are wrong now.
    """
    then = dict(record.details.get("data", {}))
    if then:
        if isinstance(then.get("test"), list):
            then["test"] = " ".join(then["test"])
        held = replace(record, details=record.details | {"data": then})
        store.compare_data(held, data_now(config), ", ".join((config.corpus, *config.sts)))
    return record


def build_text_model(config: TextConfig, data: TextData) -> SimCSE:
    """The run's model with its initial weights; two losses with one seed start from the same."""

    def build() -> SimCSE:
        encoder: nn.Module
        if data.folder is None:
            encoder = TinyTransformer(data.tokenizer.size, max_length=config.max_length)
        elif config.encoder == "static":
            encoder = StaticEncoder(word_embeddings(data.folder), config.token_dropout)
        else:
            encoder = load_transformer(data.folder, pooling=config.pooling)
        return SimCSE(encoder, config.head)

    model = seeded(build, config.seed)
    assert isinstance(model, SimCSE)
    return model


def run_text(
    config: TextConfig, *, profile: str, device: torch.device | str | None = None
) -> Record:
    """Train and evaluate, or return the record if this config has been run before.

    A run that was killed continues from its last checkpoint, to the same bits on one machine with
    one build of torch. Under ``torchrun`` the processes train together; the first evaluates and
    writes.

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
    settings = config.canonical()
    return trained_once(
        EXPERIMENT,
        settings,
        partial(_train_and_evaluate, config, settings),
        labels=text_labels(config, profile),
        check=lambda record: check_current_text(record, config),
        device=device,
    )


def _train_and_evaluate(
    config: TextConfig,
    settings: dict[str, Any],
    folder: Path,
    device: torch.device,
    world: World,
) -> Measured | None:
    """Metrics and details in the first process; the others have none."""
    data = load_text(config) if world.first else None  # tokenises; the others find the file
    world.wait()
    data = data or load_text(config)
    # On the device from the start: on a CPU, a large encoder takes minutes for the first scores.
    model = build_text_model(config, data).to(device)
    checkpoint = folder / CHECKPOINT
    begun = checkpoint.exists()
    steps = total_steps(config, data)
    start = _scores(model, data) if world.first else {}
    loss = config.build_loss()
    loss.gather_distributed = world.size > 1
    history = train_simcse(
        model,
        loss,
        data.corpus,
        SimCSESettings(**{f.name: getattr(config, f.name) for f in fields(SimCSESettings)}),
        lambda trained: score(trained, data.tokenizer, data.dev),
        checkpoint=checkpoint,
        fingerprint=settings | {"tokens": data.corpus.digest, "weights": data.weights},
        device=device,
        snapshots={steps // 2},
    )
    if not world.first:
        return None
    metrics = _named(start, "_start") + _named(_scores(model, data), "_last")
    _load_into(model, folder / BEST)
    metrics += _named(_scores(model, data), "")
    metrics.append(Metric("best_step", max(history, key=lambda row: row["dev"])["step"]))
    if "lam" in history[0]:
        metrics += [
            Metric(f"mean_{name}", _over_steps(history, key))
            for name, key in (("lambda", "lam"), ("beta", "beta"), ("rho", "rho"))
        ]
    return metrics, {
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
    }


def total_steps(config: TextConfig, data: TextData) -> int:
    """Optimiser steps of a run."""
    return config.epochs * (len(data.corpus) // config.batch_size)


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


def _load_into(model: SimCSE, path: Path) -> SimCSE:
    restore_model(model, load_checkpoint(path), path)
    return model.eval()


def models_along_text(
    config: TextConfig, data: TextData, device: torch.device | str = "cpu"
) -> dict[str, SimCSE]:
    """The run's model at the start, in the middle and at the end of training, on a device.

    Raises:
        FileNotFoundError: if the run has not been finished yet, or its weights are gone.
    """
    end = finished_checkpoint(EXPERIMENT, config.canonical(), "run_text")
    middle = snapshot(end, total_steps(config, data) // 2)
    models = {"start": build_text_model(config, data).eval()}
    for stage, path in (("middle", middle), ("end", end)):
        models[stage] = _load_into(build_text_model(config, data), path)
    return {stage: model.to(device) for stage, model in models.items()}


@click.command()
@click.option(
    "--profile",
    default="paper",
    show_default=True,
    type=click.Choice(tuple(TEXT_PROFILES)),
    help="Settings that are not given come from it.",
)
@click.option(
    "--loss",
    default="weince",
    show_default=True,
    type=click.Choice(("infonce", "weince")),
    help="What is trained with.",
)
@click.option(
    "--preset",
    default="paper",
    show_default=True,
    type=click.Choice(tuple(PRESETS)),
    help="How WEINCE reads the batch's tail; nothing to InfoNCE.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="Of weights, order and dropout, 0 or more.",
)
@click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")
def main(profile: str, loss: str, preset: str, seed: int, settings: tuple[str, ...]) -> None:
    """Train a sentence encoder, judge it on STS, and print its record's path.

    A run that is there is found; one that was stopped continues. NAME=VALUE gives further fields of
    TextConfig, such as corpus=file:lines.txt, temperature=0.07 or sts=stsb,sickr.
    """
    try:
        config = text_config(profile, loss=loss, preset=preset, seed=seed, **_settings(settings))
        with sigterm_interrupts():
            record = run_text(config, profile=profile)
    except SHOWN as error:
        raise click.ClickException(one_line(error)) from error
    except KeyboardInterrupt as stopped:
        click.echo(str(stopped) or "stopped; run again to continue", err=True)
        sys.exit(130)
    click.echo(record.path)


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
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


if __name__ == "__main__":
    main()
