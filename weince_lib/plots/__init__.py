"""One function per figure; each takes data and returns a matplotlib Figure."""

from .calibration import gate_calibration, tail_history
from .choice import score_recovery, winner_shares
from .geometry import DOMAIN_COLOURS, convergence, framework, spread_near_cap, wrong_link
from .link import coordinates, evidence_over_anchors, line_fits, links
from .style import LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, save_figure, style
from .tail import peaks_over_threshold
from .training import training_history, view_pairs

__all__ = [
    "DOMAIN_COLOURS",
    "LOSS_COLOURS",
    "LOSS_NAMES",
    "PAGE_WIDTH",
    "convergence",
    "coordinates",
    "evidence_over_anchors",
    "framework",
    "gate_calibration",
    "line_fits",
    "links",
    "peaks_over_threshold",
    "save_figure",
    "score_recovery",
    "spread_near_cap",
    "style",
    "tail_history",
    "training_history",
    "view_pairs",
    "winner_shares",
    "wrong_link",
]
