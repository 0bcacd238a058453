"""What the evidence says about tails whose answer is known.

The shares below were measured beforehand by separate code over 2,000 anchors (the Gumbel law:
20,000) with 510 negatives each. Here 512 anchors are drawn anew, so each share is compared within
five standard errors.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from weince_lib.losses import TailEvidence, TailSettings, tail_evidence

ANCHORS = 512
NEGATIVES = ANCHORS - 2
TAIL = 51  # round(0.10 * 510)

#: Scores, and the share of anchors at which the likelihood Delta AIC exceeds 2.
SHARES = {
    ("weibull", 0.5): 1.000,
    ("weibull", 1.0): 1.000,
    ("weibull", 2.0): 0.972,
    ("weibull", 4.0): 0.704,
    ("weibull", 8.0): 0.210,
    ("normal", 0.0): 0.004,
    ("normal", 0.3): 0.115,
    ("exponential", 0.05): 0.001,
    ("gumbel", 0.05): 0.0004,
    ("sphere", 4): 0.998,
    ("sphere", 8): 0.915,
    ("sphere", 16): 0.688,
    ("sphere", 64): 0.047,
}

each_tail = pytest.mark.parametrize("law", SHARES, ids=lambda law: f"{law[0]}-{law[1]}")


@cache
def readings(law: tuple[str, float]) -> tuple[TailEvidence, TailEvidence]:
    """The paper's reading and the calibrated one, of independent scores from one law."""
    family, p = law
    rng = np.random.default_rng(sum(map(ord, family)) + int(100 * p))
    shape = (ANCHORS, ANCHORS)
    scores = {
        "weibull": lambda: 1 - 0.5 * rng.power(p, shape),  # P(delta <= x) = (2x)^p
        "normal": lambda: rng.normal(p, 0.1, shape),
        "exponential": lambda: rng.exponential(p, shape),
        "gumbel": lambda: rng.gumbel(0.0, p, shape),
        # The cosine of two uniform directions in R^d: delta / 2 is Beta((d-1)/2, (d-1)/2).
        "sphere": lambda: 1 - 2 * rng.beta((p - 1) / 2, (p - 1) / 2, shape),
    }[family]()
    positives = torch.arange(ANCHORS).roll(ANCHORS // 2)
    settings = TailSettings(), TailSettings(tail_index="hill", evidence="likelihood")
    assert settings[0].tail_size(NEGATIVES) == TAIL
    paper, calibrated = (tail_evidence(torch.tensor(scores), positives, s) for s in settings)
    return paper, calibrated


@each_tail
def test_two_lines_always_find_an_endpoint(law: tuple[str, float]) -> None:
    """The paper's Delta AIC favours an endpoint whatever the tail, so its gate is always open."""
    paper, _ = readings(law)
    assert (paper.delta_aic > 2).double().mean() >= 0.995
    assert paper.delta_aic.median().item() == pytest.approx(174, abs=10)


@each_tail
def test_the_likelihood_tells_the_tails_apart(law: tuple[str, float]) -> None:
    _, calibrated = readings(law)
    share = (calibrated.delta_aic > 2).double().mean().item()
    expected = SHARES[law]
    error = math.sqrt(expected * (1 - expected) * (1 / ANCHORS + 1 / 2000))
    assert share == pytest.approx(expected, abs=5 * error + 0.005)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_tail_index_of_a_power_law(beta: float) -> None:
    """Hill: beta (k/(k - 1/3)) is the median of k / Gamma(k, 1). The line reads a little low."""
    paper, calibrated = readings(("weibull", beta))
    assert calibrated.beta.median().item() == pytest.approx(beta * TAIL / (TAIL - 1 / 3), rel=0.04)
    assert paper.beta.median().item() == pytest.approx(beta, rel=0.10)
    spread = (calibrated.beta.log().std() * math.sqrt(TAIL)).item()
    assert spread == pytest.approx(1.0, rel=0.15)  # relative standard error 1/sqrt(k)


def sphere_index_above_threshold(d: int) -> float:
    """1 / E log(delta_u/delta) for uniform directions, at the threshold that 510 negatives give."""
    half = stats.beta((d - 1) / 2, (d - 1) / 2)
    share = (TAIL + 1) / (NEGATIVES + 1)
    u = half.ppf(share)
    mean_log = integrate.quad(lambda x: half.cdf(x) / x, 0, u)[0] / share
    return 1 / mean_log


@pytest.mark.parametrize(
    ("d", "tolerance"), [(2, 0.04), (3, 0.04), (4, 0.06), (8, 0.17), (64, 0.6)]
)
def test_hill_on_the_sphere(d: int, tolerance: float) -> None:
    """beta -> (d - 1)/2 at the cap; at the tenth nearest the sphere's curvature lowers it.

    The tolerance for the limit is that bias, which grows with d (none at d = 3, where the cosine is
    uniform). Against the expectation at the threshold the tolerance is the sampling error alone.
    """
    _, calibrated = readings(("sphere", d))
    median = calibrated.beta.median().item()
    assert median == pytest.approx((d - 1) / 2, rel=tolerance)
    expected = sphere_index_above_threshold(d) * TAIL / (TAIL - 1 / 3)
    assert median == pytest.approx(expected, rel=0.04)
