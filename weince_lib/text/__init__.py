"""Sentences: corpora, encoders, SimCSE training, and how well cosines follow human similarity."""

from .corpora import Corpus, load_corpus
from .sts import StsPairs, load_sts, sts_score

__all__ = [
    "Corpus",
    "StsPairs",
    "load_corpus",
    "load_sts",
    "sts_score",
]
