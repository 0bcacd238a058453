"""Bipartite and queued candidate sets, identities and explicit scores, against explicit loops."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from gloo_ranks import SETTINGS
from torch import Tensor
from transcribed_weince import Anchor, Reading, read_tail, scores_loss, universe_loss

from weince_lib.losses import (
    PRESETS,
    NegativeQueue,
    WEINCELoss,
    infonce_from_scores,
    infonce_loss,
    weince_from_scores,
    weince_loss,
)

N, D, EXTRA, QUEUED = 15, 6, 4, 9
SETS: dict[str, dict[str, Any]] = {
    "two-view": {},
    "two-view, further": {"extra": True, "queue": True},
    "symmetric": {"candidates": "bipartite"},
    "one-way": {"candidates": "bipartite", "symmetric": False},
    "one-way, further": {
        "candidates": "bipartite",
        "symmetric": False,
        "extra": True,
        "queue": True,
    },
}


def rows(count: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, D, generator=generator, dtype=torch.float64).to(dtype)


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    items = rows(N, seed)
    z0, z1 = items + 0.6 * rows(N, seed + 1), items + 0.6 * rows(N, seed + 2)
    return z0.requires_grad_(), z1.requires_grad_()


def full_queue() -> tuple[NegativeQueue, Tensor]:
    queue = NegativeQueue(QUEUED, D, dtype=torch.float64)
    ids = torch.tensor([0, 1, 2, 3, 100, 101, 102, 103, 104])
    queue.enqueue(rows(QUEUED, 50), ids)
    return queue, ids


def anchors_of(how: dict[str, Any], ids: list[int] | None) -> list[Anchor]:
    """The candidate sets' definition, in the universe z0, z1, further negatives, queue."""
    further = list(range(2 * N, 2 * N + EXTRA)) if how.get("extra") else []
    start = 2 * N + len(further)
    queued = list(range(start, start + QUEUED)) if how.get("queue") else []
    names: dict[int, Any] = {row: ("unnamed", row) for row in further}
    if ids is not None:
        names |= {row: ids[row % N] for row in range(2 * N)}
        names |= dict(zip(queued, full_queue()[1].tolist(), strict=False))
    views, first, second = range(2 * N), range(N), range(N, 2 * N)
    if how.get("candidates") != "bipartite":
        pools = [(i, (i + N) % (2 * N), views) for i in views]
    else:
        pools = [(i, i + N, second) for i in first]
        if how.get("symmetric", True):
            pools += [(i, i - N, first) for i in second]
    anchors = []
    for row, positive, pool in pools:
        negatives = [j for j in (*pool, *further, *queued) if j not in (row, positive)]
        counted = len(negatives)
        if ids is not None:
            negatives = [j for j in negatives if names[j] != names[row]]
        anchors.append(Anchor(row, positive, negatives, counted))
    return anchors


@pytest.mark.parametrize("impl", ["reference", "streaming", "blocks of one"])
@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("candidates", list(SETS))
def test_value_and_gradients(candidates: str, name: str, with_ids: bool, impl: str) -> None:
    how = dict(SETS[candidates])
    # Two duplicates, and three that the queue holds as well.
    ids = [0, 1, 2, 7, 7, *range(10, N + 5)] if with_ids else None
    anchors = anchors_of(how, ids)
    z0, z1 = batch()
    extra = rows(EXTRA, 40).requires_grad_() if how.pop("extra", False) else None
    queue, _ = full_queue()
    if not how.pop("queue", False):
        queue = None
    scale = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    options = {
        **how,
        "ids": None if ids is None else torch.tensor(ids),
        "negatives": extra,
        "queue": queue,
        "logit_scale": scale,
        "impl": "reference" if impl == "reference" else "streaming",
        "memory_budget": 1 if impl == "blocks of one" else None,
    }
    settings = SETTINGS[name]
    lam = None
    if settings is None:
        loss = infonce_loss(z0, z1, **options)
    else:
        loss, evidence = weince_loss(z0, z1, settings=settings, return_evidence=True, **options)
        lam = evidence.lam
    learning = [z0, z1] if extra is None else [z0, z1, extra]
    *by_rows, by_scale = torch.autograd.grad(loss, [*learning, scale])

    parts = [*learning, *([] if queue is None else [queue.rows()])]
    universe = torch.cat([part.detach() for part in parts]).numpy()
    value, gradient, by_slope, readings = universe_loss(
        universe, anchors, 2.5, None if settings is None else dataclasses.asdict(settings)
    )
    assert float(loss) == pytest.approx(value, rel=1e-10)
    assert float(by_scale) == pytest.approx(by_slope, rel=1e-8, abs=1e-12)
    learned = np.concatenate([g.numpy() for g in by_rows])
    np.testing.assert_allclose(learned, gradient[: len(learned)], rtol=1e-8, atol=1e-12)
    if lam is not None:
        lams = [reading.lam for reading in readings]
        np.testing.assert_allclose(lam.numpy(), lams, rtol=1e-8, atol=1e-14)
        assert max(lams) > 0.05  # or else this compared InfoNCE with itself


