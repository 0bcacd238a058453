"""The calibration study: its draws are exact, its shares right, and the preset keeps its word."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats

from weince_lib.diagnostics import KNOWN_TAILS, Gate, as_frame, gate_shares
from weince_lib.diagnostics.calibration import (
    GATES,
    NEGATIVES,
    SCORE_GATE,
    TAIL_SIZES,
    TailLaw,
    score_statistic,
    smallest_uniforms,
)
from weince_lib.losses import PRESETS, TailSettings
from weince_lib.losses.evidence import endpoint_likelihood

LAWS = {law.name: law for law in KNOWN_TAILS}
#: Each law's scores in scipy's words. The cosine on a sphere is 2 Beta(h, h) - 1.
SCIPY = {
    **{f"Weibull, β = {beta:g}": stats.beta(1, beta) for beta in (0.5, 1, 2, 4, 8)},
    "normal(0, 0.1)": stats.norm(0, 0.1),
    "normal(0.3, 0.1)": stats.norm(0.3, 0.1),
    "exponential(0.05)": stats.expon(scale=0.05),
    "Gumbel(0.05)": stats.gumbel_r(scale=0.05),
    **{
        f"sphere, d = {d}": stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
        for d in (4, 8, 16, 64)
    },
}
MARGIN_2 = TailSettings(tail_index="hill", evidence="likelihood")


@pytest.mark.parametrize("name", LAWS)
def test_quantile_of_the_shortfall(name):
    u = np.r_[np.geomspace(1e-9, 0.5, 60), 0.7, 0.9, 0.99]
    expected = 1 - SCIPY[name].isf(u)
    np.testing.assert_allclose(LAWS[name].quantile(u), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("negatives", "count"), [(62, 1), (62, 33), (62, 62), (510, 52), (65534, 513)]
)
def test_smallest_uniforms_have_their_exact_law(negatives, count):
    u = smallest_uniforms(negatives, count, 3000, np.random.default_rng(1))
    assert u.shape == (3000, count)
    assert (np.diff(u, axis=1) > 0).all() and u.min() > 0 and u.max() < 1
    for j in {1, (count + 1) // 2, count}:  # the j-th smallest is Beta(j, n + 1 - j)
        assert stats.kstest(u[:, j - 1], stats.beta(j, negatives + 1 - j).cdf).pvalue > 1e-3
    if count > 2:  # and, given the next one up, they are uniforms below it
        j = count // 2
        ratio = u[:, j - 1] / u[:, j]
        assert stats.kstest(ratio, stats.beta(j, 1).cdf).pvalue > 1e-3
        assert abs(stats.spearmanr(ratio, u[:, j])[0]) < 0.07


@pytest.mark.parametrize("name", ["normal(0.3, 0.1)", "sphere, d = 16", "Weibull, β = 4"])
def test_shares_equal_those_of_all_negatives_drawn(name):
    """Every score drawn and sorted, and the likelihoods written out with scipy's densities."""
    anchors, negatives, k = 800, 1022, 40
    scores = SCIPY[name].rvs((anchors, negatives), random_state=4)
    delta = np.sort(1 - scores, axis=1)[:, : k + 1]
    found = []
    for row in delta:
        u, t = row[-1], row[:-1]
        beta = k / np.log(u / t).sum()
        weibull = stats.powerlaw.logpdf(t, beta, scale=u).sum()
        exponential = stats.expon.logpdf(u - t, scale=(u - t).mean()).sum()
        found.append(2 * (weibull - exponential))
    (cell,) = gate_shares(
        [LAWS[name]],
        negatives=[negatives],
        tails=[k],
        gates=[Gate.of("likelihood", MARGIN_2)],
        anchors=anchors,
    )
    brute = np.mean(np.array(found) > 2)
    assert 0.02 < brute < 0.98
    error = math.sqrt(brute * (1 - brute) * 2 / anchors)
    assert cell.share == pytest.approx(brute, abs=4 * error)
    assert cell.median == pytest.approx(np.median(found), abs=0.25)
    soft = np.mean(1 / (1 + np.exp(-(np.array(found) - 2))))
    assert cell.mean_gate == pytest.approx(soft, abs=0.04)


