"""One function per figure: data in, matplotlib Figure out; ``explorer`` gives one with sliders."""

from .allocation import allocation, allocation_curves
from .calibration import gate_calibration
from .choice import score_recovery, winner_shares
from .explorer import explorer
from .gain import contrast_forest
from .geometry import convergence, framework, spread_near_cap, wrong_link
from .link import coordinates, evidence_over_anchors, line_fits, links
from .link_evidence import (
    gain_over_epochs,
    hardness,
    likelihood_ratio_null,
    link_gains,
    link_selection,
)
from .maxima import Points, block_sums, convergence_rates, counter_examples, trichotomy
from .misspecification import (
    Simulated,
    interval_coverage,
    noise_floor,
    pseudo_true_link,
    sampling_law,
)
from .sphere import sphere_and_embeddings
from .style import (
    DOMAIN_COLOURS,
    LOSS_COLOURS,
    LOSS_NAMES,
    PAGE_WIDTH,
    save_figure,
    sharp_in_notebooks,
    style,
)
from .tail import peaks_over_threshold
from .tail_fit import quantile_quantile
from .text import dev_curves, evidence_along_training, simcse_sts
from .thresholds import mean_residual_life, parameter_stability
from .training import training_history, view_pairs

__all__ = [
    "DOMAIN_COLOURS",
    "LOSS_COLOURS",
    "LOSS_NAMES",
    "PAGE_WIDTH",
    "Points",
    "Simulated",
    "allocation",
    "allocation_curves",
    "block_sums",
    "contrast_forest",
    "convergence",
    "convergence_rates",
    "coordinates",
    "counter_examples",
    "dev_curves",
    "evidence_along_training",
    "evidence_over_anchors",
    "explorer",
    "framework",
    "gain_over_epochs",
    "gate_calibration",
    "hardness",
    "interval_coverage",
    "likelihood_ratio_null",
    "line_fits",
    "link_gains",
    "link_selection",
    "links",
    "mean_residual_life",
    "noise_floor",
    "parameter_stability",
    "peaks_over_threshold",
    "pseudo_true_link",
    "quantile_quantile",
    "sampling_law",
    "save_figure",
    "score_recovery",
    "simcse_sts",
    "sphere_and_embeddings",
    "spread_near_cap",
    "style",
    "training_history",
    "trichotomy",
    "view_pairs",
    "winner_shares",
    "wrong_link",
]

sharp_in_notebooks()
