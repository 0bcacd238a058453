"""Extreme-value corrections for InfoNCE: the losses, the tail statistics and the evidence.

The losses need torch, numpy and scipy only; see the rooms ``losses``, ``evt``, ``vision``,
``evaluation``, ``experiments``, ``plots`` for the rest.
"""

from .losses import (
    InfoNCELoss,
    TailEvidence,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    tail_evidence,
    weince_loss,
)

__version__ = "0.1.0"

__all__ = [
    "InfoNCELoss",
    "TailEvidence",
    "TailSettings",
    "WEINCELoss",
    "infonce_loss",
    "tail_evidence",
    "weince_loss",
]
