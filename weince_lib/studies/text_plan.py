"""What a sentence run takes on the device at hand, timed on random tokens."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from ..runs.config import ConfigError
from ..runs.text_config import TextConfig
from ..text.corpora import WIKI_ON_HUB
from ..text.encoders import StaticEncoder, TinyTransformer, TransformerEncoder, load_transformer
from ..text.simcse import SimCSE
from ..text.steps import ChunkPlan, SimCSEStep
from ..text.tokens import Tokens
from ..text.weights import PACKAGED, model_folder
from ..training.steps import GuardedOptimizer
from .step_time import RECORD_BYTES, Measured, at_hand, seconds_of

#: Published sizes, so that a plan needs no corpus.
SENTENCES = {"wordnet": 116_697, "wiki": 1_000_000, WIKI_ON_HUB: 1_000_000, "grammar": 2_048}
#: Words of BERT's vocabulary, and a typical number of tokens of the longest sentence of a batch.
VOCABULARY, LENGTH = 30_522, 32
#: Sentences of STS-B's dev and test.
STSB_SENTENCES = 2 * (1_500 + 1_379)


def sentences(config: TextConfig) -> int:
    """Sentences of a run's corpus.

    Raises:
        ConfigError: for a corpus whose size only reading it would tell.
    """
    if config.corpus not in SENTENCES:
        raise ConfigError(f"no size known of {config.corpus!r}; known: {', '.join(SENTENCES)}")
    return min(SENTENCES[config.corpus], config.train_limit or SENTENCES[config.corpus])


def random_model(config: TextConfig) -> SimCSE:
    """A model of the run's size; BERT-base's is known, others are read from their folder."""
    encoder: nn.Module
    if config.encoder == "static":
        width = 384 if config.model in PACKAGED else 768
        encoder = StaticEncoder(torch.randn(VOCABULARY, width), config.token_dropout)
    elif config.encoder == "tiny":
        encoder = TinyTransformer(200, max_length=config.max_length)
    elif config.model == "bert-base-uncased":
        from transformers import BertConfig, BertModel

        encoder = TransformerEncoder(BertModel(BertConfig()), config.pooling)
    else:
        encoder = load_transformer(model_folder(config.model), pooling=config.pooling)
    return SimCSE(encoder, config.head)


def measure(config: TextConfig, *, cores: int = 1) -> Measured:
    """Time a training step and the evaluations.

    Args:
        config: the run.
        cores: threads on a CPU, where processor time counts.
    """
    with at_hand(cores) as (device, kind, name):
        model = random_model(config).to(device).train()
        large = kind == "core" and config.encoder == "transformer"
        pairs = 16 if large else config.batch_size
        step = SimCSEStep(
            model,
            config.build_loss(),
            GuardedOptimizer(torch.optim.AdamW(model.parameters(), 1e-6, fused=True), device),
            ChunkPlan(pairs, pairs),
            seed=0,
            precision=config.precision,
        )
        batch = _tokens(config, pairs)
        once = partial(step, [batch], 0)
        once()
        seconds = min(seconds_of(once, device) for _ in range(3))
        model.eval()
        held = [part.to(device) for part in _tokens(config, 64)]
        with torch.no_grad():
            model.encoder(*held)
            each = seconds_of(partial(model.encoder, *held), device) / 64
    steps = config.epochs * (sentences(config) // config.batch_size)
    # Start, last and best are looked at on both parts, dev while training too.
    looks = 3 + steps / config.evaluate_every / 2
    evaluation = looks * STSB_SENTENCES * each
    return Measured(seconds * config.batch_size / pairs, evaluation, pairs, kind, name)


def expected_hours(config: TextConfig, measured: Measured | None = None) -> float:
    """Hours of a whole run of a config: its steps and evaluations, without downloads.

    Args:
        config: the run.
        measured: its parts on the machine that will run it; by default :func:`measure` takes a
            few steps on the one at hand. On a CPU these are hours of a processor.

    Raises:
        ConfigError: for a corpus of unknown size.
    """
    parts = measured or measure(config)
    return parts.hours(config.epochs * (sentences(config) // config.batch_size))


def _tokens(config: TextConfig, count: int) -> Tokens:
    generator = torch.Generator().manual_seed(0)
    words = 200 if config.encoder == "tiny" else VOCABULARY
    length = min(LENGTH, config.max_length)
    ids = torch.randint(0, words, (count, length), generator=generator)
    return ids, torch.ones_like(ids)


def run_bytes(config: TextConfig) -> int:
    """Disk of one run: the best, the middle and the last weights, and the record."""
    weights = sum(p.numel() * p.element_size() for p in random_model(config).parameters())
    return 3 * weights + RECORD_BYTES
