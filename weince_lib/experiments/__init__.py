"""Configs and profiles, the run store, claims and the notebook runner."""

from .allocation import AllocationConfig, allocation_choices, allocation_config, run_allocation
from .cells import PAPER_ENCODERS, paper_cells, paper_config
from .checks import by_profile, record_checks
from .claims import VERDICTS, Claim, Decision, decide_all, load_claims
from .collect import load_reported, load_results
from .config import AUTO, PROFILES, SEEDS, ConfigError, VisionConfig, is_own, vision_config
from .encoders import (
    EncoderError,
    frozen_model,
    frozen_models,
    ready_encoder,
    train_anew,
)
from .link import LinkConfig, link_choices, link_config, run_link
from .link_epochs import run_link_epochs
from .provenance import provenance
from .store import Metric, Record, RecordError
from .tail import TailConfig, run_tail, score_bank, tail_config
from .vision import (
    labelled_images,
    models_along_training,
    run_vision,
    trained_model,
    training_images,
)

__all__ = [
    "AUTO",
    "PAPER_ENCODERS",
    "PROFILES",
    "SEEDS",
    "VERDICTS",
    "AllocationConfig",
    "Claim",
    "ConfigError",
    "Decision",
    "EncoderError",
    "LinkConfig",
    "Metric",
    "Record",
    "RecordError",
    "TailConfig",
    "VisionConfig",
    "allocation_choices",
    "allocation_config",
    "by_profile",
    "decide_all",
    "frozen_model",
    "frozen_models",
    "is_own",
    "labelled_images",
    "link_choices",
    "link_config",
    "load_claims",
    "load_reported",
    "load_results",
    "models_along_training",
    "paper_cells",
    "paper_config",
    "provenance",
    "ready_encoder",
    "record_checks",
    "run_allocation",
    "run_link",
    "run_link_epochs",
    "run_tail",
    "run_vision",
    "score_bank",
    "tail_config",
    "train_anew",
    "trained_model",
    "training_images",
    "vision_config",
]
