"""What a sentence run reads and starts from: corpus, pairs, tokenizer, initial weights, labels."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from .. import paths
from ..errors import MissingPackageError, checking_input
from ..records.store import Record, compare_data
from ..text import load_corpus, load_sts
from ..text.encoders import StaticEncoder, TinyTransformer, load_transformer
from ..text.simcse import SimCSE, seeded
from ..text.sts import StsPairs
from ..text.tokens import SentenceTokenizer, TokenisedCorpus, tokenise, word_tokenizer
from ..text.weights import check_hash, model_folder, read_tokenizer, weights_file, word_embeddings
from .text_config import TextConfig, is_own_text, text_stamp


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
    for part, names, split in (("dev", config.sts[:1], "dev"), ("test", config.sts, "test")):
        with checking_input(), suppress(FileNotFoundError, MissingPackageError):
            if any(_may_change(name) for name in names):
                found[part] = _all_of([load_sts(name, split).content_hash() for name in names])
    return found


def _may_change(name: str) -> bool:
    """Whether a name stands for local data of which the run's key says nothing."""
    kind, _, rest = name.partition(":")
    if kind == "hub":
        return any(Path(place).is_dir() for place in (rest, rest.rpartition(":")[0]) if place)
    return kind not in ("grammar", "file")


def _all_of(hashes: list[str]) -> str:
    return " ".join(hashes)


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
            then["test"] = _all_of(then["test"])
        held = replace(record, details=record.details | {"data": then})
        names = ", ".join((config.corpus, *config.sts))
        compare_data(held, data_now(config), names)
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


def text_labels(config: TextConfig, profile: str) -> dict[str, Any]:
    """How tables name a run. One whose settings are not its profile's own is in no table."""
    return {
        "profile": text_stamp(profile) if is_own_text(config, profile) else "custom",
        "dataset": config.canonical()["corpus"],
        "encoder": config.encoder,
        "loss": config.label,
        "temperature": config.temperature,
        "seed": config.seed,
    }


def total_steps(config: TextConfig, sentences: int) -> int:
    """Optimiser steps of a run."""
    return config.epochs * (sentences // config.batch_size)
