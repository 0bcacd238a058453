"""Tail statistics: peaks over a threshold, the endpoint, thresholds, fit, and dependent pairs."""

from .clusters import ClusterInterval, cluster_interval
from .curves import ProfileCurve, profile_curve
from .endpoint import KnownEndpointFit, fit_known_endpoint, sphere_shape, sphere_tail_index
from .estimated_endpoint import EndpointFit, fit_endpoint
from .exceedances import check_values, select_exceedances, select_threshold
from .fixed_endpoint import EndpointTest, endpoint_test
from .gev import GEVFit, fit_gev
from .goodness import GoodnessOfFit, goodness_of_fit
from .gpd import GPDFit, fit_gpd
from .hill import HillFit, fit_hill
from .profile import GPDProfile
from .tail_quantile import TailQuantile, fit_tail_quantile
from .thresholds import MeanExcess, StabilityPoint, mean_residual_life, parameter_stability

__all__ = [
    "ClusterInterval",
    "EndpointFit",
    "EndpointTest",
    "GEVFit",
    "GPDFit",
    "GPDProfile",
    "GoodnessOfFit",
    "HillFit",
    "KnownEndpointFit",
    "MeanExcess",
    "ProfileCurve",
    "StabilityPoint",
    "TailQuantile",
    "check_values",
    "cluster_interval",
    "endpoint_test",
    "fit_endpoint",
    "fit_gev",
    "fit_gpd",
    "fit_hill",
    "fit_known_endpoint",
    "fit_tail_quantile",
    "goodness_of_fit",
    "mean_residual_life",
    "parameter_stability",
    "profile_curve",
    "select_exceedances",
    "select_threshold",
    "sphere_shape",
    "sphere_tail_index",
]
