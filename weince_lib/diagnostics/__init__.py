"""Diagnostics of a frozen encoder's similarity tail, and of what reads it."""

from .banks import ScoreBank, two_view_bank
from .batch_correction import Correction, corrections
from .calibration import KNOWN_TAILS, Gate, GateShare, TailLaw, as_frame, gate_shares
from .diagnosis import Diagnosis, NearDuplicates, diagnose
from .embeddings import load_embeddings, load_labels, load_pairs
from .shape_verdict import ShapeAt, shape_at, verdict
from .streamed_bank import BankSettings, StreamedBank, streamed_bank

__all__ = [
    "KNOWN_TAILS",
    "BankSettings",
    "Correction",
    "Diagnosis",
    "Gate",
    "GateShare",
    "NearDuplicates",
    "ScoreBank",
    "ShapeAt",
    "StreamedBank",
    "TailLaw",
    "as_frame",
    "corrections",
    "diagnose",
    "gate_shares",
    "load_embeddings",
    "load_labels",
    "load_pairs",
    "shape_at",
    "streamed_bank",
    "two_view_bank",
    "verdict",
]
