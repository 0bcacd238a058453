"""Diagnostics of a frozen encoder's similarity tail, and of what reads it."""

from .banks import ScoreBank, two_view_bank
from .calibration import KNOWN_TAILS, Gate, GateShare, TailLaw, as_frame, gate_shares

__all__ = [
    "KNOWN_TAILS",
    "Gate",
    "GateShare",
    "ScoreBank",
    "TailLaw",
    "as_frame",
    "gate_shares",
    "two_view_bank",
]
