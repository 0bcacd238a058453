"""One function per figure: data in, matplotlib Figure out; ``explorer`` gives one with sliders."""

from .explorer import explorer
from .geometry import (
    convergence,
    framework,
    score_recovery,
    spread_near_cap,
    winner_shares,
    wrong_link,
)
from .link import (
    allocation,
    allocation_curves,
    coordinates,
    evidence_over_anchors,
    gain_over_epochs,
    gate_calibration,
    hardness,
    likelihood_ratio_null,
    line_fits,
    link_gains,
    link_selection,
    links,
)
from .maxima import (
    Points,
    block_sums,
    convergence_rates,
    counter_examples,
    sphere_and_embeddings,
    trichotomy,
)
from .misspecification import (
    Simulated,
    interval_coverage,
    noise_floor,
    pseudo_true_link,
    sampling_law,
)
from .runs import (
    contrast_forest,
    dev_curves,
    evidence_along_training,
    simcse_sts,
    training_history,
    view_pairs,
)
from .style import (
    DOMAIN_COLOURS,
    LOSS_COLOURS,
    LOSS_NAMES,
    PAGE_WIDTH,
    save_figure,
    sharp_in_notebooks,
    style,
)
from .tail import (
    mean_residual_life,
    parameter_stability,
    peaks_over_threshold,
    quantile_quantile,
)

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
