"""InfoNCE and WEINCE, and the tail evidence that blends them."""

from .evidence import TailEvidence, TailSettings, tail_evidence
from .infonce import InfoNCELoss, infonce_loss
from .monitor import TailMonitor
from .presets import PRESETS, preset
from .weince import WEINCELoss, blended_logits, endpoint_coordinate, weince_loss

__all__ = [
    "PRESETS",
    "InfoNCELoss",
    "TailEvidence",
    "TailMonitor",
    "TailSettings",
    "WEINCELoss",
    "blended_logits",
    "endpoint_coordinate",
    "infonce_loss",
    "preset",
    "tail_evidence",
    "weince_loss",
]
