"""Image data, augmentation, encoders and SimCLR training."""

from .augment import TwoViewAugment
from .datasets import ImageSet, augmentation, load, pretraining_split
from .encoders import ENCODERS, SimCLR, build_encoder, build_simclr, extract_features
from .execution import Execution
from .image_ops import to_unit_range
from .training import TrainingSettings, train, train_supervised

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