def test_clip_and_simcse_by_cross_entropy() -> None:
    z0, z1 = batch()
    cosine = torch.nn.functional.cosine_similarity(z0[:, None], z1[None], dim=-1) / 0.07
    labels = torch.arange(N)
    one_way = torch.nn.functional.cross_entropy(cosine, labels)
    other = torch.nn.functional.cross_entropy(cosine.T, labels)
    options = {"candidates": "bipartite"}
    torch.testing.assert_close(infonce_loss(z0, z1, 0.07, **options), (one_way + other) / 2)
    torch.testing.assert_close(infonce_loss(z0, z1, 0.07, symmetric=False, **options), one_way)


def test_last_smaller_batch() -> None:
    """A module keeps no mask of the previous batch's size."""
    loss = WEINCELoss(queue=NegativeQueue(20, D))
    z0, z1 = batch()
    loss(z0, z1)
    queue = loss.queue.rows().clone()
    small = loss.eval()(z0[:5], z1[:5])
    fresh = NegativeQueue(20, D)
    fresh.enqueue(queue)
    torch.testing.assert_close(small, weince_loss(z0[:5], z1[:5], queue=fresh))


def ragged_problem() -> tuple[Tensor, Tensor, Tensor, list[Anchor]]:
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(9, 60, generator=generator, dtype=torch.float64) ** 0.3
    positives = torch.tensor([0, 5, 59, 3, 3, 7, 11, 20, 30])
    mask = torch.rand(9, 60, generator=generator) < 0.8
    mask[1] = False  # nothing but its positive
    mask[2, 3:] = False  # too few for a fit
    mask[4] = True
    anchors = []
    for i, positive in enumerate(positives.tolist()):
        negatives = [j for j in range(60) if mask[i, j] and j != positive]
        anchors.append(Anchor(i, positive, negatives, len(negatives)))
    return scores, positives, mask, anchors


@pytest.mark.parametrize("name", list(SETTINGS))
def test_ragged_rows_of_scores(name: str) -> None:
    scores, positives, mask, anchors = ragged_problem()
    known = mask.scatter(1, positives[:, None], value=True)
    given = scores.masked_fill(~known, math.nan).requires_grad_()
    settings = SETTINGS[name]
    scale = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    if settings is None:
        loss = infonce_from_scores(given, positives, mask, logit_scale=scale)
    else:
        loss, evidence = weince_from_scores(
            given,
            positives,
            mask,
            settings=settings,
            logit_scale=scale,
            return_evidence=True,
        )
    by_score, by_scale = torch.autograd.grad(loss, [given, scale])
    readings = [Reading(0.0, 0.0, 0.0, 0.0)] * len(anchors)
    if settings is not None:
        readings = read_tail(scores.numpy(), anchors, **dataclasses.asdict(settings))
    value, gradient, by_slope = scores_loss(scores.numpy(), anchors, readings, 3.0)
    assert float(loss) == pytest.approx(value, rel=1e-10)
    assert float(by_scale) == pytest.approx(by_slope, rel=1e-8)
    np.testing.assert_allclose(by_score.numpy(), gradient, rtol=1e-8, atol=1e-14)
    if settings is not None:
        lams = [reading.lam for reading in readings]
        np.testing.assert_allclose(evidence.lam.numpy(), lams, rtol=1e-8, atol=1e-14)
        assert max(lams) > 0.05 and lams[1] == 0.0 and lams[2] == 0.0
        assert math.isinf(evidence.rho[1])


@pytest.mark.parametrize("name", list(PRESETS))
def test_scores_are_the_same_as_the_losses_of_embeddings(name: str) -> None:
    z0, z1 = batch()
    unit = torch.nn.functional.normalize(torch.cat([z0, z1]))
    mask = ~torch.eye(2 * N, dtype=torch.bool)
    positives = torch.arange(2 * N).roll(N)
    loss = weince_from_scores(unit @ unit.T, positives, mask, settings=SETTINGS[name])
    torch.testing.assert_close(loss, weince_loss(z0, z1, settings=SETTINGS[name]))


def test_scores_without_negatives_anywhere() -> None:
    scores = torch.rand(3, 4, requires_grad=True)
    loss = weince_from_scores(scores, torch.arange(3), torch.zeros(3, 4, dtype=torch.bool))
    assert float(loss) == 0.0
    (gradient,) = torch.autograd.grad(loss, scores)
    assert torch.equal(gradient, torch.zeros_like(scores))
