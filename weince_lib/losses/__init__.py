"""InfoNCE and WEINCE, and the tail evidence that blends them."""

from .evidence import TailEvidence, TailSettings, tail_evidence
from .infonce import InfoNCELoss, infonce_loss
from .monitor import TailMonitor
from .negative_queue import NegativeQueue
from .presets import PRESETS, preset
from .scores import infonce_from_scores, weince_from_scores
from .weince import WEINCELoss, blended_logits, endpoint_coordinate, weince_loss

__all__ = [
    "PRESETS",
    "InfoNCELoss",
    "NegativeQueue",
    "TailEvidence",
    "TailMonitor",
    "TailSettings",
    "WEINCELoss",
    "blended_logits",
    "endpoint_coordinate",
    "infonce_from_scores",
    "infonce_loss",
    "preset",
    "tail_evidence",
    "weince_from_scores",
    "weince_loss",
]
