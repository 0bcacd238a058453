"""Image data, augmentation, encoders and SimCLR training."""

from .augment import TwoViewAugment
from .datasets import ImageSet, augmentation, load, pretraining_split
from .encoders import ENCODERS, build_encoder
from .execution import Execution
from .simclr import SimCLR, build_simclr, extract_features, to_unit_range
from .supervised import train_supervised
from .training import TrainingSettings, train

__all__ = [
    "ENCODERS",
    "Execution",
    "ImageSet",
    "SimCLR",
    "TrainingSettings",
    "TwoViewAugment",
    "augmentation",
    "build_encoder",
    "build_simclr",
    "extract_features",
    "load",
    "pretraining_split",
    "to_unit_range",
    "train",
    "train_supervised",
]
