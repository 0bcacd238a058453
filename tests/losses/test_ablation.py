"""The ablation: where its settings are another loss's, it is that loss; and each part by itself."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import transcribed_release as release
import transcribed_weince
from loss_batches import numbers, two_views, value_and_gradients

from weince_lib.losses import (
    PRESETS,
    RELEASED,
    AblationLoss,
    AblationSettings,
    ArctanhLoss,
    EndpointLoss,
    HardNegativeLoss,
    InfoNCELoss,
    ReleasedLoss,
    SelfSettingLoss,
    TailSettings,
    WEINCELoss,
    sharpness,
    weince_loss,
)
from weince_lib.losses.ablation import ablation_from_scores
from weince_lib.losses.candidates import two_view_cosines
from weince_lib.losses.sharpness import negative_weights

BOTH = {"softmax_weight": 0.5, "weibit_weight": 0.5}
#: One of every kind that a study has.
CELLS = [
    AblationSettings(link="softmax"),
    AblationSettings(link="softmax", **BOTH),
    AblationSettings(link="softmax", softmax_weight=0.5),
    AblationSettings(link="softmax", weibit_weight=0.5),
    AblationSettings(),
    AblationSettings(assignment="shuffled"),
    AblationSettings(assignment="mean"),
    AblationSettings(assignment="fixed", fixed_lambda=0.3, fixed_beta=2.0),
    AblationSettings(tail=PRESETS["calibrated"], **BOTH),
    RELEASED,
    AblationSettings(link="weibit", fixed_beta=2.0),
    AblationSettings(link="weibit", tail=TailSettings(tail_index="hill")),
    AblationSettings(link="weibit", fixed_beta=2.0, hardest=7, **BOTH),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_settings_coincide_it_is_the_library_s_loss(dtype: torch.dtype) -> None:
    z0, z1 = two_views(30, 6, dtype=dtype, requires_grad=True)
    pairs = [(AblationSettings(link="softmax"), InfoNCELoss(0.2))]
    pairs += [
        (AblationSettings(tail=t), WEINCELoss.from_preset(n, 0.2)) for n, t in PRESETS.items()
    ]
    pairs += [(RELEASED, ReleasedLoss(0.2))]
    for settings, library in pairs:
        found = value_and_gradients(AblationLoss(0.2, settings)(z0, z1), z0, z1)
        expected = value_and_gradients(library(z0, z1), z0, z1)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), settings


@pytest.mark.parametrize("settings", CELLS, ids=lambda s: f"{s.link}-{CELLS.index(s)}")
def test_the_module_is_the_plain_form_on_scores(settings: AblationSettings) -> None:
    z0, z1 = two_views(32, 5, seed=1, noise=0.3, requires_grad=True)
    found = value_and_gradients(AblationLoss(0.3, settings).eval()(z0, z1), z0, z1)
    scores, positives = two_view_cosines(z0, z1)
    plain, _ = ablation_from_scores(scores, positives, 0.3, settings)
    expected = value_and_gradients(plain, z0, z1)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("beta", [1.0, 2.0, 4.0])
def test_pure_weibit_against_the_transcription(beta: float) -> None:
    """All candidates; the top-K term with K = all negatives is the same cross-entropy."""
    z0, z1 = two_views(20, 4, seed=2)
    settings = AblationSettings(link="weibit", fixed_beta=beta)
    expected = release.top_weibit(*numbers(z0, z1), beta, count=38)
    for temperature in (0.1, 1.0):  # of no effect
        found = AblationLoss(temperature, settings)(z0, z1).item()
        assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("assignment", ["shuffled", "mean", "fixed"])
def test_other_lambdas_against_the_transcription(assignment: str) -> None:
    """Same beta, same set (or mean) of lambdas; the gradient too."""
    z0, z1 = two_views(24, 5, seed=3, noise=0.3, requires_grad=True)
    fixed = 0.25 if assignment == "fixed" else None
    settings = AblationSettings(assignment=assignment, fixed_lambda=fixed)  # type: ignore[arg-type]
    a0, a1 = numbers(z0, z1)
    readings = transcribed_weince.weince(a0, a1, 0.4)[3]
    own = [r.lam for r in readings]
    given = {
        "shuffled": [own[-1], *own[:-1]],
        "mean": [float(np.mean(own))] * len(own),
        "fixed": [0.25] * len(own),
    }[assignment]
    assert np.ptp(own) > 0.1 and not np.allclose(own, given)
    changed = [dataclasses.replace(r, lam=x) for r, x in zip(readings, given, strict=True)]
    loss = AblationLoss(0.4, settings)(z0, z1)
    expected = transcribed_weince.loss_of(a0, a1, changed, 0.4)
    assert loss.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("settings", CELLS, ids=lambda s: f"{s.link}-{CELLS.index(s)}")
def test_ties_and_duplicates_stay_finite(settings: AblationSettings) -> None:
    z0, z1 = two_views(30, 3, dtype=torch.float32)
    z0[:9], z1[:9] = z0[0].clone(), z0[0].clone()
    z0.requires_grad_()
    z1.requires_grad_()
    for pair in ((z0, z1), tuple(torch.ones(30, 3, requires_grad=True) for _ in range(2))):
        loss = AblationLoss(0.2, settings)(*pair)
        assert all(torch.isfinite(x).all() for x in value_and_gradients(loss, *pair))


# Sharpness -----------------------------------------------------------------------------------


def test_weights_against_the_closed_gradient() -> None:
    """p_ij ((1 - lambda_i) / tau + lambda_i beta_i / delta_ij), normalised over negatives."""
    z0, z1 = two_views(24, 5, seed=4, noise=0.3)
    scores, positives = two_view_cosines(z0, z1)
    _, evidence = weince_loss(z0, z1, 0.3, return_evidence=True)
    w, lam = negative_weights(WEINCELoss(0.3), scores, positives)
    torch.testing.assert_close(lam, evidence.lam)
    s = scores.numpy()
    for i in (0, 7, 30):
        row = release.negatives_of(i, 48)
        delta = 1.0 - s[i, row]
        a, b = (1.0 - float(lam[i])) / 0.3, float(lam[i] * evidence.beta[i])
        push = np.exp(a * s[i, row] - b * np.log(delta)) * (a + b / delta)
        np.testing.assert_allclose(w[i, row].numpy(), push / push.sum(), rtol=1e-9)
        assert w[i, i] == 0 and w[i, positives[i]] == 0


def test_entropy_between_its_ends() -> None:
    z0, z1 = two_views(24, 5, seed=5)
    flat = sharpness(InfoNCELoss(1e6), z0, z1)
    assert flat.negative_entropy == pytest.approx(math.log(46), rel=1e-6)
    assert flat.effective_negatives == pytest.approx(46, rel=1e-5) and flat.mean_lambda == 0
    assert sharpness(InfoNCELoss(1e-4), z0, z1).negative_entropy < 0.05
    values = [sharpness(InfoNCELoss(tau), z0, z1).negative_entropy for tau in (1.0, 0.5, 0.1)]
    assert values == sorted(values, reverse=True)
    weibit = AblationLoss(0.5, AblationSettings(link="weibit", fixed_beta=2.0))
    assert sharpness(weibit, z0, z1).mean_lambda == 1


def test_sharpness_leaves_the_running_beta_alone_and_names_other_losses() -> None:
    z0, z1 = two_views(24, 5, seed=6)
    loss = ReleasedLoss()
    assert sharpness(loss, z0, z1) == sharpness(loss, z0, z1)
    assert loss.weibit_beta == 4.0 and loss.training
    with pytest.raises(TypeError, match="Identity"):
        sharpness(torch.nn.Identity(), z0, z1)


def test_the_losses_own_weights() -> None:
    """Of the endpoint link, a rule and the rivals: the gradient of one anchor's own loss."""
    z0, z1 = two_views(24, 5, seed=7, noise=0.3)
    scores, positives = two_view_cosines(z0, z1)
    s, i = scores.numpy(), 5
    row = release.negatives_of(i, 48)
    own = SelfSettingLoss("median")
    own(z0, z1)
    tau = own.statistics()["negative_shortfall"] / math.log(46)
    far = own.state_dict()["totals"].clone()
    for loss, push in (
        (EndpointLoss(0.3, curvature=0.0), np.exp(s[i, row] / 0.3)),
        (EndpointLoss(0.3, curvature=1.0), (1 - s[i, row]) ** (-1 / 0.3 - 1)),
        (EndpointLoss(0.3, curvature=0.8), (1 - 0.8 * s[i, row]) ** (-1 / 0.24 - 1)),
        (own, np.exp(s[i, row] / tau)),
        (HardNegativeLoss(0.3, beta=0.0, tau_plus=0.0), np.exp(s[i, row] / 0.3)),
        (
            ArctanhLoss(0.3),
            ((1 + s[i, row]) / (1 - s[i, row])) ** (1 / 0.6) / (1 - s[i, row] ** 2),
        ),
    ):
        w, lam = negative_weights(loss, scores, positives)
        assert lam is None
        np.testing.assert_allclose(w[i, row].numpy(), push / push.sum(), rtol=1e-5)
    labels = torch.arange(24) % 3
    labels[3] = -1
    found = sharpness(own, z0, z1, labels)
    w, _ = negative_weights(own, scores, positives)
    known = [i for i in range(48) if i % 24 != 3]
    shares = [sum(float(w[i, j]) for j in known if labels[i % 24] == labels[j % 24]) for i in known]
    assert found.same_class_push == pytest.approx(np.mean(shares), rel=1e-9)
    assert math.isnan(found.mean_lambda) and 1 < found.effective_negatives < 46
    assert torch.equal(own.state_dict()["totals"], far)  # looking changes nothing


# Settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"link": "blnd"}, "blnd"),
        ({"assignment": "none"}, "none"),
        ({"softmax_weight": -1.0}, "softmax_weight"),
        ({"weibit_weight": math.inf}, "weibit_weight"),
        ({"hardest": 0}, "hardest"),
        ({"hardest": "50"}, "hardest.*'50'.*int"),
        ({"hardest": 2.0, **BOTH}, "hardest.*2.0.*int"),
        ({"hardest": math.inf}, "hardest.*inf.*int"),
        ({"hardest": math.nan}, "hardest.*nan.*int"),
        ({"hardest": True}, "hardest.*True.*int"),
        ({"softmax_weight": "x"}, "softmax_weight.*'x'"),
        ({"weibit_weight": None}, "weibit_weight.*None"),
        ({"fixed_beta": "2"}, "fixed_beta.*'2'"),
        ({"tail": "release"}, "tail.*'release'"),
        ({"fixed_beta": 0.0}, "fixed_beta"),
        ({"assignment": "fixed"}, "fixed_lambda"),
        ({"fixed_lambda": 0.3}, "fixed_lambda"),
        ({"assignment": "fixed", "fixed_lambda": 1.5}, "1.5"),
        ({"link": "weibit", "assignment": "mean"}, "lambda"),
        ({"link": "softmax", "fixed_beta": 2.0}, "beta"),
        ({"link": "softmax", "tail": PRESETS["calibrated"]}, "tail"),
        ({"link": "weibit", "fixed_beta": 2.0, "tail": PRESETS["release"]}, "tail"),
        ({"link": "softmax", "hardest": 20}, "hardest = 20.*leave"),
        ({"fixed_beta": 2.0, "tail": PRESETS["release"]}, "tail_index is not read"),
        (
            {"assignment": "fixed", "fixed_lambda": 0.3, "tail": TailSettings(cap_quantile=0.5)},
            "cap",
        ),
    ],
)
def test_bad_settings_are_named(settings, word) -> None:
    with pytest.raises(ValueError, match=word):
        AblationSettings(**settings)


def test_a_fixed_lambda_leaves_the_tail_index_to_choose() -> None:
    settings = {"assignment": "fixed", "fixed_lambda": 0.3}
    assert AblationSettings(tail=PRESETS["release"], **settings).reads_tail
