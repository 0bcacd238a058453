"""Typed settings of a sentence run, and what each profile gives them."""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ..losses import ContrastiveLoss, TailSettings
from ..text.corpora import WIKI_ON_HUB, corpus_file
from ..text.weights import KNOWN_WEIGHTS, model_folder, weights_file, weights_hash
from .config import (
    Positive,
    RunConfig,
    parse,
    profile_defaults,
    stamp,
    table_labels,
    varies_loss_and_seed,
    with_tail,
)

#: Model names of encoders that are made from the corpus alone.
NO_MODEL = ""
#: Hexadecimal digits of a hash within a name.
HASH_DIGITS = 12


class TextConfig(RunConfig):
    """One SimCSE run: training with dropout as the only augmentation, then STS (paper section 4).

    Attributes:
        corpus: see :func:`weince_lib.text.load_corpus`.
        train_limit: train on the first so many sentences; 0 means all.
        encoder: ``"static"``, ``"transformer"`` or ``"tiny"``, see :mod:`weince_lib.text.encoders`.
        model: where weights and tokenizer come from, see :func:`weince_lib.text.weights`; empty for
            ``"tiny"``, which starts from scratch with the corpus's words.
        weights_sha256: hash its weight file must have; empty takes what is there. A folder's is
            filled in by :func:`text_config`, so that a record names weights and not a place.
        pooling: of a transformer.
        head: training head, see :class:`weince_lib.text.simcse.SimCSE`.
        token_dropout: of ``"static"``; transformers keep their own dropout.
        max_length: tokens of a sentence.
        loss: ``"infonce"``, ``"weince"`` or a key of :data:`weince_lib.losses.LOSSES`.
        temperature: tau; 0.05 in the paper. Left at it for a loss that sets its own.
        tail: how WEINCE reads the batch's tail; ``None`` for the other losses.
        options: keywords of a loss of :data:`weince_lib.losses.LOSSES`; those not given get the
            loss's defaults. ``None`` for the other losses.
        seed: of weights, order and dropout.
        epochs: passes over the corpus.
        batch_size: sentences per step.
        chunk_size: sentences encoded at a time, 0 for the whole batch; decides the dropout drawn.
        learning_rate: peak of AdamW's.
        weight_decay: of AdamW.
        warm_up: share of steps with a rising rate.
        clip_norm: largest norm of the gradient, 0 for no limit.
        evaluate_every: steps between evaluations on dev.
        precision: of the encoder.
        sts: sets to evaluate on; the first one's dev split chooses the best checkpoint.
    """

    corpus: str
    train_limit: Annotated[int, Field(ge=0)] = 0
    encoder: Literal["static", "transformer", "tiny"]
    model: str = NO_MODEL
    weights_sha256: str = ""
    pooling: Literal["cls", "mean"] = "cls"
    head: Literal["none", "mlp"] = "none"
    token_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    max_length: Positive = 32
    loss: Literal[
        "infonce", "weince", "endpoint", "self-setting", "annealed", "hard-negatives", "arctanh"
    ]
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    tail: TailSettings | None = None
    options: dict[str, bool | float | str] | None = None
    seed: Annotated[int, Field(ge=0)] = 7
    epochs: Positive = 1
    batch_size: Annotated[int, Field(ge=2)] = 64
    chunk_size: Annotated[int, Field(ge=0)] = 0
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3e-5
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip_norm: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    evaluate_every: Positive = 125
    precision: Literal["float32", "bfloat16"] = "float32"
    sts: Annotated[tuple[str, ...], Field(min_length=1)] = ("stsb",)

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if (self.model == NO_MODEL) != (self.encoder == "tiny"):
            raise ValueError(f"model = {self.model!r} does not fit encoder {self.encoder!r}")
        if self.chunk_size and self.batch_size % self.chunk_size:
            raise ValueError(
                f"batch_size = {self.batch_size} is no multiple of chunk_size = {self.chunk_size}"
            )
        return self

    def canonical(self) -> dict[str, Any]:
        """JSON values, the same for every way of writing the same run and on every machine.

        A file and a model's folder are named by their last name and a hash of what they hold: the
        corpus's bytes; the folder's tokenizer and configuration, beside ``weights_sha256``.

        Raises:
            FileNotFoundError: for a corpus that is not there.
            ModelFolderError: for a model folder that lacks a part.
        """
        content = super().canonical()
        if is_folder(self.model):
            folder = model_folder(self.model)
            parts = [content_hash(folder / name) for name in ("tokenizer.json", "config.json")]
            digest = hashlib.sha256("".join(parts).encode()).hexdigest()
            content["model"] = f"folder:{folder.resolve().name}@{digest[:HASH_DIGITS]}"
        kind, _, place = self.corpus.partition(":")
        if kind == "file":
            path = corpus_file(place)
            content["corpus"] = f"file:{path.name}@{content_hash(path)[:HASH_DIGITS]}"
        return content

    def build_loss(self) -> ContrastiveLoss:
        """The loss over the paper's candidates: each sentence's first pass against all second."""
        return self._build_loss(candidates="bipartite", symmetric=False)


