"""Tests and intervals of link selection: known p-values, size under H0, power under H1."""

import itertools
import math

import numpy as np
import pytest
from link_samples import bank_of_blend
from scipy import stats

from weince_lib.diagnostics.choice_bank import draw_winners
from weince_lib.diagnostics.link_fit import Design, fit_link
from weince_lib.diagnostics.link_inference import (
    LogPartition,
    bootstrap_blend,
    boundary_p,
    gain_test,
    likelihood_ratio,
    simulate_sums,
    simulated_ratios,
    wild_bootstrap_p,
)
from weince_lib.diagnostics.link_selection import select_link

GAINS = np.array([0.3, 0.1, -0.05, 0.2, 0.15, 0.02])


def exact_ratio(bank):
    design = Design(bank, ("identity", "shortfall"))
    return 2 * (fit_link(design).log_likelihood - fit_link(design.only((0,))).log_likelihood)


def test_gain_test_is_the_t_test_on_batch_means():
    found = gain_test(GAINS)
    assert found.p_t == pytest.approx(stats.ttest_1samp(GAINS, 0, alternative="greater").pvalue)
    half = stats.t.ppf(0.975, 5) * GAINS.std(ddof=1) / math.sqrt(6)
    assert found.interval.low == pytest.approx(GAINS.mean() - half)
    assert found.ratio.mean == pytest.approx(math.exp(GAINS.mean()))
    assert found.ratio.high == pytest.approx(math.exp(GAINS.mean() + half))
    # The bootstrap's interval against all 6^6 resamples.
    means = np.mean(list(itertools.product(GAINS, repeat=6)), axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    assert found.bootstrap.low == pytest.approx(low, abs=0.01)
    assert found.bootstrap.high == pytest.approx(high, abs=0.01)


def test_wild_bootstrap_of_few_batches_is_the_exact_sign_flip_test():
    observed = GAINS.mean() / GAINS.std(ddof=1)
    count = 0
    for signs in itertools.product((1, -1), repeat=6):
        x = GAINS * np.array(signs)
        count += x.mean() / x.std(ddof=1) >= observed - 1e-9
    assert wild_bootstrap_p(GAINS) == count / 64
    assert wild_bootstrap_p(np.array([0.1, 0.2, 0.3])) == 1 / 8  # the least that is possible
    many = np.random.default_rng(0).normal(0.3, 1, 30)
    t = stats.ttest_1samp(many, 0, alternative="greater").pvalue
    p = wild_bootstrap_p(many, repetitions=4999)
    assert (p * 5000) == pytest.approx(round(p * 5000))  # (b + 1) / (B + 1)
    assert p == pytest.approx(t, abs=0.02)


def test_no_gain_anywhere_is_no_evidence():
    found = gain_test(np.zeros(5))
    assert found.p_t == found.p_wild == 1.0
    assert found.interval.mean == 0.0


@pytest.mark.parametrize(
    ("gains", "message"),
    [([0.1], "got 1"), ([0.1, np.nan], "nan"), ([[0.1, 0.2]], "shape")],
)
def test_what_has_no_test_is_an_error(gains, message):
    with pytest.raises(ValueError, match=message):
        gain_test(gains)


def test_boundary_p_at_the_known_points():
    assert boundary_p(2.705543) == pytest.approx(0.05, abs=1e-6)
    assert boundary_p(5.411894) == pytest.approx(0.01, abs=1e-6)
    assert boundary_p(0.0) == boundary_p(-1e-9) == 1.0


def test_refits_on_the_table_are_exact_refits():
    bank = bank_of_blend(0.0, batches=6, anchors=40)
    h0 = fit_link(Design(bank, ("identity",)))
    partition = LogPartition.around(bank, np.array([h0.theta[0], 0.0]))
    positive = 0
    for seed in range(12):
        drawn = draw_winners(bank, h0.theta[0] * bank.scores, seed=seed)
        design = Design(drawn, ("identity", "shortfall"))
        s = drawn.scores[..., 0]
        sums = np.array([[s.mean(), -np.log(1 - s).mean()]])
        theta, both = partition.maximise(sums)
        _, softmax = partition.maximise(sums, free=(True, False))
        exact = fit_link(design)
        np.testing.assert_allclose(theta[0], exact.theta, atol=2e-3 * h0.theta[0])
        ratio = 2 * (both - softmax)[0] * bank.anchors
        assert ratio == pytest.approx(exact_ratio(drawn), abs=0.01)
        positive += exact.theta[1] > 0
    assert 0 < positive < 12  # both sides of the boundary were seen


def test_simulated_winners_follow_the_softmax():
    bank = bank_of_blend(0.0, batches=4, anchors=10, candidates=6)
    sums = simulate_sums(bank, 3.0, repetitions=4000, seed=0)
    for c, x in enumerate((bank.scores, -np.log(1 - bank.scores))):
        p = np.exp(3.0 * bank.scores)
        p /= p.sum(axis=-1, keepdims=True)
        mean = (p * x).sum(axis=-1)
        variance = ((p * x**2).sum(axis=-1) - mean**2).sum() / 40**2
        assert abs(sums[:, c].mean() - mean.mean()) < 4 * math.sqrt(variance / 4000)
        assert sums[:, c].var() == pytest.approx(variance, rel=0.12)


def test_bootstrap_p_counts_itself():
    bank = bank_of_blend(0.5, batches=6)
    found = likelihood_ratio(bank, repetitions=99)
    assert found.p_bootstrap == 1 / 100
    assert found.statistic == pytest.approx(exact_ratio(bank), abs=1e-6)
    assert found.p_boundary == boundary_p(found.statistic)
    assert len(found.simulated) == 99


def test_size_at_five_percent_when_the_softmax_is_true():
    # 300 banks: a true size of 5 % gives more than 30 rejections with probability 2e-4.
    p = [boundary_p(exact_ratio(bank_of_blend(0.0, seed=s, anchors=12))) for s in range(300)]
    rejected = int((np.array(p) < 0.05).sum())
    assert 3 <= rejected <= 30


def test_held_out_test_keeps_its_size_and_both_have_power():
    # Under H0 a fitted blend can only lose held-out likelihood: fewer rejections than 5 %.
    size = sum(
        select_link(bank_of_blend(0.0, seed=s), repetitions=9).gain.p_t < 0.05 for s in range(60)
    )
    assert size <= 9  # probability 5e-4 at a true size of 5 %
    power = [
        select_link(bank_of_blend(0.6, seed=s, batches=16, anchors=60), repetitions=9)
        for s in range(6)
    ]
    assert all(found.gain.p_t < 0.05 for found in power)
    assert all(boundary_p(found.statistic) < 1e-3 for found in power)
    # 4 standard errors of the mean of six, taken from their own spread.
    lams = [found.h1.value for found in power]
    assert abs(np.mean(lams) - 0.6) < 4 * np.std(lams, ddof=1) / math.sqrt(6) + 0.02


def test_bootstrap_over_batches_is_refitting_resampled_batches():
    bank = bank_of_blend(0.4, batches=8, anchors=40)
    found = bootstrap_blend(bank, repetitions=300, seed=5)
    draw = np.random.default_rng(5)
    counts = draw.multinomial(8, np.full(8, 1 / 8), 300)
    lams = []
    for row in counts[:40]:
        drawn = bank.of(np.repeat(np.arange(8), row))
        lams.append(fit_link(Design(drawn, ("identity", "shortfall"))).blend[1])
    # The first forty by hand; the interval is that of 300.
    assert found.low - 0.05 < np.quantile(lams, 0.05) < np.quantile(lams, 0.95) < found.high + 0.05
    assert found.low < found.mean < found.high
    spread = (found.high - found.low) / 3.92
    assert spread == pytest.approx(np.std(lams, ddof=1), rel=0.5)


def test_half_of_the_simulated_ratios_are_zero_and_the_rest_chi2():
    bank = bank_of_blend(0.0, batches=10, anchors=60)
    h0 = fit_link(Design(bank, ("identity",)))
    simulated = simulated_ratios(bank, h0, repetitions=2000, seed=1)
    # 5 standard errors of a share of 2,000; the mixture is asymptotic, hence a little more.
    assert abs((simulated < 1e-6).mean() - 0.5) < 0.056 + 0.03
    assert abs((simulated > 2.706).mean() - 0.05) < 0.025
    assert abs((simulated > 3.841).mean() - 0.025) < 0.0175
