"""Losses that set their own sharpness: what they set, running means, state, guards, processes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from loop_family import (
    hill_rule,
    kl_rule,
    lower_median,
    mean_nll,
    median_rule,
    slopes,
    statistics,
    tail_rule,
    two_view_problem,
)
from loss_batches import numbers, two_views, value_and_gradients
from torch import Tensor

from weince_lib.losses import RULES, EndpointLoss, InfoNCELoss, NegativeQueue, SelfSettingLoss

each_rule = pytest.mark.parametrize("rule", list(RULES))


def transcribed(rule: str, problem: Any, means: dict[str, float]) -> float:
    if rule == "kl":
        return kl_rule(problem)
    if rule.startswith("hill"):
        return hill_rule(problem, means, {"hill": 1.0, "hill-1.5": 1.5}[rule])
    return {"tail": tail_rule, "median": median_rule}[rule](problem, means)


@each_rule
@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize("with_ids", [False, True])
def test_first_batch(rule: str, n: int, with_ids: bool) -> None:
    """The first batch speaks for itself: the mean's start is corrected."""
    z0, z1 = two_views(n, 8, seed=1)
    ids = [i // 2 if i < 6 else i for i in range(n)] if with_ids else None
    problem = two_view_problem(*numbers(z0, z1), ids)
    means = statistics(problem)
    loss_fn = SelfSettingLoss(rule)
    loss = loss_fn(z0, z1, ids=None if ids is None else torch.tensor(ids))
    for name, value in loss_fn.statistics().items():
        if name in means:
            assert value == pytest.approx(means[name], rel=1e-5)
    if rule == "median" and with_ids:
        temperature = means["negative_shortfall"] / math.log(2 * n - 2)
        expected = mean_nll(problem, lambda s: s / temperature)
    else:
        expected = transcribed(rule, problem, means)
    assert loss.item() == pytest.approx(expected, rel=2e-6)


@each_rule
def test_gradient_holds_the_statistics_fixed(rule: str) -> None:
    """Of "kl" it is the whole derivative, by the envelope theorem."""
    z0, z1 = two_views(30, 3, seed=4, requires_grad=True)
    (gradient,) = torch.autograd.grad(SelfSettingLoss(rule)(z0, z1), z0)
    means = statistics(two_view_problem(*numbers(z0, z1)))
    expected = slopes(
        lambda a, b: transcribed(rule, two_view_problem(a, b), means), *numbers(z0, z1)
    )
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=0, atol=1e-4 * scale)


