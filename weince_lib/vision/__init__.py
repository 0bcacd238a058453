"""Image data, augmentation, encoders and SimCLR training."""

from .augment import TwoViewAugment, augmentation
from .datasets import ImageSet, load, pretraining_split
from .encoders import ENCODERS, build_encoder
from .simclr import SimCLR, build_simclr, extract_features, to_unit_range
from .training import (
    CheckpointError,
    NonFiniteLossError,
    TrainingSettings,
    load_checkpoint,
    train,
)

__all__ = [
    "ENCODERS",
    "CheckpointError",
    "ImageSet",
    "NonFiniteLossError",
    "SimCLR",
    "TrainingSettings",
    "TwoViewAugment",
    "augmentation",
    "build_encoder",
    "build_simclr",
    "extract_features",
    "load",
    "load_checkpoint",
    "pretraining_split",
    "to_unit_range",
    "train",
]
