"""Configs and profiles, the run store, claims and the notebook runner.

What is imported from here is loaded when it is asked for: pydantic, pandas and training take
seconds, and a figure's folder or one command needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import paths

# At once, since a module has the same name as this function.
from .provenance import provenance

if TYPE_CHECKING:
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
    from .store import Metric, Record, RecordError
    from .tail import TailConfig, run_tail, score_bank, tail_config
    from .vision import (
        labelled_images,
        models_along_training,
        run_vision,
        trained_model,
        training_images,
    )

#: Module to the public names that it holds.
_HOME = {
    "allocation": "AllocationConfig allocation_choices allocation_config run_allocation",
    "cells": "PAPER_ENCODERS paper_cells paper_config",
    "checks": "by_profile record_checks",
    "claims": "VERDICTS Claim Decision decide_all load_claims",
    "collect": "load_reported load_results",
    "config": "AUTO PROFILES SEEDS ConfigError VisionConfig is_own vision_config",
    "encoders": "EncoderError frozen_model frozen_models ready_encoder train_anew",
    "link": "LinkConfig link_choices link_config run_link",
    "link_epochs": "run_link_epochs",
    "store": "Metric Record RecordError",
    "tail": "TailConfig run_tail score_bank tail_config",
    "vision": "labelled_images models_along_training run_vision trained_model training_images",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

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
    "paths",
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


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for (PEP 562)."""
    if name in _MODULE:
        return getattr(import_module(f".{_MODULE[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """For completion in a notebook."""
    return sorted({*globals(), *__all__})
