"""A queue of past embeddings that serve as further negatives (He et al. 2020, arXiv:1911.05722)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .candidates import UNKNOWN_ID, unit_rows
from .distributed import gather_constant


class NegativeQueue(nn.Module):
    """The last ``size`` finite embeddings, oldest overwritten first; no gradient reaches them.

    Everything is saved in the ``state_dict``. Until the queue is full, only the rows that have been
    put into it are candidates. It does not start with random vectors: they would change the tail.

    Args:
        size: number of rows kept.
        dim: width d of the embeddings.
        dtype: precision of the stored unit rows; they are normalised again when read.

    Attributes:
        embeddings: buffer, shape ``(size, dim)``.
        ids: buffer of int64, shape ``(size,)``, the rows' identities where they were given.
        next_slot: buffer, shape ``()``, the row that is written next.
        filled: how many rows are in use.

    Raises:
        ValueError: for a size or width that is not positive.
    """

    embeddings: Tensor
    ids: Tensor
    next_slot: Tensor

    def __init__(self, size: int, dim: int, *, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        if not (isinstance(size, int) and isinstance(dim, int) and size > 0 and dim > 0):
            raise ValueError(f"a queue needs a positive size and dim, got {size!r} and {dim!r}")
        self.size, self.dim, self.filled = size, dim, 0
        self.register_buffer("embeddings", torch.zeros(size, dim, dtype=dtype))
        self.register_buffer("ids", torch.full((size,), UNKNOWN_ID))
        self.register_buffer("next_slot", torch.zeros((), dtype=torch.int64))

    def rows(self) -> Tensor:
        """The rows in use, shape ``(filled, dim)``, in no particular order."""
        return self.embeddings[: self.filled]

    def row_ids(self) -> Tensor:
        """Their identities, shape ``(filled,)``."""
        return self.ids[: self.filled]

    @torch.no_grad()
    def enqueue(
        self, z: Tensor, ids: Tensor | None = None, *, gather_distributed: bool = False
    ) -> None:
        """Put a batch in, over the oldest rows. Of more than ``size`` rows the last stay.

        Rows that hold NaN or infinity are left out. An accelerator is not waited for: there the
        batch takes as many slots as without them. Slots never used get finite rows of the batch
        once more, others keep what they hold, and the next batch begins with these slots.

        Args:
            z: embeddings, shape ``(N, dim)``; they need not be normalised.
            ids: their identities, integer, shape ``(N,)``.
            gather_distributed: put in the batches of all ranks, so that all queues stay the same.

        Raises:
            ValueError: for embeddings of another width, or ``ids`` of another length.
        """
        if z.ndim != 2 or z.shape[1] != self.dim:
            raise ValueError(f"the queue holds rows of width {self.dim}, got {tuple(z.shape)}")
        if ids is None:
            ids = torch.full((z.shape[0],), UNKNOWN_ID, device=z.device)
        elif ids.shape != z.shape[:1]:
            raise ValueError(f"ids must have shape ({z.shape[0]},), got {tuple(ids.shape)}")
        unit, ids = unit_rows(z).to(self.embeddings), ids.to(self.ids)
        if gather_distributed:
            unit, ids = gather_constant(unit), gather_constant(ids)
        unit, ids = unit[-self.size :], ids[-self.size :]
        count = unit.shape[0]
        steps = torch.arange(count, device=unit.device)
        slots = (self.next_slot + steps) % self.size
        # Of fixed shape, so that no number has to come back from an accelerator: finite rows move
        # to the front, and from behind the last one they start again.
        finite = torch.isfinite(unit).all(dim=1)
        good = finite.sum()
        order = (~finite).to(torch.uint8).argsort(stable=True)[steps % good.clamp_min(1)]
        old, old_ids = self.embeddings[slots], self.ids[slots]
        unused = (old == 0).all(dim=1)
        written = ((steps < good) | unused) & (good > 0)
        self.embeddings.index_copy_(0, slots, torch.where(written[:, None], unit[order], old))
        self.ids.index_copy_(0, slots, torch.where(written, ids[order], old_ids))
        self.next_slot.add_(good).remainder_(self.size)
        # On a CPU looking is free, and the queue then grows by what is good alone.
        looks = unit.device.type == "cpu" and not torch.compiler.is_compiling()
        self.filled = min(self.size, self.filled + (int(good) if looks else count))

    def get_extra_state(self) -> Tensor:
        """How many rows are in use, for the ``state_dict``."""
        return torch.tensor(self.filled)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the number of rows in use from a ``state_dict``."""
        self.filled = int(state)

    def extra_repr(self) -> str:
        """Size and width, for ``print(queue)``."""
        return f"size={self.size}, dim={self.dim}"
