"""Choice models of paper section 2: sampling, likelihood, recovery and exact winner laws."""

from .best_softmax import BestSoftmax, best_softmax, total_variation
from .exact import maximum_level, tail_weights, top1_probabilities, top1_probabilities_of_laws
from .likelihood import ranking_log_likelihood, top1_log_likelihood
from .random_utility import (
    IndexModel,
    sample_utilities,
    scaling_model,
    shortfall_model,
    simulate_winners,
    translation_model,
)
from .recovery import (
    ChoiceFit,
    fit_conditional_logit,
    fit_scores_from_rankings,
    fit_scores_from_winners,
)
from .sampling import sample_rankings, sample_winners

__all__ = [
    "BestSoftmax",
    "ChoiceFit",
    "IndexModel",
    "best_softmax",
    "fit_conditional_logit",
    "fit_scores_from_rankings",
    "fit_scores_from_winners",
    "maximum_level",
    "ranking_log_likelihood",
    "sample_rankings",
    "sample_utilities",
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
