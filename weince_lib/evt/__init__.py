"""Tail statistics: peaks over a threshold, and the tail index at a known endpoint."""

from .endpoint import KnownEndpointFit, fit_known_endpoint, sphere_shape, sphere_tail_index
from .exceedances import check_values, select_exceedances, select_threshold
from .gpd import GPDFit, fit_gpd
from .profile import GPDProfile

__all__ = [
    "GPDFit",
    "GPDProfile",
    "KnownEndpointFit",
    "check_values",
    "fit_gpd",
    "fit_known_endpoint",
    "select_exceedances",
    "select_threshold",
    "sphere_shape",
    "sphere_tail_index",
]
