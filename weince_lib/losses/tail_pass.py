"""First pass over the blocks: read every anchor's tail (rho, beta, Delta AIC)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from .blocks import NEAR, CandidateProblem, ShortfallBlocks
from .evidence import TailReading, TailSettings, read_tail
from .workspace import scratch

#: Below this many numbers a second thread costs more than it saves.
THREADED_SELECTION = 2**20
#: Anchors looked at before the first block, to see whether shortfalls reach near the cap.
PROBED = 16


def read_tails(
    problem: CandidateProblem, settings: TailSettings, memory: int | None = None
) -> tuple[TailReading, Tensor | None]:
    """Read every anchor's tail; keep the shortfalls for the second pass where they are few.

    Args:
        problem: anchors and candidates.
        settings: see :class:`TailSettings`.
        memory: budget in bytes for everything of a block's size; by default the device's.

    Returns:
        The reading, and the matrix of shortfalls, shape ``(A, C)``, or None if it exceeds the
        budget.
    """
    keep = problem.fits(memory)
    with torch.no_grad():
        read = _read_tails_op if torch.compiler.is_compiling() else _read_tails
        rho, beta, delta_aic, usable, kept = read(
            problem.anchors.detach(),
            None if problem.candidates is None else problem.candidates.detach(),
            problem.positives,
            problem.own,
            problem.anchor_ids,
            problem.candidate_ids,
            problem.positive,
            settings.tail_size(problem.negatives),
            problem.negatives,
            settings.tail_index,
            settings.evidence,
            settings.floor,
            problem.rows_per_block(memory),
            keep,
        )
    return TailReading(rho, beta, delta_aic, usable), kept if keep else None


def _read_tails(
    anchors: Tensor,
    candidates: Tensor | None,
    positives: Tensor,
    own: Tensor | None,
    anchor_ids: Tensor | None,
    candidate_ids: Tensor | None,
    positive: Tensor,
    k: int,
    negatives: int,
    tail_index: str,
    evidence: str,
    floor: float,
    rows: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    settings = TailSettings(tail_index=tail_index, evidence=evidence, floor=floor)  # type: ignore[arg-type]
    with torch.autocast(anchors.device.type, enabled=False):
        blocks = ShortfallBlocks(
            anchors,
            candidates,
            positives,
            own,
            anchor_ids,
            candidate_ids,
            positive,
            rows,
        )
        total, columns = blocks.anchors.shape[0], blocks.candidates.shape[0]
        kept = blocks.anchors.new_empty(total, columns) if keep else None
        ordered = "line" in (tail_index, evidence.removesuffix("-aic"))
        readings = []

        def negatives_of(block: slice, out: Tensor, *, exact: bool, keep: Tensor | None) -> Tensor:
            """Shortfalls of ``block``, all but negatives at infinity, in ``out``."""
            blocks.fill(block, out if keep is None else keep[block], exact=exact)
            if keep is not None:
                out.copy_(keep[block])
            blocks.leave_out(block, out, torch.inf)
            return out.scatter_(1, blocks.positives[block], torch.inf)

        with scratch(1, (rows, columns), blocks.anchors) as (buffer,):
            # A CPU can look before it decides; an accelerator would have to wait for the answer.
            exact = anchors.device.type != "cpu" or blocks.always_exact
            if not exact:  # a few rows often tell, and spare a product of all
                few = slice(0, min(rows, PROBED))
                some = negatives_of(few, buffer[few], exact=False, keep=None)
                exact = reaches_near(some.amin())
            for block in blocks:
                work = buffer[: block.stop - block.start]
                negatives_of(block, work, exact=exact, keep=kept)
                if not exact:
                    exact = reaches_near(work.amin())
                    if exact:  # and so, most likely, do the blocks to come
                        negatives_of(block, work, exact=True, keep=kept)
                tail = _smallest(work, min(k + 1, negatives), ordered)
                wide = torch.float64 if exact else blocks.dtype
                reading = read_tail(tail.clamp_min(floor), k, settings, torch.finfo(wide).eps)
                readings.append((reading.rho, reading.beta, reading.delta_aic, reading.usable))
        rho, beta, delta_aic, usable = (torch.cat(parts) for parts in zip(*readings, strict=True))
    return rho, beta, delta_aic, usable, rho.new_empty(0, 0) if kept is None else kept


#: For the compiler, which sees one operator where eager mode calls the function itself.
_read_tails_op = torch.library.custom_op("weince::read_tails", _read_tails, mutates_args=())


@_read_tails_op.register_fake
def _(
    anchors: Tensor,
    candidates: Tensor | None,
    positives: Tensor,
    own: Tensor | None,
    anchor_ids: Tensor | None,
    candidate_ids: Tensor | None,
    positive: Tensor,
    k: int,
    negatives: int,
    tail_index: str,
    evidence: str,
    floor: float,
    rows: int,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    total = anchors.shape[0]
    columns = (anchors if candidates is None else candidates).shape[0]
    like = anchors.new_empty(total, dtype=positive.dtype)
    kept = like.new_empty((total, columns) if keep else (0, 0))
    return (
        like,
        torch.empty_like(like),
        torch.empty_like(like),
        torch.empty_like(like, dtype=torch.bool),
        kept,
    )


def reaches_near(shortfalls: Tensor) -> bool:
    """Whether any of the shortfalls asks for a float64 product. Waits for an accelerator."""
    return bool((shortfalls < NEAR).any())


def _smallest(block: Tensor, count: int, ordered: bool) -> Tensor:
    """The ``count`` smallest of each row, the largest of them last; ``block`` is used up.

    numpy's selection is several times faster on a CPU than ``torch.topk``, which also carries
    indices along.
    """
    if block.device.type != "cpu":
        return block.topk(count, dim=1, largest=False, sorted=True).values
    array = block.numpy()

    def select(part: slice) -> None:
        array[part].partition(count - 1, axis=1)
        if ordered:
            array[part, :count].sort(axis=1)

    rows = array.shape[0]
    workers = min(torch.get_num_threads(), rows) if array.size >= THREADED_SELECTION else 1
    if workers > 1:
        step = -(-rows // workers)
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(select, [slice(i, i + step) for i in range(0, rows, step)]))
    else:
        select(slice(None))
    return block[:, :count]
