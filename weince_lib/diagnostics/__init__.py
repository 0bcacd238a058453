"""Diagnostics of a frozen encoder's similarity tail, and of what reads it.

Any set of embeddings, from its file to a report; each file imports those before it:

- ``tables``, ``embeddings``: read and check embeddings, pairs and labels
- ``streamed_bank``: the highest cosines of all pairs, block by block
- ``tail_checks``, ``shape_verdict``, ``batch_correction``: can the tail be trusted, does it end,
  what would WEINCE do
- ``report_figures``, ``report``: the result in numbers, sentences and on a page
- ``diagnosis``: :func:`diagnose`, which calls them in this order

A frozen encoder's batches, and the link that explains their winners:

- ``choice_bank``, ``sentences``: cosines of batches, and the choices in them
- ``link_fit``, ``link_profile``, ``log_partition``, ``link_inference``: links by maximum
  likelihood, with intervals and tests
- ``link_selection``, ``link_ablation``: which link, and on which part of the negatives
- ``gradient_allocation``: where a loss puts its gradient, and where positives lose

``calibration`` asks how often the loss's gate opens on tails of known kind.
"""

from .batch_correction import Correction, corrections
from .calibration import KNOWN_TAILS, Gate, GateShare, TailLaw, as_frame, gate_shares
from .choice_bank import ChoiceBank, ScoreBank, choices_of, two_view_bank
from .diagnosis import diagnose
from .embeddings import ReadSettings, load_embeddings, load_labels, load_pairs
from .gradient_allocation import Allocation, allocate, draw_subsets, exact_risk
from .link_ablation import AblationPoint, vary_hardness, vary_pool
from .link_fit import Design, LinkFit, fit_link
from .link_inference import GainTest, RatioTest, gain_test, likelihood_ratio
from .link_profile import fit_anchor_temperature, fit_power, profile_blend
from .link_selection import (
    Comparison,
    CrossValidation,
    LinkSelection,
    compare_links,
    cross_validate,
    select_link,
)
from .report import Diagnosis
from .shape_verdict import ShapeAt, shape_at, verdict
from .streamed_bank import BankSettings, StreamedBank, streamed_bank
from .tail_checks import NearDuplicates

__all__ = [
    "KNOWN_TAILS",
    "AblationPoint",
    "Allocation",
    "BankSettings",
    "ChoiceBank",
    "Comparison",
    "Correction",
    "CrossValidation",
    "Design",
    "Diagnosis",
    "GainTest",
    "Gate",
    "GateShare",
    "LinkFit",
    "LinkSelection",
    "NearDuplicates",
    "RatioTest",
    "ReadSettings",
    "ScoreBank",
    "ShapeAt",
    "StreamedBank",
    "TailLaw",
    "allocate",
    "as_frame",
    "choices_of",
    "compare_links",
    "corrections",
    "cross_validate",
    "diagnose",
    "draw_subsets",
    "exact_risk",
    "fit_anchor_temperature",
    "fit_link",
    "fit_power",
    "gain_test",
    "gate_shares",
    "likelihood_ratio",
    "load_embeddings",
    "load_labels",
    "load_pairs",
    "profile_blend",
    "select_link",
    "shape_at",
    "streamed_bank",
    "two_view_bank",
    "vary_hardness",
    "vary_pool",
    "verdict",
]
