"""Tail statistics and limit laws of maxima.

Peaks over a threshold, the tail index at a known endpoint, domains of attraction, and maxima of
variables that are not identically distributed.
"""

from . import families, non_identical
from .clusters import ClusterInterval, cluster_interval
from .domains import Family
from .endpoint import KnownEndpointFit, fit_known_endpoint, sphere_shape, sphere_tail_index
from .estimated_endpoint import EndpointFit, fit_endpoint
from .exceedances import check_values, select_exceedances, select_threshold
from .fixed_endpoint import EndpointTest, endpoint_test
from .gev import (
    canonical_tail,
    copies_quantile,
    gev_cdf,
    gev_density,
    gev_quantile,
    match_types,
    max_stability_gap,
    max_stable_constants,
    shape_of_type,
)
from .gpd import GPDFit, fit_gpd
from .non_identical import RankedCandidates, ScoredUtilities
from .profile import GPDProfile
from .sphere import intrinsic_dimension, nearest_tail_index, shape_above
from .thresholds import MeanExcess, StabilityPoint, mean_residual_life, parameter_stability

__all__ = [
    "ClusterInterval",
    "EndpointFit",
    "EndpointTest",
    "Family",
    "GPDFit",
    "GPDProfile",
    "KnownEndpointFit",
    "MeanExcess",
    "RankedCandidates",
    "ScoredUtilities",
    "StabilityPoint",
    "canonical_tail",
    "check_values",
    "cluster_interval",
    "copies_quantile",
    "endpoint_test",
    "families",
    "fit_endpoint",
    "fit_gpd",
    "fit_known_endpoint",
    "gev_cdf",
    "gev_density",
    "gev_quantile",
    "intrinsic_dimension",
    "match_types",
    "max_stability_gap",
    "max_stable_constants",
    "mean_residual_life",
    "nearest_tail_index",
    "non_identical",
    "parameter_stability",
    "select_exceedances",
    "select_threshold",
    "shape_above",
    "shape_of_type",
    "sphere_shape",
    "sphere_tail_index",
]