@each_rule
@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [{}, {"candidates": "bipartite"}, {"candidates": "bipartite", "symmetric": False}],
    ids=["two-view", "symmetric", "one-way"],
)
def test_streaming_is_the_reference(
    rule: str, shift: float, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    z = [(x + shift).detach() for x in two_views(48, 6, dtype=dtype)]
    symmetric = options.get("candidates") == "bipartite" and options.get("symmetric", True)
    queue = None
    if not symmetric:
        queue = NegativeQueue(6, 6, dtype=torch.float64)
        queue.enqueue(two_views(6, 6, seed=8)[0] + shift, torch.arange(6))
    for ids in (None, torch.arange(48) // 2):
        found = []
        for impl, budget, kind in (
            ("reference", None, torch.float64),
            ("streaming", None, dtype),
            ("streaming", 8000, dtype),
        ):
            leaves = [x.to(kind).requires_grad_() for x in z]
            loss_fn = SelfSettingLoss(
                rule, impl=impl, memory_budget=budget, queue=queue, **options
            ).eval()
            loss = loss_fn(*leaves, ids=ids)
            found.append(value_and_gradients(loss, *leaves))
        rtol = 1e-8 if dtype == torch.float64 else 3e-4
        for streamed in found[1:]:
            for exact, mine in zip(found[0], streamed, strict=True):
                atol = rtol * max(float(exact.abs().max()), 0.1)
                torch.testing.assert_close(mine.double(), exact, rtol=rtol, atol=atol)


def test_running_means_and_state() -> None:
    """Adam's bias correction, in the loop's own words; a resumed loss goes on to the same bits."""
    loss_fn = SelfSettingLoss("tail")
    seen: list[float] = []
    for seed in range(4):
        z = two_views(40, 6, seed=seed, noise=0.2 + 0.1 * seed)
        loss_fn(*z)
        seen.append(statistics(two_view_problem(*numbers(*z)))["positive_shortfall"])
        weights = [0.9**age for age in range(len(seen) - 1, -1, -1)]
        mean = sum(w * x for w, x in zip(weights, seen, strict=True)) / sum(weights)
        assert loss_fn.statistics()["positive_shortfall"] == pytest.approx(mean, rel=1e-5)
    resumed = SelfSettingLoss("tail")
    resumed.load_state_dict(loss_fn.state_dict())
    z = two_views(40, 6, seed=9)
    before = loss_fn.statistics()
    assert torch.equal(loss_fn.eval()(*z), resumed.eval()(*z))
    assert loss_fn.statistics() == before  # evaluation leaves the means as they are
    assert torch.equal(loss_fn.train()(*z), resumed.train()(*z))
    assert not list(loss_fn.parameters())


def test_resuming_without_a_state_says_so() -> None:
    loss_fn = SelfSettingLoss("median")
    with pytest.raises(RuntimeError, match=r"sets its own sharpness.*this state has none; save"):
        loss_fn.load_state_dict({})
    holder = torch.nn.ModuleDict({"loss": loss_fn})
    with pytest.raises(RuntimeError, match=r"sets its own sharpness"):
        holder.load_state_dict({})


@each_rule
def test_means_stay_wide_in_a_half_precision_module(rule: str) -> None:
    loss_fn = SelfSettingLoss(rule).half()
    z = two_views(20, 6, dtype=torch.float16, requires_grad=True)
    loss = loss_fn(*z)
    assert loss.dtype == loss_fn.totals.dtype == torch.float32
    assert all(g.dtype == torch.float16 for g in torch.autograd.grad(loss, z))


@each_rule
@pytest.mark.parametrize("impl", ["streaming", "reference"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_guards(rule: str, impl: Any, dtype: torch.dtype) -> None:
    """Tiny batches, constant scores, duplicates, zero rows, positives farther than negatives."""
    generator = torch.Generator().manual_seed(0)

    def random(n: int) -> Tensor:
        return torch.randn(n, 4, generator=generator).to(dtype)

    copies = random(6).repeat(3, 1)
    with_zero = random(8)
    with_zero[2] = 0.0
    batches = {
        "tiny": (random(2), random(2)),
        "constant": (torch.ones(8, 4, dtype=dtype), torch.ones(8, 4, dtype=dtype)),
        "duplicates": (copies, copies),
        "zero": (with_zero, random(8)),
        "far": (random(8), -copies[:8]),
    }
    for name, z in batches.items():
        for ids in (None, torch.zeros(len(z[0]), dtype=torch.int64)):
            loss_fn = SelfSettingLoss(rule, impl=impl, validate=False)
            for _ in range(2):
                leaves = [x.clone().requires_grad_() for x in z]
                loss = loss_fn(*leaves, ids=ids)
                gradients = torch.autograd.grad(loss, leaves)
                assert torch.isfinite(loss), (name, ids)
                assert all(torch.isfinite(g).all() for g in gradients), (name, ids)
            assert torch.isfinite(loss_fn.totals).all()
        # A batch without a say leaves the means as they were.
        loss_fn = SelfSettingLoss(rule)
        loss_fn(*two_views(30, 4))
        loss_fn(*two_views(30, 4), ids=torch.zeros(30, dtype=torch.int64))
        assert all(math.isfinite(v) for v in loss_fn.statistics().values())


def test_what_is_kept_from_collapsing() -> None:
    """Scaled down, all shortfalls alike: the loss loses, so its gradient holds the scale."""
    centre = torch.ones(1, 8, dtype=torch.float64)
    wide = two_views(60, 8)
    narrow = [centre + 0.01 * x / x.norm(dim=1, keepdim=True) for x in wide]
    for rule in ("tail", "median", "kl"):
        assert SelfSettingLoss(rule)(*narrow) > SelfSettingLoss(rule)(*wide) + 0.05
    scaled = SelfSettingLoss("tail")
    assert float(scaled(*narrow)) > 0.9 * math.log(118)
    # The pure link knows no scale, as its rule says.
    before = two_view_problem(*numbers(*wide))
    means = statistics(before)
    scaled_problem = [
        (1.0 - 0.1 * (1.0 - p), [1.0 - 0.1 * (1.0 - s) for s in n]) for p, n in before
    ]
    assert statistics(scaled_problem)["tail_index"] == pytest.approx(means["tail_index"])
    assert hill_rule(scaled_problem, means, 1.5) == pytest.approx(hill_rule(before, means, 1.5))


def test_rule_b_is_infonce_at_its_temperature() -> None:
    z = two_views(40, 6)
    loss_fn = SelfSettingLoss("median")
    loss = loss_fn(*z)
    temperature = loss_fn.statistics()["negative_shortfall"] / math.log(78)
    torch.testing.assert_close(loss, InfoNCELoss(temperature)(*z), rtol=1e-6, atol=0)


def test_the_pure_links_are_those_of_a_fixed_exponent() -> None:
    """At the exponent that the rule sets, the endpoint loss of curvature 1 is the same."""
    z = two_views(40, 6)
    for rule, factor in (("hill", 1.0), ("hill-1.5", 1.5)):
        loss_fn = SelfSettingLoss(rule)
        loss = loss_fn(*z)
        beta = factor * loss_fn.statistics()["tail_index"]
        same = EndpointLoss(1.0 / beta, curvature=1.0)
        torch.testing.assert_close(loss, same(*z), rtol=1e-6, atol=0)


def test_effective_number_of_competitors() -> None:
    """Rule "kl" leaves each anchor k = n / 100 negatives: the perplexity of its softmax."""
    z0, z1 = two_views(250, 8)
    loss_fn = SelfSettingLoss("kl")
    loss_fn(z0, z1)
    problem = two_view_problem(*numbers(z0, z1))
    tau = loss_fn.statistics()["temperature"]
    perplexities = []
    for _, negatives in problem:
        p = np.exp((np.array(negatives) - max(negatives)) / tau)
        p /= p.sum()
        perplexities.append(math.exp(-(p * np.log(p)).sum()))
    assert lower_median(perplexities) == pytest.approx(4.98, rel=0.1)


def test_unknown_rule_and_no_logit_scale() -> None:
    with pytest.raises(ValueError, match="unknown rule 'best'; known: tail, median, kl, hill"):
        SelfSettingLoss("best")
    with pytest.raises(TypeError, match="logit_scale"):
        SelfSettingLoss()(*two_views(8, 3), logit_scale=torch.ones(()))
    assert repr(SelfSettingLoss("kl")) == "SelfSettingLoss(rule=kl, impl='auto')"
