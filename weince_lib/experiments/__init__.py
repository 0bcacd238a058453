"""What notebooks and scripts use of ``records``, ``runs``, ``studies`` and ``publish``.

What is imported from here is loaded when it is asked for: pydantic, pandas and training take
seconds, and a figure's folder or one command needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import paths

# At once, since a module has the same name as this function.
from ..records.provenance import provenance

if TYPE_CHECKING:
    from ..publish.claims import VERDICTS, Claim, Decision, decide_all, load_claims
    from ..records.store import Metric, Record, RecordError
    from ..runs.allocation import (
        AllocationConfig,
        allocation_choices,
        allocation_config,
        run_allocation,
    )
    from ..runs.config import (
        AUTO,
        PROFILES,
        SEEDS,
        ConfigError,
        VisionConfig,
        is_own,
        vision_config,
    )
    from ..runs.encoders import EncoderError, frozen_model, frozen_models, ready_encoder, train_anew
    from ..runs.link import LinkConfig, link_choices, link_config, run_link, run_link_epochs
    from ..runs.record_checks import by_profile, record_checks
    from ..runs.tail import TailConfig, run_tail, score_bank, tail_config
    from ..runs.vision import (
        labelled_images,
        models_along_training,
        run_vision,
        trained_model,
        training_images,
    )
    from ..studies.collect import load_reported, load_results
    from ..studies.grid import PAPER_ENCODERS, paper_cells

#: Module to the public names that it holds.
_HOME = {
    "runs.allocation": "AllocationConfig allocation_choices allocation_config run_allocation",
    "runs.record_checks": "by_profile record_checks",
    "publish.claims": "VERDICTS Claim Decision decide_all load_claims",
    "studies.collect": "load_reported load_results",
    "studies.grid": "PAPER_ENCODERS paper_cells",
    "runs.config": "AUTO PROFILES SEEDS ConfigError VisionConfig is_own vision_config",
    "runs.encoders": "EncoderError frozen_model frozen_models ready_encoder train_anew",
    "runs.link": "LinkConfig link_choices link_config run_link run_link_epochs",
    "records.store": "Metric Record RecordError",
    "runs.tail": "TailConfig run_tail score_bank tail_config",
    "runs.vision": "labelled_images models_along_training run_vision trained_model training_images",
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
        return getattr(import_module(f"weince_lib.{_MODULE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """For completion in a notebook."""
    return sorted({*globals(), *__all__})