def test_cells_and_their_numbers():
    laws, options = KNOWN_TAILS[1:3], {"negatives": [62, 510], "anchors": 50}
    cells = gate_shares(laws, tails=[16, 64, 128], **options)
    assert [(c.law, c.negatives, c.tail, c.gate) for c in cells] == [
        (law.name, n, k, gate.name)
        for law in laws
        for n, sizes in ((62, [16]), (510, [16, 64, 128]))
        for k in sizes
        for gate in GATES
    ]
    for cell in cells:
        error = math.sqrt(cell.share * (1 - cell.share) / 50)
        assert cell.standard_error == pytest.approx(error, abs=1e-15)
    frame = as_frame(cells)
    assert len(frame) == len(cells) and frame.loc[3].to_dict() == dataclasses.asdict(cells[3])
    # A law gives the same whatever stands beside it.
    alone = gate_shares(laws[1:], tails=[16, 64, 128], **options)
    assert alone == [c for c in cells if c.law == laws[1].name]
    assert gate_shares(laws, tails=[16, 64, 128], seed=1, **options) != cells


def test_a_tail_without_spread_keeps_the_gate_shut():
    tied = TailLaw("tied", False, lambda u: np.full_like(u, 0.3))
    for cell in gate_shares([tied], negatives=[510], tails=[32], gates=[*GATES, SCORE_GATE]):
        assert (cell.share, cell.mean_gate) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"anchors": 0}, "anchors"),
        ({"tails": [100], "negatives": [62]}, r"\[100\].*62 negatives"),
        ({"tails": [0, 16]}, r"\[0, 16\]"),
    ],
)
def test_bad_grid(options, message):
    with pytest.raises(ValueError, match=message):
        gate_shares(**options)


@pytest.mark.parametrize("seed", range(3))
def test_score_statistic_is_the_score_at_shape_zero(seed):
    excess = np.random.default_rng(seed).uniform(0.01, 0.2, 25)
    k, h = 25, 1e-4
    ahead, behind = (stats.genpareto.logpdf(excess, c, scale=excess.mean()).sum() for c in (h, -h))
    score = (ahead - behind) / (2 * h)  # k^2 G / 2 - k
    greenwood = 2 * (score + k) / k**2
    sd = math.sqrt(4 * (k - 1) / ((k + 1) ** 2 * (k + 2) * (k + 3)))
    smallest = torch.from_numpy(np.r_[np.sort(0.5 - excess), 0.5])[None]
    expected = (2 / (k + 1) - greenwood) / sd
    assert score_statistic(smallest).item() == pytest.approx(expected, rel=1e-4)


def test_likelihood_is_the_score_weighed_by_the_width_of_the_tail():
    """Delta AIC = k ybar (1 - CV^2) + O(ybar^2), in narrow tails."""
    y = np.random.default_rng(6).gamma(1.5, size=(50, 30)) * 2e-4
    t = 1 - np.sort(y, axis=1)[:, ::-1]
    _, delta_aic, ok = endpoint_likelihood(torch.from_numpy(np.c_[t, np.ones(50)]))
    assert ok.all()
    mean = y.mean(1)
    expected = 30 * mean * (1 - y.var(1) / mean**2)
    np.testing.assert_allclose(delta_aic.numpy(), expected, atol=30 * 10 * (5e-4) ** 2)
    assert np.abs(expected).max() > 20 * 30 * 10 * (5e-4) ** 2


def test_the_calibrated_preset_keeps_its_criterion():
    settings = PRESETS["calibrated"]
    cells = gate_shares(
        negatives=(*NEGATIVES, 126),
        tails=lambda n: [settings.tail_size(n)],
        gates=[Gate.of("calibrated", settings)],
        anchors=1500,
        seed=8,
    )
    for cell in cells:
        if not cell.endpoint:
            assert max(cell.share, cell.mean_gate) <= 0.05, cell
            if cell.negatives > 62:
                assert max(cell.share, cell.mean_gate) <= 0.005, cell
        if cell.law == "Weibull, β = 1":
            assert min(cell.share, cell.mean_gate) >= 0.98, cell
        if cell.law == "Weibull, β = 2":
            assert min(cell.share, cell.mean_gate) >= 0.78, cell


def test_the_paper_gate_opens_for_every_tail():
    cells = gate_shares(
        KNOWN_TAILS[1:],  # below beta = 1/2 the floor of the shortfall ties the tail
        negatives=(510, 65534),
        tails=[k for k in TAIL_SIZES if k <= 128],
        gates=GATES[:1],
        anchors=200,
    )
    assert min(cell.share for cell in cells) > 0.9
    assert min(cell.share for cell in cells if cell.tail >= 32) > 0.98
