"""Room for blocks of scores, kept between calls on a CPU.

A block's buffers are a few megabytes. An allocator gives that much back to the system after every
call and has it mapped anew, page by page, at the next: at N = 256 this costs more than the matrix
products. So each thread keeps what it used last, at most :data:`KEPT` bytes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

#: Three buffers of N = 1,024 (512 rows against 2,048 columns in float32) fit; larger problems spend
#: so long on a buffer that getting it costs little.
KEPT = 16 * 2**20

_thread = threading.local()


@contextmanager
def scratch(count: int, shape: tuple[int, int], like: Tensor) -> Iterator[list[Tensor]]:
    """Lend ``count`` matrices of unknown content; they must not be used or returned afterwards.

    Args:
        count: how many.
        shape: of each.
        like: gives dtype and device.
    """
    size = math.prod(shape)
    if like.device.type != "cpu" or count * size * like.dtype.itemsize > KEPT:
        yield [like.new_empty(shape) for _ in range(count)]
        return
    # Taken out while in use, so that a call inside a call gets its own.
    pieces: list[Tensor] = _thread.__dict__.setdefault("pieces", [])
    needed = count * size * like.dtype.itemsize
    large_enough = [i for i, piece in enumerate(pieces) if piece.numel() >= needed]
    if large_enough:
        memory = pieces.pop(large_enough[0])
    else:
        with torch.inference_mode(False):  # it has to serve later calls, outside of it, too
            memory = torch.empty(needed, dtype=torch.uint8)
    try:
        flat = memory[:needed].view(like.dtype)
        yield [flat[i * size : (i + 1) * size].view(shape) for i in range(count)]
    finally:
        pieces.append(memory)
        pieces.sort(key=torch.Tensor.numel)
        while sum(piece.numel() for piece in pieces) > KEPT:
            pieces.pop(0)
