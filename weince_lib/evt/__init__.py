"""Tail statistics and limit laws of maxima.

Peaks over a threshold, the tail index at a known endpoint, domains of attraction, and maxima of
variables that are not identically distributed.
"""

from . import families, non_identical
from .clusters import ClusterInterval, cluster_interval
from .endpoint import (
    EndpointFit,
    EndpointTest,
    KnownEndpointFit,
    endpoint_test,
    fit_endpoint,
    fit_known_endpoint,
    nearest_tail_index,
)
from .families import Family, shape_above, sphere_shape
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
from .gpd import GPDFit, GPDProfile, ProfilePoint, fit_gpd, moment_fit
from .non_identical import RankedCandidates, ScoredUtilities
from .thresholds import (
    MeanExcess,
    StabilityPoint,
    held_out_misses,
    mean_residual_life,
    parameter_stability,
)

__all__ = [
    "ClusterInterval",
    "EndpointFit",
    "EndpointTest",
    "Family",
    "GPDFit",
    "GPDProfile",
    "KnownEndpointFit",
    "MeanExcess",
    "ProfilePoint",
    "RankedCandidates",
    "ScoredUtilities",
    "StabilityPoint",
    "canonical_tail",
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
    "held_out_misses",
    "match_types",
    "max_stability_gap",
    "max_stable_constants",
    "mean_residual_life",
    "moment_fit",
    "nearest_tail_index",
    "non_identical",
    "parameter_stability",
    "shape_above",
    "shape_of_type",
    "sphere_shape",
]
