"""Labelled image sets held in memory: the paper's, two that are always at hand, image folders."""

from .image_set import UNLABELLED, ImageSet
from .inventory import LEAST_PER_CLASS, Finding, Holding, check, holdings
from .loading import (
    DATA_SETS,
    DATASETS,
    SPLITS,
    DataSet,
    Shape,
    augmentation,
    content_of,
    load,
    pretraining_split,
    splits,
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
    "splits",
    "title",
]
