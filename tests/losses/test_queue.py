"""The queue of negatives: what is not finite never gets in, on any device and in any mode."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from loss_batches import two_views
from torch import Tensor

from weince_lib.losses import InfoNCELoss, NegativeQueue, WEINCELoss, infonce_loss

N, D = 15, 6


def pairs() -> tuple[Tensor, Tensor]:
    return two_views(N, D, requires_grad=True)


def full_queue() -> NegativeQueue:
    queue = NegativeQueue(9, D, dtype=torch.float64)
    queue.enqueue(two_views(9, D, seed=50)[0])
    return queue


def batch(seed: int, *bad: int) -> Tensor:
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
    for row in bad:
        z[row, 1] = math.nan if row % 2 else math.inf
    return z


def rows_as_set(rows: Tensor) -> set[tuple[float, ...]]:
    return {tuple(round(x, 5) for x in row) for row in rows.tolist()}


def unit(z: Tensor) -> Tensor:
    return z / z.norm(dim=1, keepdim=True)


def test_only_finite_rows_are_queued_and_the_oldest_give_way() -> None:
    queue = NegativeQueue(6, 3)
    queue.enqueue(batch(0), torch.arange(4))
    queue.enqueue(batch(1, 0, 3), torch.arange(4, 8))
    assert queue.filled == 6
    expected = rows_as_set(unit(torch.cat([batch(0), batch(1)[1:3]])))
    assert rows_as_set(queue.rows()) == expected
    assert sorted(queue.row_ids().tolist()) == [0, 1, 2, 3, 5, 6]
    queue.enqueue(batch(2, 1), torch.arange(8, 12))  # over the three oldest
    assert sorted(queue.row_ids().tolist()) == [3, 5, 6, 8, 10, 11]
    before = queue.state_dict()["embeddings"].clone()
    queue.enqueue(batch(3, 0, 1, 2, 3))
    assert torch.equal(queue.embeddings, before) and queue.filled == 6


def test_without_looking_slots_hold_finite_rows_too() -> None:
    """What an accelerator does; the compiler's mode takes the same way on a CPU."""
    queue = NegativeQueue(6, 3)
    enqueue = torch.compile(queue.enqueue, backend="eager")
    enqueue(batch(0, 1))
    rows = queue.rows()
    assert len(rows) == 4 and bool(torch.isfinite(rows).all())
    assert rows_as_set(rows) == rows_as_set(unit(batch(0)[[0, 2, 3]]))  # one of them twice
    enqueue(batch(1))
    enqueue(batch(2))
    expected = rows_as_set(unit(torch.cat([batch(1)[2:], batch(2)])))
    assert rows_as_set(queue.rows()) == expected


def test_enqueue_reads_nothing_back_from_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors on the meta device have no values: whatever asks for one fails."""
    # Autocast, which this switches off, does not know the meta device.
    monkeypatch.setattr("weince_lib.losses.queue.unit_rows", lambda z: z)
    queue = NegativeQueue(6, 3).to("meta")
    queue.enqueue(torch.empty(4, 3, device="meta"))
    assert queue.filled == 4


@pytest.mark.parametrize("bad", [(1,), (0, 1, 2, 3)])
def test_a_bad_batch_does_not_reach_the_next_loss(bad: tuple[int, ...]) -> None:
    loss = InfoNCELoss(
        candidates="bipartite", symmetric=False, queue=NegativeQueue(8, 3), validate=False
    )
    loss(batch(0), batch(1))
    assert not torch.isfinite(loss(batch(2, *bad), batch(3, *bad)))
    assert torch.isfinite(loss(batch(4), batch(5)))


@pytest.mark.parametrize("module", [InfoNCELoss, WEINCELoss])
@pytest.mark.parametrize("how", [{}, {"candidates": "bipartite", "symmetric": False}])
def test_enqueues_after_the_loss_in_training_only(module: Any, how: Any) -> None:
    queue = NegativeQueue(2 * N, D, dtype=torch.float64)
    loss = module(queue=queue, **how)
    z0, z1 = pairs()
    first = loss(z0, z1)
    torch.testing.assert_close(first, module(**how)(z0, z1))  # nothing was queued yet
    assert queue.filled == N
    expected = torch.nn.functional.normalize(z1.detach())
    torch.testing.assert_close(queue.rows(), expected)
    assert not torch.equal(loss.eval()(z0, z1), first)
    assert queue.filled == N
    first.backward()
    assert not queue.embeddings.requires_grad


def test_backward_after_the_queue_has_moved_on() -> None:
    z0, z1 = pairs()
    for impl in ("reference", "streaming"):
        queue = full_queue()
        loss = infonce_loss(z0, z1, queue=queue, impl=impl)
        (before,) = torch.autograd.grad(loss, z0, retain_graph=True)
        queue.enqueue(two_views(9, D, seed=3)[0])
        (after,) = torch.autograd.grad(loss, z0)
        assert torch.equal(before, after)


def test_oldest_rows_go_first() -> None:
    queue = NegativeQueue(5, D, dtype=torch.float64)
    unit = torch.nn.functional.normalize(two_views(9, D, seed=4)[0])
    for start in (0, 3, 6):
        queue.enqueue(unit[start : start + 3], torch.arange(start, start + 3))
    assert sorted(queue.row_ids().tolist()) == [4, 5, 6, 7, 8]
    torch.testing.assert_close(queue.rows(), unit[queue.row_ids()])
    queue.enqueue(unit, torch.arange(9))  # more than fit: the last stay
    assert sorted(queue.row_ids().tolist()) == [4, 5, 6, 7, 8]


def test_state_is_saved() -> None:
    loss = InfoNCELoss(queue=NegativeQueue(2 * N, D))
    z0, z1 = pairs()
    loss(z0, z1, ids=torch.arange(N))
    other = InfoNCELoss(queue=NegativeQueue(2 * N, D))
    other.load_state_dict(loss.state_dict())
    assert other.queue.filled == N
    assert torch.equal(other.queue.row_ids(), torch.arange(N))
    assert torch.equal(other(z0, z1), loss(z0, z1))
    assert torch.equal(other.queue.embeddings, loss.queue.embeddings)


def test_one_pair_may_have_all_its_negatives_there() -> None:
    queue = full_queue()
    z0, z1 = (z[:1] for z in pairs())
    assert float(infonce_loss(z0, z1, queue=queue)) > 0
