"""Winners of candidate sets: links, their likelihoods and what a wrong link does to them."""

from .projection import PseudoTrue, link_probabilities, pseudo_true
from .quasi_mle import QuasiMLE, fit_counts, fit_mean, fit_winners
from .sum_law import lattice_sum_law

__all__ = [
    "PseudoTrue",
    "QuasiMLE",
    "fit_counts",
    "fit_mean",
    "fit_winners",
    "lattice_sum_law",
    "link_probabilities",
    "pseudo_true",
]
