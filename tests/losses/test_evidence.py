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
from weince_lib.losses.evidence import (
    endpoint_likelihood,
    evidence_from_tail,
    nearest_rank_quantile,
    tail_lines,
)
from weince_lib.losses.similarity import two_view_scores

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
    assert preset("calibrated") == TailSettings(tail_index="hill", evidence="likelihood")
    assert all(preset(name) is PRESETS[name] for name in PRESETS)


@pytest.mark.parametrize(
    ("negatives", "points"),
    [(2, 2), (30, 30), (32, 32), (320, 32), (326, 33), (510, 51), (2046, 205)],
)
def test_tail_size(negatives: int, points: int) -> None:
    assert TailSettings().tail_size(negatives) == points


def test_tail_size_of_other_settings() -> None:
    assert TailSettings(tail_fraction=1.0, min_tail=1).tail_size(510) == 510
    assert TailSettings(tail_fraction=0.01, min_tail=1).tail_size(10) == 1
    assert TailSettings(min_tail=100).tail_size(60) == 60


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
    """delta_k = ((k)/(K+1))^(1/beta) lies on the Weibull line, so the Gumbel line loses by far."""
    f = torch.arange(1, 52, dtype=torch.float64) / 52
    slope, delta_aic, ok = tail_lines(f[None] ** (1 / beta))
    assert ok.all()
    assert slope.item() == pytest.approx(beta, rel=1e-10)
    assert delta_aic.item() > 1000


@pytest.mark.parametrize("c", [-0.5, -3.0])
def test_lines_recover_an_exact_gumbel_proxy(c: float) -> None:
    """log(-log F) = c log delta, so the Weibull line loses by far."""
    f = torch.arange(1, 52, dtype=torch.float64) / 52
    _, delta_aic, ok = tail_lines((-f.log())[None] ** (1 / c))
    assert ok.all()
    assert delta_aic.item() < -1000


def test_a_slope_of_the_wrong_sign_is_penalised() -> None:
    """Only unsorted input can turn the signs: both fits pay 10^6 and beta is 0."""
    tail = sorted_tails(1, 20).flip(1)
    tail[0, -1] = tail[0, 0] + 0.01
    beta, delta_aic, ok = tail_lines(tail)
    expected = transcribed.two_lines(tail[0].tolist())
    assert ok.all() and expected is not None
    assert beta.item() == expected[0] == 0.0
    # SSE / n is 10^6 / n and a little in both, so the difference is nearly nothing.
    assert delta_aic.item() == pytest.approx(expected[1], abs=1e-8)
    assert abs(delta_aic.item()) < 1e-3


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


@pytest.mark.parametrize(("fit", "points"), [(tail_lines, 3), (endpoint_likelihood, 2)])
def test_too_few_points_for_a_fit(fit: Callable[..., tuple[Tensor, ...]], points: int) -> None:
    for size in range(1, points + 1):
        beta, delta_aic, ok = fit(sorted_tails(4, size))
        assert not ok.any() and not beta.any() and not delta_aic.any()
        assert beta.shape == delta_aic.shape == ok.shape == (4,)
    *_, ok = fit(sorted_tails(4, points + 1))
    assert ok.all()


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


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_no_gradient(name: str, dtype: torch.dtype) -> None:
    scores, positives = two_view_scores(*two_views(20, 5, dtype=dtype, requires_grad=True))
    assert scores.requires_grad
    evidence = tail_evidence(scores, positives, preset(name))
    for field in PER_ANCHOR:
        value = getattr(evidence, field)
        assert value.shape == (40,) and value.dtype == dtype
        assert not value.requires_grad
    assert evidence.rho_0.shape == () and not evidence.rho_0.requires_grad
    assert ((evidence.lam > 0) & (evidence.lam < 1)).all()


def test_the_paper_is_the_default() -> None:
    scores, positives = two_view_scores(*two_views(20, 5))
    default, paper = (
        tail_evidence(scores, positives),
        tail_evidence(scores, positives, TailSettings()),
    )
    assert all(torch.equal(getattr(default, f), getattr(paper, f)) for f in PER_ANCHOR)


def test_anchor_and_positive_are_not_negatives() -> None:
    scores, positives = two_view_scores(*two_views(20, 5))
    changed = scores.clone().fill_diagonal_(-1.0)
    changed[torch.arange(40), positives] = 1.0
    for name in PRESETS:
        before, after = (tail_evidence(s, positives, preset(name)) for s in (scores, changed))
        assert all(torch.equal(getattr(before, f), getattr(after, f)) for f in PER_ANCHOR)
    assert torch.equal(changed.diagonal(), torch.full((40,), -1.0).double())  # left as it was


def test_rho_and_rho_0() -> None:
    scores, positives = two_view_scores(*two_views(11, 3))
    evidence = tail_evidence(scores, positives, TailSettings(cap_quantile=0.5))
    expected = [
        min(1 - scores[i, j].item() for j in transcribed.negatives_of(i, 22)) for i in range(22)
    ]
    np.testing.assert_allclose(evidence.rho.numpy(), expected, rtol=1e-12)
    assert evidence.rho_0.item() == pytest.approx(sorted(expected)[10], rel=1e-12)


@pytest.mark.parametrize("name", PRESETS)
def test_flat_gates_give_a_quarter(name: str) -> None:
    """With both sharpnesses 0 each gate is sigmoid(0) = 1/2."""
    how = preset(name)
    flat = TailSettings(how.tail_index, how.evidence, cap_sharpness=0.0, evidence_sharpness=0.0)
    assert torch.equal(evidence_of(20, 5, flat).lam, torch.full((40,), 0.25).double())


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


@pytest.mark.parametrize("name", PRESETS)
def test_a_shut_evidence_gate_is_exactly_zero(name: str) -> None:
    how = preset(name)
    shut = TailSettings(how.tail_index, how.evidence, evidence_margin=1e9)
    for dtype in (torch.float32, torch.float64):
        assert not evidence_of(20, 5, shut, dtype=dtype).lam.any()


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
def test_two_negatives_are_too_few(name: str) -> None:
    reading = evidence_of(2, 5, preset(name))
    assert not reading.lam.any() and not reading.beta.any()
    assert (reading.rho > 0).all()


@pytest.mark.parametrize("name", PRESETS)
def test_sorted_tails_are_enough(name: str) -> None:
    scores, positives = two_view_scores(*two_views(30, 4))
    how = preset(name)
    shortfalls = torch.tensor(
        [sorted((1 - scores[i, transcribed.negatives_of(i, 60)]).tolist()) for i in range(60)]
    ).double()
    full = tail_evidence(scores, positives, how)
    short = evidence_from_tail(shortfalls[:, : how.min_tail + 1], how.min_tail, how)
    for field in (*PER_ANCHOR, "rho_0"):
        torch.testing.assert_close(
            getattr(short, field), getattr(full, field), rtol=1e-4, atol=1e-4
        )


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
