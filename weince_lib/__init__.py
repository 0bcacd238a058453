"""Extreme-value corrections for InfoNCE: the losses, the tail statistics and the evidence.

The losses need torch, numpy and scipy only. A room imports the rooms above it in this list:

- ``paths``, ``files``, ``errors``, ``checks``: places, whole files, errors a user can mend
- ``losses``: InfoNCE, WEINCE and their relatives; ``links``, ``choice``: links, winners' laws
- ``evt``: peaks over threshold, endpoints, domains of attraction
- ``evaluation``: probes, neighbours, intervals
- ``plots``: figures
- ``training``: the resumable loop, checkpoints, stopping, processes
- ``vision``, ``text``: data, encoders, one training step each
- ``diagnostics``: what a bank of scores says about its tail and its link
- ``integrations``: the losses inside other libraries
- ``records``: one finished run, one record
- ``runs``: from a config to a record
- ``studies``: many runs that answer one question, and what they decide
- ``publish``: claims, notebooks, the PDF, the site
- ``experiments``: one door to the last four; ``cli``: the command ``weince``
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
