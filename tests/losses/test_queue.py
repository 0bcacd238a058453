"""The queue of negatives: what is not finite never gets in, on any device and in any mode."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from weince_lib.losses import InfoNCELoss, NegativeQueue


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


def test_a_first_batch_without_a_finite_row_leaves_the_queue_empty() -> None:
    queue = NegativeQueue(6, 3)
    queue.enqueue(batch(0, 0, 1, 2, 3))
    assert queue.filled == 0 and int(queue.next_slot) == 0


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


def test_good_batches_are_queued_as_before() -> None:
    queue = NegativeQueue(6, 3)
    for seed in range(3):
        queue.enqueue(batch(seed))
    z = unit(torch.cat([batch(seed) for seed in range(3)]).double()).float()
    assert torch.equal(queue.embeddings, torch.cat([z[6:12]]))
    assert int(queue.next_slot) == 0


@pytest.mark.parametrize("bad", [(1,), (0, 1, 2, 3)])
def test_a_bad_batch_does_not_reach_the_next_loss(bad: tuple[int, ...]) -> None:
    loss = InfoNCELoss(
        candidates="bipartite", symmetric=False, queue=NegativeQueue(8, 3), validate=False
    )
    loss(batch(0), batch(1))
    assert not torch.isfinite(loss(batch(2, *bad), batch(3, *bad)))
    assert torch.isfinite(loss(batch(4), batch(5)))
