"""InfoNCE and WEINCE, the tail evidence that blends them, and the parts of a gain one by one."""

from .ablation import RELEASED, AblationLoss, AblationSettings, ReleasedLoss
from .dense import blended_logits, endpoint_coordinate, infonce_from_scores, weince_from_scores
from .evidence import PRESETS, TailEvidence, TailSettings, preset, tail_evidence
from .infonce import InfoNCELoss, infonce_loss
from .monitor import TailMonitor
from .queue import NegativeQueue
from .sharpness import Sharpness, sharpness
from .weince import WEINCELoss, weince_loss

__all__ = [
    "PRESETS",
    "RELEASED",
    "AblationLoss",
    "AblationSettings",
    "InfoNCELoss",
    "NegativeQueue",
    "ReleasedLoss",
    "Sharpness",
    "TailEvidence",
    "TailMonitor",
    "TailSettings",
    "WEINCELoss",
    "blended_logits",
    "endpoint_coordinate",
    "infonce_from_scores",
    "infonce_loss",
    "preset",
    "sharpness",
    "tail_evidence",
    "weince_from_scores",
    "weince_loss",
]
