"""One function per figure; each takes data and returns a matplotlib Figure."""

from .calibration import gate_calibration, tail_history
from .link import coordinates, evidence_over_anchors, line_fits, links
from .misspecification import Simulated, interval_coverage, noise_floor, sampling_law, wrong_link
from .style import LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, save_figure, style
from .tail import peaks_over_threshold
from .tail_fit import probability_probability, profile_likelihood, quantile_quantile
from .thresholds import mean_residual_life, parameter_stability
from .training import training_history, view_pairs

__all__ = [
    "LOSS_COLOURS",
    "LOSS_NAMES",
    "PAGE_WIDTH",
    "Simulated",
    "coordinates",
    "evidence_over_anchors",
    "gate_calibration",
    "interval_coverage",
    "line_fits",
    "links",
    "mean_residual_life",
    "noise_floor",
    "parameter_stability",
    "peaks_over_threshold",
    "probability_probability",
    "profile_likelihood",
    "quantile_quantile",
    "sampling_law",
    "save_figure",
    "style",
    "tail_history",
    "training_history",
    "view_pairs",
    "wrong_link",
]
