"""The links of Table 1 against their definition written out, and what they refuse."""

import math

import numpy as np
import pytest

from weince_lib import links

SCORES = np.array([[0.15, 0.45, 0.70, 0.90], [0.3, 0.2, 0.999, 0.1]])


def normalised(weights):
    return [[w / sum(row) for w in row] for row in weights]


@pytest.mark.parametrize(
    ("found", "weight"),
    [
        (links.gumbel_link(SCORES), math.exp),
        (links.gumbel_link(SCORES, 0.05), lambda s: math.exp(s / 0.05)),
        (links.frechet_link(SCORES, 3.0), lambda s: s**3),
        (links.weibull_link(SCORES, 0.8), lambda s: (1 - s) ** -0.8),
        (links.weibull_link(SCORES, 2.0, endpoint=1.5), lambda s: (1.5 - s) ** -2),
    ],
)
def test_probabilities_are_proportional_to_the_tables_weights(found, weight):
    expected = normalised([[weight(float(s)) for s in row] for row in SCORES])
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)


def test_reference_of_figure_5():
    """Top against first candidate at beta = 0.8: log-odds 0.8 log(0.85 / 0.10) = 1.712053."""
    logp = links.weibull_link(SCORES[0], 0.8)
    assert logp[3] - logp[0] == pytest.approx(1.712053, abs=5e-7)


def test_far_logits_neither_overflow_nor_vanish():
    logp = links.gumbel_link([0.0, 1e6, 2e6])
    np.testing.assert_array_equal(logp, [-2e6, -1e6, 0.0])
    # Shortfalls below the spacing of doubles at 1 keep their precision as -q.
    fine = links.weibull_link([-1e-30, -2e-30], 2.0, endpoint=0.0)
    assert fine[0] - fine[1] == pytest.approx(2 * math.log(2), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: links.gumbel_link([1.0]), "two candidates or more"),
        (lambda: links.gumbel_link(1.0), "two candidates or more"),
        (lambda: links.gumbel_link([1.0, math.nan]), "finite, got nan"),
        (lambda: links.gumbel_link([1.0, 2.0], 0.0), "temperature must be positive .* got 0.0"),
        (lambda: links.frechet_link([1.0, 0.0], 1.0), "above 0, got 0"),
        (lambda: links.frechet_link([1.0, 2.0], -1.0), "alpha must be positive .* got -1.0"),
        (lambda: links.weibull_link([0.1, 1.0], 1.0), "below the endpoint 1, got 1"),
        (lambda: links.weibull_link([0.1, 0.5], math.inf), "beta must be positive"),
        (lambda: links.weibull_link([0.1, 0.5], 1.0, math.nan), "endpoint must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
