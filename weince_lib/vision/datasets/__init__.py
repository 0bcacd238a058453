"""Labelled image sets held in memory: the paper's, two that are always at hand, image folders."""

from .data_set import SPLITS, UNLABELLED, DataSet, ImageSet, Shape
from .loading import (
    DATA_SETS,
    DATASETS,
    LEAST_PER_CLASS,
    Finding,
    Holding,
    augmentation,
    check,
    content_of,
    holdings,
    load,
    pretraining_split,
    title,
)

__all__ = [
    "DATASETS",
    "DATA_SETS",
    "LEAST_PER_CLASS",
    "SPLITS",
    "UNLABELLED",
    "DataSet",
    "Finding",
    "Holding",
    "ImageSet",
    "Shape",
    "augmentation",
    "check",
    "content_of",
    "holdings",
    "load",
    "pretraining_split",
    "title",
]
