"""Frozen-feature evaluation of paper section 4 and Appendix F: split, probe, kNN, aggregation."""

from .aggregate import (
    Interval,
    PairedDifference,
    mean_within,
    paired_difference,
    select_on_validation,
    t_interval,
    worst_deviation,
)
from .block_model import BlockModel, Estimate, critical, fit_blocks
from .features import cached_features
from .geometry import geometry
from .knn import RECALL_KS, knn_evaluate
from .precision import detectable_effect, paired_image_error, seeds_to_tell
from .probe import PROBE_SEEDS, ProbeResult, linear_probe
from .splits import Split, stratified_split

__all__ = [
    "PROBE_SEEDS",
    "RECALL_KS",
    "BlockModel",
    "Estimate",
    "Interval",
    "PairedDifference",
    "ProbeResult",
    "Split",
    "cached_features",
    "critical",
    "detectable_effect",
    "fit_blocks",
    "geometry",
    "knn_evaluate",
    "linear_probe",
    "mean_within",
    "paired_difference",
    "paired_image_error",
    "seeds_to_tell",
    "select_on_validation",
    "stratified_split",
    "t_interval",
    "worst_deviation",
]
