"""Sentences: corpora, encoders, SimCSE training, and how well cosines follow human similarity."""

from .corpora import Corpus, load_corpus
from .mteb import mteb_result, write_mteb_result
from .sts import StsPairs, load_sts, sts_score

__all__ = [
    "Corpus",
    "StsPairs",
    "load_corpus",
    "load_sts",
    "mteb_result",
    "sts_score",
    "write_mteb_result",
]
