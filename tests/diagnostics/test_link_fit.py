"""Link fits against explicit loops, scipy, statsmodels, and the boundary's conditions."""

import math

import numpy as np
import pytest
from link_samples import bank_of_blend, random_bank
from scipy import optimize

from weince_lib.diagnostics.choice_bank import draw_winners
from weince_lib.diagnostics.link_fit import (
    Design,
    fit_anchor_temperature,
    fit_link,
    fit_power,
    nearness,
    power_coordinate,
    profile_blend,
)


def loop_likelihood(bank, lam, tau):
    """H1's log-likelihood as it is written: softmax(T_lambda(s) / tau), one anchor at a time."""
    total = 0.0
    for row in bank.scores.reshape(-1, bank.scores.shape[-1]):
        logits = [((1 - lam) * s - lam * math.log(1 - s)) / tau for s in row]
        top = max(logits)
        total += logits[0] - top - math.log(math.fsum(math.exp(x - top) for x in logits))
    return total


@pytest.mark.parametrize(("lam", "tau"), [(0.0, 0.5), (0.3, 0.2), (1.0, 1.0), (0.7, 0.01)])
def test_likelihood_is_that_of_the_paper(lam, tau):
    bank = random_bank(batches=2, anchors=5, candidates=6)
    theta = np.array([1 - lam, lam]) / tau
    design = Design(bank, ("identity", "shortfall"))
    expected = loop_likelihood(bank, lam, tau)
    assert design.log_probability(theta).sum() == pytest.approx(expected, rel=1e-12)
    assert design.derivatives(theta)[0] * bank.anchors == pytest.approx(expected, rel=1e-12)


def test_derivatives_against_differences():
    design = Design(random_bank(), ("identity", "shortfall", "heavy-tail"))
    theta, step = np.array([2.0, 0.7, 0.4]), 1e-5
    _, gradient, hessian = design.derivatives(theta)
    for c in range(3):
        moved = step * np.eye(3)[c]
        up, down = design.derivatives(theta + moved), design.derivatives(theta - moved)
        assert gradient[c] == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-9)
        np.testing.assert_allclose(hessian[c], (up[1] - down[1]) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(design.batch_scores(theta).mean(axis=0), gradient, atol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 0.3, 0.9])
def test_fit_against_a_bounded_optimiser(lam):
    bank = bank_of_blend(lam, seed=5)
    design = Design(bank, ("identity", "shortfall"))
    fit = fit_link(design)
    found = optimize.minimize(
        lambda x: -loop_likelihood(bank, x[1] / x.sum(), 1 / x.sum()),
        [1.0, 0.5],
        bounds=[(1e-6, None), (0, None)],
        method="L-BFGS-B",
    )
    assert fit.log_likelihood >= -found.fun - 1e-9
    assert fit.log_likelihood == pytest.approx(-found.fun, abs=1e-4)
    np.testing.assert_allclose(fit.theta, found.x, atol=0.02)
    assert fit.blend[1] == pytest.approx(fit.theta[1] * fit.temperature)
    # Where the search starts makes no difference.
    np.testing.assert_allclose(fit_link(design, np.array([9.0, 3.0])).theta, fit.theta, atol=1e-6)


def test_a_weight_that_would_be_negative_is_exactly_zero_and_the_rest_is_the_smaller_fit():
    # Winners of a link that is flatter than softmax near the cap.
    bank = random_bank()
    s = bank.scores
    bank = draw_winners(bank, 4 * s + 1.5 * np.log(1 - s), seed=3)
    design = Design(bank, ("identity", "shortfall"))
    fit = fit_link(design)
    assert fit.theta[1] == 0.0
    softmax = fit_link(design.only((0,)))
    assert fit.theta[0] == pytest.approx(softmax.theta[0], rel=1e-9)
    assert design.derivatives(fit.theta)[1][1] < 0  # it would like to be negative
    assert profile_blend(bank).value == 0.0


def test_winners_below_chance_have_an_infinite_temperature():
    bank = random_bank()
    worst = bank.with_winners(bank.scores.argmin(axis=-1))
    fit = fit_link(Design(worst, ("identity", "shortfall")))
    assert fit.theta.tolist() == [0.0, 0.0]
    assert fit.temperature == math.inf
    assert np.isnan(fit.blend).all()
    assert fit.log_likelihood == pytest.approx(-bank.anchors * math.log(20))
    with pytest.raises(ValueError, match="chance"):
        profile_blend(worst)


def test_what_cannot_be_fitted_is_an_error():
    bank = random_bank()
    with pytest.raises(ValueError, match="temperature"):
        fit_link(Design(bank.with_winners(bank.scores.argmax(axis=-1)), ("identity",)))
    with pytest.raises(ValueError, match=r"'frechet'.*identity, shortfall"):
        Design(random_bank(), ("frechet",))


def test_power_coordinate_has_softmax_and_endpoint_inside():
    s = np.linspace(-0.9, 0.999, 50)
    np.testing.assert_allclose(power_coordinate(1.0)(s), s, atol=1e-12)
    np.testing.assert_allclose(power_coordinate(0.0)(s), -np.log(1 - s), atol=1e-12)
    np.testing.assert_allclose(power_coordinate(0.5)(s), (1 - np.sqrt(1 - s)) / 0.5)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_power_exponent_is_found_again(gamma):
    bank = random_bank(batches=20, anchors=60)
    bank = draw_winners(bank, power_coordinate(gamma)(bank.scores) / 0.4, seed=7)
    fit = fit_power(bank)
    # Within the 99.99 % interval.
    wide = fit_power(bank, confidence=0.9999)
    assert wide.low < gamma < wide.high
    assert wide.low < fit.low < fit.value < fit.high < wide.high
    below = fit_link(Design(bank, (power_coordinate(fit.low),))).log_likelihood
    assert 2 * (fit.fit.log_likelihood - below) == pytest.approx(3.841459, abs=0.02)


def test_blend_profile_ends_where_the_likelihood_has_fallen_by_half_chi2():
    bank = bank_of_blend(0.4, batches=20)
    found = profile_blend(bank)
    best = found.fit.log_likelihood
    for lam in (found.low, found.high):
        profile = optimize.minimize_scalar(
            lambda tau, lam=lam: -loop_likelihood(bank, lam, tau),
            bounds=(0.05, 3),
            method="bounded",
        )
        assert 2 * (best + profile.fun) == pytest.approx(3.841459, abs=0.02)


def test_anchor_temperature_is_found_again_and_knows_no_winner():
    bank = random_bank(batches=20, anchors=60)
    u = nearness(bank)
    kappa = 0.8
    factor = np.exp(-kappa * (u - u.mean()))
    drawn = draw_winners(bank, factor[..., None] * bank.scores / 0.3, seed=8)
    np.testing.assert_allclose(nearness(drawn), u)
    fit, factor_of = fit_anchor_temperature(drawn, confidence=0.9999)
    assert fit.low < kappa < fit.high
    assert fit.low > 0
    np.testing.assert_allclose(factor_of(drawn), np.exp(-fit.value * (u - u.mean())))
    profile, _ = fit_anchor_temperature(
        draw_winners(bank, bank.scores / 0.3, seed=9), confidence=0.9999
    )
    assert profile.low < 0 < profile.high
