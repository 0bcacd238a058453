"""Winners of candidate sets: links, their likelihoods and what a wrong link does to them."""

from .best_softmax import BestSoftmax, best_softmax, total_variation
from .exact import maximum_level, tail_weights, top1_probabilities, top1_probabilities_of_laws
from .likelihood import (
    ChoiceFit,
    fit_conditional_logit,
    fit_scores_from_rankings,
    fit_scores_from_winners,
    ranking_log_likelihood,
    top1_log_likelihood,
)
from .quasi_mle import (
    PseudoTrue,
    QuasiMLE,
    fit_counts,
    fit_mean,
    fit_winners,
    lattice_sum_law,
    link_probabilities,
    pseudo_true,
)
from .random_utility import (
    IndexModel,
    sample_rankings,
    sample_winners,
    scaling_model,
    shortfall_model,
    simulate_winners,
    translation_model,
)

__all__ = [
    "BestSoftmax",
    "ChoiceFit",
    "IndexModel",
    "PseudoTrue",
    "QuasiMLE",
    "best_softmax",
    "fit_conditional_logit",
    "fit_counts",
    "fit_mean",
    "fit_scores_from_rankings",
    "fit_scores_from_winners",
    "fit_winners",
    "lattice_sum_law",
    "link_probabilities",
    "maximum_level",
    "pseudo_true",
    "ranking_log_likelihood",
    "sample_rankings",
    "sample_winners",
    "scaling_model",
    "shortfall_model",
    "simulate_winners",
    "tail_weights",
    "top1_log_likelihood",
    "top1_probabilities",
    "top1_probabilities_of_laws",
    "total_variation",
    "translation_model",
]
