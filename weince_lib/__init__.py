"""Extreme-value corrections for InfoNCE: the losses, the tail statistics and the evidence.

The losses need torch, numpy and scipy only; see the rooms ``losses``, ``evt``, ``vision``,
``evaluation``, ``experiments``, ``plots`` for the rest.
"""

from typing import TYPE_CHECKING, Any

from .losses import (
    InfoNCELoss,
    TailEvidence,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    tail_evidence,
    weince_loss,
)

if TYPE_CHECKING:
    from .diagnostics.diagnosis import diagnose

__version__ = "0.1.0"

__all__ = [
    "InfoNCELoss",
    "TailEvidence",
    "TailSettings",
    "WEINCELoss",
    "diagnose",
    "infonce_loss",
    "tail_evidence",
    "weince_loss",
]


def __getattr__(name: str) -> Any:
    """``diagnose`` is loaded when it is asked for: training needs nothing of it."""
    if name == "diagnose":
        from .diagnostics.diagnosis import diagnose

        return diagnose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
