"""Image data, augmentation, encoders and SimCLR training."""

from .augment import TwoViewAugment
from .checkpoints import CheckpointError, load_checkpoint, restore_model
from .datasets import ImageSet, augmentation, load, pretraining_split
from .encoders import ENCODERS, build_encoder
from .execution import Execution
from .processes import ProcessError, join_processes
from .simclr import SimCLR, build_simclr, extract_features, to_unit_range
from .stopping import TrainingInterrupted
from .supervised import train_supervised
from .training import NonFiniteLossError, TrainingSettings, train

__all__ = [
    "ENCODERS",
    "CheckpointError",
    "Execution",
    "ImageSet",
    "NonFiniteLossError",
    "ProcessError",
    "SimCLR",
    "TrainingInterrupted",
    "TrainingSettings",
    "TwoViewAugment",
    "augmentation",
    "build_encoder",
    "build_simclr",
    "extract_features",
    "join_processes",
    "load",
    "load_checkpoint",
    "pretraining_split",
    "restore_model",
    "to_unit_range",
    "train",
    "train_supervised",
]