def content_hash(path: Path) -> str:
    """SHA-256 of a file's bytes; read again only if its place, size or time is another."""
    status = path.stat()
    # The place on disk too: a link can be pointed to a file of the same size and time.
    return _hash(
        path.absolute(), (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    )


@lru_cache(maxsize=256)
def _hash(path: Path, stamp: tuple[int, ...]) -> str:
    return weights_hash(path)


def is_folder(model: str) -> bool:
    """Whether a model's name is a folder on this machine."""
    return bool(model) and model not in KNOWN_WEIGHTS and Path(model).expanduser().is_dir()


#: What each profile gives; the numbers of ``cpu`` were chosen on STS-B dev with InfoNCE.
TEXT_PROFILES: dict[str, dict[str, Any]] = {
    "quick": {
        "corpus": "grammar",
        "encoder": "tiny",
        "epochs": 3,
        "batch_size": 128,
        "learning_rate": 1e-3,
        "warm_up": 0.1,
        "evaluate_every": 16,
        "sts": ("grammar",),
    },
    "cpu": {
        "corpus": "wordnet",
        "encoder": "static",
        "model": "all-MiniLM-L6-v2",
        "token_dropout": 0.5,
        "batch_size": 512,
        "learning_rate": 3e-3,
        "clip_norm": 0.0,
        "evaluate_every": 38,
    },
    # The paper's run in one session on a free GPU of 15 GB, both losses: its encoder and recipe on
    # the first fifth of its sentences. float32, as such GPUs (Turing) have no bfloat16; two passes
    # of 64 short sentences with BERT-base leave more than half of the memory free. Sentences, pairs
    # and weights come from the hub.
    "colab": {
        "corpus": WIKI_ON_HUB,
        "train_limit": 200_000,
        "encoder": "transformer",
        "model": "bert-base-uncased",
        "head": "mlp",
        "precision": "float32",
        "sts": ("hub:mteb/stsbenchmark-sts",),
    },
    # As the paper's, on sentences that need no download and in bfloat16.
    "gpu": {
        "corpus": "wordnet",
        "encoder": "transformer",
        "model": "bert-base-uncased",
        "head": "mlp",
        "precision": "bfloat16",
    },
    "paper": {
        "corpus": "wiki",
        "encoder": "transformer",
        "model": "bert-base-uncased",
        "head": "mlp",
    },
}


def text_config(profile: str, **settings: Any) -> TextConfig:
    """Build a config from a profile and flat settings, as notebooks and the pipeline give them.

    Args:
        profile: a name in :data:`TEXT_PROFILES`.
        settings: fields of :class:`TextConfig`; instead of ``tail``, ``preset`` and the single
            fields of :class:`TailSettings`. ``"auto"`` leaves a setting to the profile or preset.

    Raises:
        ConfigError: one line naming the value and what is known.
        ModelFolderError: for a model folder that lacks a part.
    """
    merged = with_tail(profile_defaults(profile, TEXT_PROFILES), settings)
    model = merged.get("model", NO_MODEL)
    if not merged.get("weights_sha256"):
        merged["weights_sha256"] = KNOWN_WEIGHTS.get(model, "")
        if is_folder(model):
            merged["weights_sha256"] = weights_hash(weights_file(model_folder(model)))
    return parse(TextConfig, merged)


def is_own_text(config: TextConfig, profile: str) -> bool:
    """Whether a run is the profile's: it varies loss, preset and seed, and nothing else."""
    return varies_loss_and_seed(config, partial(text_config, profile))


def text_stamp(profile: str) -> str:
    """The profile's name with a hash of its settings for sentences."""
    return stamp(profile, text_config(profile).canonical())


def text_labels(config: TextConfig, profile: str) -> dict[str, Any]:
    """How tables name a run. One whose settings are not its profile's own is in no table.

    Raises:
        ConfigError: for an unknown profile.
    """
    own = text_stamp(profile)  # first: an unknown profile is refused for every run
    own = own if is_own_text(config, profile) else "custom"
    return table_labels(config, own, config.canonical()["corpus"])
