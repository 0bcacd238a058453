"""Tokenised corpora: tokenised once, kept in one memory-mapped file.

A row of the file is ``[length, id, id, …]``, padded with zeros to the same width, in uint16 or,
for vocabularies beyond 65,535, uint32. Writing needs the memory of a few thousand sentences and
reading that of a batch, however long the corpus is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor

from .. import files, paths
from .corpora import Corpus

#: Sentences tokenised at a time.
CHUNK = 4096
UNKNOWN = "[UNK]"
Tokens = tuple[Tensor, Tensor]
"""``input_ids`` and ``attention_mask``, both int64 of shape ``(n, longest)``."""


@dataclass(frozen=True)
class SentenceTokenizer:
    """A tokenizer with the two choices that decide what an encoder sees.

    Attributes:
        tokenizer: of the ``tokenizers`` library.
        max_length: tokens kept of a sentence, special ones included; 32 is SimCSE's.
        special: whether ``[CLS]`` and ``[SEP]`` are added. A mean of word embeddings does without.
    """

    tokenizer: Tokenizer = field(repr=False)
    max_length: int = 32
    special: bool = True

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise ValueError(f"max_length must be 1 or more, got {self.max_length}")
        self.tokenizer.enable_truncation(self.max_length)

    @property
    def size(self) -> int:
        """Number of tokens in the vocabulary."""
        return int(self.tokenizer.get_vocab_size())

    def content_hash(self) -> str:
        """SHA-256 of everything the tokens depend on."""
        text = f"{self.tokenizer.to_str()}|{self.max_length}|{self.special}"
        return hashlib.sha256(text.encode()).hexdigest()

    def ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence; one that has no token gets the unknown token, or id 0."""
        encoded = self.tokenizer.encode_batch(list(sentences), add_special_tokens=self.special)
        nothing = [self.tokenizer.token_to_id(UNKNOWN) or 0]
        return [e.ids or nothing for e in encoded]

    def __call__(self, sentences: Sequence[str]) -> Tokens:
        """Ids and mask of some sentences, padded to the longest."""
        rows = self.ids(sentences)
        return unpack(_packed(rows, 1 + max(map(len, rows)), np.dtype(np.int64)))


def word_tokenizer(sentences: Iterable[str]) -> Tokenizer:
    """A word-level tokenizer whose vocabulary is the words of a corpus, lower case."""
    rules = pre_tokenizers.Whitespace()
    lower = normalizers.Lowercase()
    found: set[str] = set()
    for sentence in sentences:
        found.update(w for w, _ in rules.pre_tokenize_str(lower.normalize_str(sentence)))
    vocabulary = {word: number for number, word in enumerate(["[PAD]", UNKNOWN, *sorted(found)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = lower
    tokenizer.pre_tokenizer = rules
    return tokenizer


@dataclass(frozen=True)
class TokenisedCorpus:
    """Sentences as token ids, on disk.

    Attributes:
        table: shape ``(sentences, 1 + max_length)``, memory-mapped; the first column is the length.
        digest: of corpus and tokenizer.
    """

    table: np.ndarray
    digest: str

    def __len__(self) -> int:
        return len(self.table)

    def batch(self, rows: Tensor | np.ndarray) -> Tokens:
        """Ids and mask of some sentences by number, padded to the longest of them."""
        return unpack(self.table[np.asarray(rows)].astype(np.int64))


def unpack(table: np.ndarray) -> Tokens:
    """Ids and mask from rows ``[length, id, …]``, cut to the longest."""
    lengths = torch.from_numpy(table[:, 0].copy())
    longest = int(lengths.max()) if len(table) else 0
    ids = torch.from_numpy(table[:, 1 : 1 + longest].copy())
    return ids, (torch.arange(longest) < lengths[:, None]).long()


def tokenise(
    corpus: Corpus, tokenizer: SentenceTokenizer, *, folder: Path | str | None = None
) -> TokenisedCorpus:
    """Tokenise a corpus, or find it tokenised already.

    Args:
        corpus: gone through once, in order.
        tokenizer: how.
        folder: where tokenised corpora are kept; ``tokens/`` in the data folder by default. The
            file's name is a hash of corpus, tokenizer and length.

    Raises:
        ValueError: if the corpus is empty, or has another length than it says.
    """
    if not len(corpus):
        raise ValueError(f"corpus {corpus.name!r} is empty; it needs at least one sentence")
    home = Path(folder) if folder is not None else paths.data() / "tokens"
    digest = hashlib.sha256(
        f"{corpus.content_hash()}|{tokenizer.content_hash()}".encode()
    ).hexdigest()
    dtype = np.dtype(np.uint16 if tokenizer.size <= 2**16 else np.uint32)
    width = 1 + tokenizer.max_length
    path = home / f"{digest[:32]}.{dtype.name}"
    expected = len(corpus) * width * dtype.itemsize
    if not path.is_file() or path.stat().st_size != expected:
        with files.replacing(path) as aside:
            with aside.open("wb") as out:
                sentences = iter(corpus)
                while part := list(islice(sentences, CHUNK)):
                    out.write(_packed(tokenizer.ids(part), width, dtype).tobytes())
            if aside.stat().st_size != expected:
                raise ValueError(
                    f"corpus {corpus.name!r} says it has {len(corpus)} sentences and gave "
                    f"{aside.stat().st_size // (width * dtype.itemsize)}; load it again"
                )
    return TokenisedCorpus(np.memmap(path, dtype, "r", shape=(len(corpus), width)), digest)


def _packed(rows: Sequence[Sequence[int]], width: int, dtype: np.dtype) -> np.ndarray:
    """Rows ``[length, id, …]`` of a width, from the ids of each sentence."""
    table = np.zeros((len(rows), width), dtype)
    for row, found in zip(table, rows, strict=True):
        row[0], row[1 : 1 + len(found)] = len(found), found
    return table
