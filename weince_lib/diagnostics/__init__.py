"""Diagnostics of a frozen encoder's similarity tail, and of what reads it.

Any set of embeddings, from its file to a report; each file imports those before it:

- ``embeddings``, ``reading``: check embeddings, pairs and labels, and read them from files
- ``streamed_bank``: the highest cosines of all pairs, block by block
- ``tail_checks``, ``shape_verdict``, ``batch_correction``: can the tail be trusted, does it end,
  what would WEINCE do
- ``report``, ``report_page``: the result in numbers and sentences, and on a page
- ``diagnosis``: :func:`diagnose`, which calls them in this order

A frozen encoder's batches, and the link that explains their winners:

- ``choice_bank``, ``sentences``: cosines of batches, and the choices in them
- ``link_fit``, ``link_inference``: links by maximum likelihood, with intervals and tests
- ``link_selection``: which link, and on which part of the negatives
- ``gradient_allocation``: where a loss puts its gradient, and where positives lose

``calibration`` asks how often the loss's gate opens on tails of known kind.
"""

from .calibration import KNOWN_TAILS, Gate, GateShare, as_frame, gate_shares
from .choice_bank import ChoiceBank, ScoreBank, choices_of, two_view_bank
from .diagnosis import diagnose
from .reading import ReadSettings, read_embeddings, read_labels, read_pairs
from .report import Diagnosis
from .shape_verdict import ShapeAt, shape_at, verdict
from .streamed_bank import BankSettings, StreamedBank, streamed_bank

__all__ = [
    "KNOWN_TAILS",
    "BankSettings",
    "ChoiceBank",
    "Diagnosis",
    "Gate",
    "GateShare",
    "ReadSettings",
    "ScoreBank",
    "ShapeAt",
    "StreamedBank",
    "as_frame",
    "choices_of",
    "diagnose",
    "gate_shares",
    "read_embeddings",
    "read_labels",
    "read_pairs",
    "shape_at",
    "streamed_bank",
    "two_view_bank",
    "verdict",
]
