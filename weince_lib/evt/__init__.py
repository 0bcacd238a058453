"""Tail statistics and limit laws of maxima.

Peaks over a threshold, the tail index at a known endpoint, domains of attraction, and maxima of
variables that are not identically distributed.
"""

from . import families, non_identical
from .domains import Family
from .endpoint import KnownEndpointFit, fit_known_endpoint, sphere_shape, sphere_tail_index
from .exceedances import check_values, select_exceedances, select_threshold
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

__all__ = [
    "Family",
    "GPDFit",
    "GPDProfile",
    "KnownEndpointFit",
    "RankedCandidates",
    "ScoredUtilities",
    "canonical_tail",
    "check_values",
    "copies_quantile",
    "families",
    "fit_gpd",
    "fit_known_endpoint",
    "gev_cdf",
    "gev_density",
    "gev_quantile",
    "intrinsic_dimension",
    "match_types",
    "max_stability_gap",
    "max_stable_constants",
    "nearest_tail_index",
    "non_identical",
    "select_exceedances",
    "select_threshold",
    "shape_above",
    "shape_of_type",
    "sphere_shape",
    "sphere_tail_index",
]
