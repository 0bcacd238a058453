"""What a sentence run reads and starts from: corpus, pairs, tokenizer, initial weights, labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import checking_input
from ..text import load_corpus, load_sts
from ..text.encoders import StaticEncoder, TinyTransformer, load_transformer
from ..text.simcse import SimCSE, seeded
from ..text.sts import StsPairs
from ..text.tokens import SentenceTokenizer, TokenisedCorpus, tokenise, word_tokenizer
from ..text.weights import check_hash, model_folder, read_tokenizer, weights_file, word_embeddings
from . import paths
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
