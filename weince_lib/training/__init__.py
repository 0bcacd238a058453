"""What training of images and of sentences shares: the loop, checkpoints, stopping, processes."""

from .checkpoints import CheckpointError, load_checkpoint, restore_model
from .loop import NonFiniteLossError, TrainingLoop, epoch_generator
from .processes import ProcessError, join_processes
from .stopping import TrainingInterrupted

__all__ = [
    "CheckpointError",
    "NonFiniteLossError",
    "ProcessError",
    "TrainingInterrupted",
    "TrainingLoop",
    "epoch_generator",
    "join_processes",
    "load_checkpoint",
    "restore_model",
]
