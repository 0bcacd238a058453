"""One function per figure; each takes data and returns a matplotlib Figure."""

from .allocation import allocation, allocation_curves
from .calibration import gate_calibration, tail_history
from .choice import (
    gain_over_epochs,
    hardness,
    likelihood_ratio_null,
    link_gains,
    link_selection,
)
from .link import coordinates, evidence_over_anchors, line_fits, links
from .style import LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, save_figure, style
from .tail import peaks_over_threshold
from .training import training_history, view_pairs

__all__ = [
    "LOSS_COLOURS",
    "LOSS_NAMES",
    "PAGE_WIDTH",
    "allocation",
    "allocation_curves",
    "coordinates",
    "evidence_over_anchors",
    "gain_over_epochs",
    "gate_calibration",
    "hardness",
    "likelihood_ratio_null",
    "line_fits",
    "link_gains",
    "link_selection",
    "links",
    "peaks_over_threshold",
    "save_figure",
    "style",
    "tail_history",
    "training_history",
    "view_pairs",
]
