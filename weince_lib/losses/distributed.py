"""Losses over the batch of all processes: compare sizes first, then gather with gradient.

Every process (rank) scores its own anchors against the candidates of all W ranks and returns the
mean over its own anchors, so the full batch's loss is the mean of the ranks' losses. The gather's
backward pass sums what all ranks send to a row. Then the gradient of a rank's embeddings is W times
the full batch's, and the average over ranks that ``DistributedDataParallel`` takes of parameter
gradients gives exactly those of one process with the whole batch. Without that average (parameters
on one rank, summed gradients), divide by W.

Each of these functions is a collective: every rank must call it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

#: torch renamed both in 2.14 and warns of the names that 2.9 knows.
_ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def check_process_group() -> None:
    """Raise ``RuntimeError`` unless this process belongs to an initialised process group."""
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "gather_distributed=True needs an initialised process group: call "
            "torch.distributed.init_process_group first (torchrun sets its environment), or leave "
            "gather_distributed=False"
        )


class _GatherRows(torch.autograd.Function):
    """All-gather along the first dimension; backward is its adjoint, a summing reduce-scatter."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        """Return the rows of all ranks in the order of ranks."""
        ctx.rows = rows.shape[0]
        return gather_constant(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Sum over ranks what each of them sends to this rank's rows."""
        own = grad.new_empty(ctx.rows, *grad.shape[1:])
        _REDUCE_SCATTER(own, grad.contiguous())
        return own


def gather_rows(rows: Tensor) -> Tensor:
    """The rows of all ranks, shape ``(W * n, ...)``, with gradient to those of this rank.

    Every rank gives ``n`` rows; rank r's are rows ``r n`` to ``(r+1) n``. The gradient that reaches
    ``rows`` is the sum over all ranks' losses.
    """
    gathered: Tensor = _GatherRows.apply(rows)
    return gathered


def gather_constant(rows: Tensor) -> Tensor:
    """As :func:`gather_rows`, without a gradient."""
    rows = rows.detach().contiguous()
    gathered = rows.new_empty(dist.get_world_size() * rows.shape[0], *rows.shape[1:])
    _ALL_GATHER(gathered, rows)
    return gathered


def check_same_on_ranks(
    facts: dict[str, int], device: torch.device, error: ValueError | None = None
) -> None:
    """Compare the ranks' batches before any gather that could hang on a difference.

    Reading the answer waits for an accelerator; callers skip it for ``validate=False`` and under
    ``torch.compile``.

    Args:
        facts: what has to be the same on every rank, by the name that the error calls it.
        device: where the embeddings are.
        error: what this rank found wrong with its own batch; the others must not wait for it.

    Raises:
        ValueError: on every rank: ``error`` itself where there is one, elsewhere one that names the
            rank that rejected its batch, or the fact that differs with each rank's number.
    """
    mine = torch.tensor([[error is not None, *facts.values()]], dtype=torch.int64, device=device)
    everyone = gather_constant(mine).tolist()
    if error is not None:
        raise error
    rejecting = [rank for rank, row in enumerate(everyone) if row[0]]
    if rejecting:
        raise ValueError(f"the batch of rank {rejecting[0]} was rejected; see the error there")
    for column, name in enumerate(facts, start=1):
        numbers = [row[column] for row in everyone]
        if len(set(numbers)) > 1:
            raise ValueError(
                f"gather_distributed=True needs equal batches on all ranks, but {name} is "
                f"{numbers} on ranks 0 to {len(numbers) - 1}; drop or pad the last smaller batch "
                "(DataLoader(drop_last=True))"
            )
