"""Labelled image sets held in memory: the paper's, two that are always at hand, image folders."""

from .image_set import UNLABELLED, ImageSet
from .inventory import LEAST_PER_CLASS, Finding, Holding, check, holdings
from .loading import DATASETS, SPLITS, content_of, load, pretraining_split, splits, title

__all__ = [
    "DATASETS",
    "LEAST_PER_CLASS",
    "SPLITS",
    "UNLABELLED",
    "Finding",
    "Holding",
    "ImageSet",
    "check",
    "content_of",
    "holdings",
    "load",
    "pretraining_split",
    "splits",
    "title",
]
