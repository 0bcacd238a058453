"""Two further losses over each anchor's hardest negatives, as the release's training script adds.

With the K hardest negatives H(i) of anchor i and its positive i+, each is a cross-entropy over
K + 1 candidates:

    softmax:  logits s_ij / tau,
    Weibit:   logits -beta log(1 - s_ij), one beta for all anchors of the batch.

The release adds 0.5 of each to its WEINCE loss and neither to its InfoNCE loss. beta is read from
the whole batch's smallest shortfalls and averaged over steps (:class:`BatchTailIndex`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .similarity import exact_dtype

#: Share of all the batch's negative shortfalls that make the tail beta is read from ...
TAIL_FRACTION = 0.05
#: ... the least number of them, as far as there are so many ...
LEAST_TAIL = 1024
#: ... and the share of the tail, its smallest points, that is dropped before the fit.
DROPPED = 0.05
#: A fit with a smaller coefficient of determination is not taken.
LEAST_R2 = 0.85
#: Bounds of a fitted beta.
BOUNDS = (0.5, 16.0)
#: beta before the first batch, and the weight of the past in its running mean.
FIRST_BETA, MOMENTUM = 4.0, 0.9


def only_negatives(shortfalls: Tensor, positives: Tensor) -> Tensor:
    """A copy of the shortfalls with the anchors themselves and their positives at infinity.

    Args:
        shortfalls: 1 - cosine, shape ``(M, M)``; row i is anchor i.
        positives: column of each anchor's positive, shape ``(M,)``.
    """
    delta = shortfalls.detach().clone()
    delta.fill_diagonal_(torch.inf)
    return delta.scatter_(1, positives[:, None], torch.inf)


def hardest_negatives(negatives: Tensor, count: int) -> Tensor:
    """Columns of each anchor's hardest negatives, in no order.

    Args:
        negatives: shortfalls, shape ``(M, M)``, see :func:`only_negatives`.
        count: how many; all if an anchor has fewer.

    Returns:
        Shape ``(M, min(count, M - 2))``.
    """
    count = min(count, negatives.shape[0] - 2)
    if negatives.device.type != "cpu":
        return negatives.topk(count, dim=1, largest=False, sorted=False).indices
    # numpy's selection takes a third of the time of torch's.
    return torch.from_numpy(np.argpartition(negatives.numpy(), count - 1, axis=1)[:, :count])


class PairCosines(torch.autograd.Function):
    """Some cosines of unit rows with each other, with one product for the gradient of both sides.

    ``PairCosines.apply(rows, scores, columns, dtype)`` are ``scores`` (rows times their transpose,
    without gradient) at ``columns``, shape ``(M, K)``; the gradient's product runs in ``dtype``.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, scores: Tensor, columns: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Return the cosines, in the precision of the rows."""
        ctx.save_for_backward(rows, columns)
        ctx.dtype = dtype
        return scores.gather(1, columns)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Scatter to the matrix of all cosines, add its transpose, multiply."""
        rows, columns = ctx.saved_tensors
        wide = rows.new_zeros(rows.shape[0], rows.shape[0], dtype=ctx.dtype)
        wide.scatter_add_(1, columns, grad.to(ctx.dtype))
        with torch.autocast(rows.device.type, enabled=False):
            found = (wide + wide.T) @ rows.to(ctx.dtype)
        return found.to(rows.dtype), None, None, None


@torch.no_grad()
def tail_slope(negatives: Tensor, number: int, floor: float = 1e-6) -> tuple[Tensor, Tensor]:
    """One tail index for a batch: the slope of log F on log delta over its smallest shortfalls.

    Of n shortfalls the K = max(1024, floor(0.05 n)) smallest make the tail (all if there are
    fewer), F_k = k / (K + 1), and the first floor(0.05 K) of them are dropped.

    Args:
        negatives: shortfalls of any shape, with what is no negative at infinity.
        number: how many of them are negatives, n.
        floor: least shortfall.

    Returns:
        The slope and the fit's coefficient of determination R^2, both of shape ``()``; R^2 is 0
        for a tail without spread.
    """
    k = min(max(LEAST_TAIL, int(TAIL_FRACTION * number)), number)
    tail = _smallest(negatives.reshape(-1), k).to(exact_dtype(negatives.device)).clamp_min(floor)
    drop = min(int(DROPPED * k), k - 1)
    x = tail[drop:].log()
    rank = torch.arange(drop + 1, k + 1, device=x.device, dtype=x.dtype) / (k + 1)
    x, y = x - x.mean(), rank.log() - rank.log().mean()
    sxx, sxy, syy = (x * x).sum(), (x * y).sum(), (y * y).sum()
    spread = (sxx > 0) & (syy > 0)
    slope = torch.where(spread, sxy / torch.where(spread, sxx, 1.0), 0.0)
    return slope, torch.where(spread, slope * sxy / torch.where(spread, syy, 1.0), 0.0)


def _smallest(flat: Tensor, count: int) -> Tensor:
    """The smallest numbers of a vector, ascending; on a CPU by numpy's faster selection."""
    if flat.device.type != "cpu":
        return flat.topk(count, largest=False, sorted=True).values
    array = flat.numpy().copy()
    array.partition(count - 1)
    array = array[:count]
    array.sort()
    return torch.from_numpy(array)


class BatchTailIndex(nn.Module):
    """The Weibit term's beta: fitted to each batch, clamped, and averaged over steps.

    beta <- 0.9 beta + 0.1 clamp(slope, 0.5, 16) where the fit has R^2 of 0.85 or more, and as it
    was elsewhere; 4 before the first batch. That a batch's own fit counts in its own loss is this
    project's reading; at a weight of 0.1 the order hardly matters. The mean is a buffer, so it is
    kept with the state, in float32 or better whatever the module is cast to: in bfloat16 a step of
    0.1 times a small change would be rounded away.
    """

    beta: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("beta", torch.tensor(FIRST_BETA, dtype=torch.float32))

    def _apply(self, fn: Any, recurse: bool = True) -> BatchTailIndex:
        """Move and cast as any module, but to nothing narrower than float32."""
        before = self.beta
        super()._apply(fn, recurse)
        if torch.finfo(self.beta.dtype).bits < 32:
            self.beta = before.to(self.beta.device, torch.float32)
        return self

    @torch.no_grad()
    def forward(self, negatives: Tensor, floor: float) -> Tensor:
        """Beta, shape ``()``; in training mode with the batch taken in.

        Args:
            negatives: shortfalls, shape ``(M, M)``, see :func:`only_negatives`.
            floor: least shortfall.
        """
        if self.training:
            anchors = negatives.shape[0]
            slope, r2 = tail_slope(negatives, anchors * (anchors - 2), floor)
            old = self.beta.to(slope)
            new = MOMENTUM * old + (1.0 - MOMENTUM) * slope.clamp(*BOUNDS)
            self.beta = torch.where(r2 >= LEAST_R2, new, old).to(self.beta)
        return self.beta
