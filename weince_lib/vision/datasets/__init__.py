"""Labelled image sets held in memory: handwritten digits, Fashion-MNIST, any image folder."""

from .image_set import ImageSet
from .loading import DATASETS, SPLITS, load

__all__ = ["DATASETS", "SPLITS", "ImageSet", "load"]
