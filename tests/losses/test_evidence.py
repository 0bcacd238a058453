"""The reading of a tail: settings, quantile, the two fits, and lambda where it is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import transcribed_weince as transcribed
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_batches import two_views
from scipy import stats
from torch import Tensor

from weince_lib.losses import PRESETS, TailEvidence, TailSettings, preset, tail_evidence
from weince_lib.losses.candidates import two_view_scores
from weince_lib.losses.evidence import (
    endpoint_likelihood,
    nearest_rank_quantile,
    tail_lines,
)

quick = settings(max_examples=60, deadline=None, derandomize=True)
PER_ANCHOR = ("rho", "beta", "delta_aic", "lam")


def sorted_tails(anchors: int, points: int, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.tensor(np.sort(rng.gamma(2.0, 0.1, (anchors, points)), axis=1))


def test_defaults_are_those_of_algorithm_1() -> None:
    paper = TailSettings()
    assert (paper.cap_quantile, paper.tail_fraction, paper.min_tail) == (0.2, 0.10, 32)
    assert (paper.cap_sharpness, paper.evidence_sharpness, paper.evidence_margin) == (10, 1, 2)
    assert paper.floor == 1e-6


def test_presets() -> None:
    assert preset("paper") == TailSettings(tail_index="line", evidence="line-aic")
    assert preset("release") == TailSettings(tail_index="unit", evidence="line-aic")
    assert preset("calibrated") == TailSettings(
        tail_index="hill",
        evidence="likelihood",
        tail_fraction=0.0005,
        evidence_sharpness=4.0,
        evidence_margin=3.5,
    )
    assert {preset("calibrated").tail_size(n) for n in (62, 510, 4094, 32766, 65_000)} == {32}
    assert all(preset(name) is PRESETS[name] for name in PRESETS)


@pytest.mark.parametrize(
    ("negatives", "points"),
    [(2, 2), (30, 30), (32, 32), (320, 32), (326, 33), (510, 51), (2046, 205)],
)
def test_tail_size(negatives: int, points: int) -> None:
    assert TailSettings().tail_size(negatives) == points
    assert TailSettings(tail_fraction=1.0, min_tail=1).tail_size(negatives) == negatives


@quick
@given(
    values=st.lists(st.floats(0.001, 2.0), min_size=1, max_size=40),
    percent=st.integers(1, 100),
)
def test_nearest_rank_quantile(values: list[float], percent: int) -> None:
    q = percent / 100
    actual = nearest_rank_quantile(torch.tensor(values, dtype=torch.float64), q).item()
    rank = math.ceil(Fraction(percent, 100) * len(values))
    assert actual == sorted(values)[rank - 1] == transcribed.nearest_rank(values, q)


@pytest.mark.parametrize(("q", "n"), [(0.07, 100), (0.14, 50), (0.28, 25), (0.2, 512)])
def test_nearest_rank_is_not_thrown_off_by_rounding(q: float, n: int) -> None:
    """0.07 * 100 is 7.000000000000001 in floating point; the rank is 7 and not 8."""
    rank = math.ceil(Fraction(repr(q)) * n)
    assert nearest_rank_quantile(torch.arange(1.0, n + 1), q).item() == rank


@pytest.mark.parametrize("points", [4, 11, 40, 51, 205])
def test_lines_against_scipy(points: int) -> None:
    tails = sorted_tails(5, points)
    beta, delta_aic, ok = tail_lines(tails)
    assert ok.all()
    drop = max(1, points // 20)
    f = np.arange(drop + 1, points + 1) / (points + 1)
    for i, tail in enumerate(tails.numpy()):
        x = np.log(tail[drop:])
        aic = []
        for y in (np.log(-np.log(f)), np.log(f)):
            fit = stats.linregress(x, y)
            residuals = y - fit.intercept - fit.slope * x
            aic.append(len(x) * math.log((residuals @ residuals) / len(x)) + 4)
        assert beta[i].item() == pytest.approx(fit.slope, rel=1e-10)
        assert delta_aic[i].item() == pytest.approx(aic[0] - aic[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0, 4.5, 31.5])
def test_lines_recover_an_exact_power_law(beta: float) -> None:
    """delta_k = ((k)/(K+1))^(1/beta) lies on the Weibull line, so the Gumbel line loses by far.

    And with log(-log F) = -beta log delta it is the other way about.
    """
    f = torch.arange(1, 52, dtype=torch.float64) / 52
    slope, delta_aic, ok = tail_lines(f[None] ** (1 / beta))
    assert ok.all()
    assert slope.item() == pytest.approx(beta, rel=1e-10)
    assert delta_aic.item() > 1000
    _, delta_aic, ok = tail_lines((-f.log())[None] ** (-1 / beta))
    assert ok.all() and delta_aic.item() < -1000


@pytest.mark.parametrize("k", [2, 3, 32, 51])
def test_likelihoods_against_scipy(k: int) -> None:
    tails = sorted_tails(5, k + 1, seed=1)
    beta, delta_aic, ok = endpoint_likelihood(tails)
    assert ok.all()
    for i, (*tail, threshold) in enumerate(tails.tolist()):
        ratio = np.array(tail) / threshold
        # P(delta <= x) = (x/delta_u)^beta is scipy's powerlaw, and its fit is Hill's.
        shape, _, _ = stats.powerlaw.fit(ratio, floc=0, fscale=1)
        assert beta[i].item() == pytest.approx(shape, rel=1e-6)
        weibull = stats.powerlaw.logpdf(tail, beta[i].item(), scale=threshold).sum()
        excess = threshold - np.array(tail)
        exponential = stats.expon.logpdf(excess, scale=excess.mean()).sum()
        assert delta_aic[i].item() == pytest.approx(2 * (weibull - exponential), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("fit", [tail_lines, endpoint_likelihood])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tail_without_spread_has_no_fit(
    fit: Callable[..., tuple[Tensor, ...]], dtype: torch.dtype
) -> None:
    tails = torch.stack([torch.full((20,), 0.3), torch.linspace(0.1, 0.3, 20)]).to(dtype)
    beta, delta_aic, ok = fit(tails)
    assert ok.tolist() == [False, True]
    assert beta[0] == 0 and beta[1] > 0
    assert torch.isfinite(beta).all() and torch.isfinite(delta_aic).all()


# tail_evidence -------------------------------------------------------------------------------


def evidence_of(n: int, d: int, how: TailSettings, **keywords: Any) -> TailEvidence:
    scores, positives = two_view_scores(*two_views(n, d, **keywords))
    return tail_evidence(scores, positives, how)


@pytest.mark.parametrize("quantile", [0.05, 0.2, 1.0])
def test_an_open_evidence_gate_leaves_the_distance_to_the_cap(quantile: float) -> None:
    """lambda = rho_0^kappa / (rho_0^kappa + rho^kappa): a half at rho_0, more nearer the cap."""
    how = TailSettings(evidence="likelihood", evidence_margin=-1e6, cap_quantile=quantile)
    evidence = evidence_of(20, 5, how)
    a, b = evidence.rho_0**10.0, evidence.rho**10.0
    torch.testing.assert_close(evidence.lam, a / (a + b), rtol=1e-12, atol=0)
    at_reference = evidence.rho == evidence.rho_0
    assert at_reference.any() and (evidence.lam[at_reference] == 0.5).all()
    assert (evidence.lam[evidence.rho < evidence.rho_0] > 0.5).all()
    assert (evidence.lam[evidence.rho > evidence.rho_0] < 0.5).all()


@pytest.mark.parametrize(
    ("tail_index", "evidence", "least"),
    [
        ("line", "line-aic", 4),
        ("unit", "line-aic", 4),
        ("hill", "likelihood", 2),
        ("unit", "likelihood", 2),
        ("line", "likelihood", 4),
        ("hill", "line-aic", 4),
    ],
)
def test_too_few_tail_points_are_infonce(tail_index: str, evidence: str, least: int) -> None:
    """A line drops its first point and needs three more; a likelihood needs two and a threshold."""
    for k in (1, 2, 3, 4):
        how = TailSettings(tail_index, evidence, tail_fraction=0.001, min_tail=k)  # type: ignore[arg-type]
        reading = evidence_of(20, 5, how)
        assert bool((reading.lam > 0).all()) == (k >= least)
        assert bool((reading.lam == 0).all()) == bool((reading.beta == 0).all()) == (k < least)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("height", [0.1, 0.01])
def test_a_tie_stays_a_tie_after_rounding(name: str, dtype: torch.dtype, height: float) -> None:
    """A small regular simplex: equal shortfalls, which rounding separates by a few units of 1 - s.

    Near the cap that is far more than a few units of delta, so a test of spread that is relative
    to delta takes rounding for a tail, with a beta of 10^4 and more.
    """
    n = 20
    vertices = height * torch.eye(n, dtype=dtype) + n**-0.5
    reading = tail_evidence(*two_view_scores(vertices, vertices.clone()), preset(name))
    assert not reading.lam.any(), f"lambda up to {reading.lam.max()}, beta {reading.beta.max()}"
    assert not reading.beta.any()
