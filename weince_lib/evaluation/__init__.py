"""Frozen-feature evaluation of paper section 4 and Appendix F: split, probe, kNN, aggregation."""

from .aggregate import (
    Interval,
    PairedDifference,
    mean_within,
    paired_difference,
    select_on_validation,
    t_interval,
)
from .features import cached_features, features_key
from .knn import RECALL_KS, knn_evaluate
from .probe import PROBE_SEEDS, ProbeResult, linear_probe
from .splits import Split, stratified_split

__all__ = [
    "PROBE_SEEDS",
    "RECALL_KS",
    "Interval",
    "PairedDifference",
    "ProbeResult",
    "Split",
    "cached_features",
    "features_key",
    "knn_evaluate",
    "linear_probe",
    "mean_within",
    "paired_difference",
    "select_on_validation",
    "stratified_split",
    "t_interval",
]
