"""The streamed losses: two passes over blocks of anchors, without a matrix of all scores.

With a_i = (1 - lambda_i) / tau and b_i = lambda_i beta_i, the logits of Eq. (3.1) are, up to a
constant of the row, ``-a_i delta_ij - b_i log delta_ij``, and

    dL / ds_ij = (p_ij - 1[j = i+]) (a_i + b_i / delta_ij) / A.

The first pass, :func:`read_tails`, reads each anchor's tail. The second, :func:`candidate_nll`,
forms loss and gradient together, block by block. Its logits are those of a link
(:class:`~weince_lib.losses.link.BlockLink`), which gives value and derivative: the one above, or an
endpoint beyond cosine 1. ``torch.compile`` sees each pass as one operator: it neither traces into
it nor breaks the graph there. Autocast is switched off inside. Between the passes only the batch's
rho_0 is needed, so several processes can share a batch.

:class:`ShortfallBlocks` hands out the rows of the matrix of shortfalls 1 - s to both passes, and
:func:`scratch` lends them the memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .arguments import check_memory
from .candidates import CandidateProblem
from .evidence import TailReading, TailSettings, fit_tail
from .link import FAR, BlockLink

#: A float32 product of unit vectors is off by up to about 5e-7 and typically by 2e-8; from this
#: shortfall on, that is no more than about 1e-6 of it. A block that reaches below is taken in
#: float64.
NEAR = 0.1
#: Working memory in bytes when the caller gives none. On a CPU, what a last-level cache may hold.
CPU_MEMORY = 32 * 2**20
#: Most rows of a block on a CPU. More make the products no faster and the memory slower to reach.
CPU_ROWS = 512
ACCELERATOR_MEMORY = 512 * 2**20
#: Matrices of one block's size alive at a time.
BUFFERS = 4
#: Bytes of scratch memory that a thread keeps between calls. Three buffers of N = 1,024 (512 rows
#: against 2,048 columns in float32) fit; a larger problem takes so long that getting memory costs
#: little beside it.
KEPT = 16 * 2**20
#: Below this many numbers a second thread costs more than it saves.
THREADED_SELECTION = 2**20
#: Anchors looked at before the first block, to see whether shortfalls reach near the cap.
PROBED = 16
#: Up to this many anchors, adding a matrix to its transpose costs less than a product with it.
ONE_PRODUCT = 1024

_thread = threading.local()


# The first pass: every anchor's tail ---------------------------------------------------------


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
    size = problem.anchors.shape[0] * problem.columns * problem.dtype.itemsize
    keep = size <= working_memory(problem.anchors.device, memory)
    with torch.no_grad():
        read: Any = _read_tails_op if torch.compiler.is_compiling() else _read_tails
        rho, beta, delta_aic, usable, kept = read(
            *(None if tensor is None else tensor.detach() for tensor in problem.tensors),
            settings.tail_size(problem.negatives),
            problem.negatives,
            settings.tail_index,
            settings.evidence,
            settings.floor,
            rows_per_block(problem, memory),
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
    settings = TailSettings(tail_index=tail_index, evidence=evidence, floor=floor)
    with torch.autocast(anchors.device.type, enabled=False):
        blocks = ShortfallBlocks(
            anchors, candidates, positives, own, anchor_ids, candidate_ids, positive, rows
        )
        kept = blocks.kept(keep)
        readings = []
        for _, work, dtype in blocks.negatives(kept):
            tail = smallest(work, min(k + 1, negatives), settings.needs_order)
            reading = fit_tail(tail.clamp_min(floor), k, settings, torch.finfo(dtype).eps)
            readings.append((reading.rho, reading.beta, reading.delta_aic, reading.usable))
        rho, beta, delta_aic, usable = (torch.cat(parts) for parts in zip(*readings, strict=True))
    return rho, beta, delta_aic, usable, rho.new_empty(0, 0) if kept is None else kept


#: For the compiler, which sees one operator where eager mode calls the function itself.
_read_tails_op = torch.library.custom_op("weince::read_tails", _read_tails, mutates_args=())


@_read_tails_op.register_fake
def _(anchors: Tensor, candidates: Tensor | None, *others: Any) -> tuple[Tensor, ...]:
    positive, keep = others[4], others[-1]
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


def smallest(block: Tensor, count: int, ordered: bool) -> Tensor:
    """The ``count`` smallest of each row, the largest of them last; overwrites ``block``.

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


# The second pass: loss and gradient ----------------------------------------------------------


def candidate_nll(
    problem: CandidateProblem,
    slope: Tensor,
    power: Tensor | None = None,
    *,
    floor: float = 1e-6,
    rho: Tensor | None = None,
    shortfalls: Tensor | None = None,
    memory: int | None = None,
    offset: float | Tensor | None = None,
    decoupled: bool = False,
    weight: Tensor | None = None,
) -> Tensor:
    """Mean negative log-likelihood of the positives, with its gradient in closed form.

    The gradient is formed on the way forward, while a block's probabilities are at hand; going
    backward only scales it. It reaches the anchors, the candidates and ``slope`` (so a learnable
    temperature gets its own), not ``power``. There is no second derivative.

    Args:
        problem: anchors and candidates.
        slope: a_i, the slope of the logits in the cosine, shape ``(A,)``.
        power: b_i, the weight of ``-log`` shortfall, shape ``(A,)``; None is InfoNCE.
        floor: least shortfall.
        rho: each anchor's smallest negative shortfall, shape ``(A,)``, which says where float32
            products will not do. Needed with ``power`` unless ``shortfalls`` is given.
        shortfalls: what :func:`read_tails` kept, if anything.
        memory: budget in bytes, as for :func:`read_tails`.
        offset: epsilon >= 0, how far beyond cosine 1 the logits' endpoint lies: the logits are then
            ``-a_i (1 + epsilon) log(delta_ij + epsilon)``. A tensor, shape ``()``, must not exceed
            :data:`~weince_lib.losses.link.FAR`. None: no endpoint but that of ``power``.
        decoupled: leave the positive out of the denominator. An anchor that has no negatives then
            has loss 0.
        weight: of each anchor in the mean, shape ``(A,)``; None is 1.

    Returns:
        Scalar, in nats per anchor.

    Raises:
        RuntimeError: in the backward pass of a backward pass.
    """
    candidates = problem.candidates
    grad = torch.is_grad_enabled()
    differentiable = problem.differentiable
    if differentiable is None:
        differentiable = problem.columns
    if candidates is not None and not candidates.requires_grad:
        differentiable = 0
    embeddings = problem.anchors.requires_grad or differentiable > 0
    # Where the endpoint is far, float32 products are exact enough without a look.
    near = offset is not None and shortfalls is None
    far = False
    if isinstance(offset, float):
        near, far = near and offset < NEAR, offset > FAR
        offset = torch.full((), offset, dtype=problem.anchors.dtype, device=problem.anchors.device)
    compiling = torch.compiler.is_compiling()
    nll = _candidate_nll_op if compiling else _CandidateNLL.apply
    loss, *_ = nll(
        *problem.tensors,
        slope,
        power,
        rho,
        shortfalls,
        offset,
        weight,
        floor,
        rows_per_block(problem, memory),
        near,
        far,
        decoupled,
        differentiable if candidates is not None else 0,
        grad and embeddings,
        grad and slope.requires_grad,
    )
    return loss


def _candidate_nll(
    anchors: Tensor,
    candidates: Tensor | None,
    positives: Tensor,
    own: Tensor | None,
    anchor_ids: Tensor | None,
    candidate_ids: Tensor | None,
    positive: Tensor,
    slope: Tensor,
    power: Tensor | None,
    rho: Tensor | None,
    shortfalls: Tensor | None,
    offset: Tensor | None,
    weight: Tensor | None,
    floor: float,
    rows: int,
    look: bool,
    far: bool,
    decoupled: bool,
    differentiable: int,
    embeddings_grad: bool,
    slope_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = positive.dtype
    with torch.autocast(anchors.device.type, enabled=False):
        # The far link takes the shortfalls, and divides them by the offset.
        beyond = None if far else offset
        blocks = ShortfallBlocks(
            anchors, candidates, positives, own, anchor_ids, candidate_ids, positive, rows, beyond
        )
        # Beyond a distant endpoint no shortfall comes near the floor.
        least = floor if offset is None or look else None
        link = BlockLink(slope.to(dtype), power, offset, least, far=far)
        losses = positive.new_empty(positive.shape[0], 1)
        gradient = _Gradient(blocks, differentiable, wanted=embeddings_grad)
        to_slope = torch.empty_like(losses) if slope_grad else losses.new_empty(0, 1)
        # A CPU's softmax reads a row before it writes it, so it may work in place.
        in_place = anchors.device.type == "cpu"
        exact = blocks.always_exact or not in_place
        near = losses.new_full((1, 1), NEAR)
        room = (rows, blocks.candidates.shape[0])
        with scratch(3 if in_place else 4, room, blocks.anchors) as buffers:
            for block in blocks:
                count = block.stop - block.start
                delta, logits, inner, *more = (buffer[:count] for buffer in buffers)
                if shortfalls is not None:
                    delta = shortfalls[block]
                    if beyond is not None:
                        delta = torch.add(delta, beyond.to(dtype), out=buffers[0][:count])
                else:
                    asked = exact if look else _near(blocks, block, rho)
                    blocks.fill(block, delta, exact=asked)
                paired = blocks.positive[block]
                inner = link.write_logits(block, delta, logits, inner)
                target = link.logit(block, paired)
                blocks.leave_out(block, logits, -torch.inf)
                if decoupled or look:
                    logits.scatter_(1, blocks.positives[block], -torch.inf)
                highest = logits.amax(1, keepdim=True)
                if look and not exact and bool((highest > link.logit(block, near)).any()):
                    exact = True  # a negative is near, and so, most likely, in the blocks to come
                    blocks.fill(block, delta, exact=True)
                    inner = link.write_logits(block, delta, logits, inner)
                    blocks.leave_out(block, logits, -torch.inf)
                    logits.scatter_(1, blocks.positives[block], -torch.inf)
                    highest = logits.amax(1, keepdim=True)
                if look and not decoupled:
                    logits.scatter_(1, blocks.positives[block], target)
                    highest = torch.maximum(highest, target)
                share: float | Tensor = 1.0 / losses.shape[0]
                if weight is not None:
                    share = share * weight.to(dtype)[block, None]
                if decoupled and anchor_ids is not None:
                    # Without negatives an anchor has no loss, and sends no gradient.
                    alone = torch.isneginf(highest)
                    logits.masked_fill_(alone, 0.0)
                    share = share * (~alone).to(dtype)
                p = torch.softmax(logits, dim=1, out=logits if in_place else more[0])
                # log sum exp from the likeliest candidate, whose probability is at least 1 / C.
                losses[block] = highest - p.amax(1, keepdim=True).log() - target
                if slope_grad:
                    expected = link.expected(p, delta, inner)
                    torch.sub(expected, link.coordinate(paired), out=to_slope[block])
                if isinstance(share, Tensor):
                    scale = share * losses.shape[0]
                    losses[block] = torch.where(scale == 0, 0.0, losses[block] * scale)
                    if slope_grad:
                        to_slope[block] = torch.where(scale == 0, 0.0, to_slope[block] * scale)
                if embeddings_grad:
                    toward, pull = link.derivative(block, p, inner, paired, share)
                    toward.scatter_add_(1, blocks.positives[block], -pull)
                    gradient.add(block, toward, spare=inner if toward is p else logits)
        return (
            losses.mean(),
            gradient.to_anchors,
            gradient.to_candidates,
            to_slope.mul_(1.0 / losses.shape[0])[:, 0].to(slope.dtype),
        )


def _near(blocks: ShortfallBlocks, block: slice, rho: Tensor | None) -> bool:
    """Whether the block's shortfalls must be exact; an accelerator takes them so unasked."""
    if rho is None:
        return False
    return rho.device.type != "cpu" or reaches_near(rho[block])


class _Gradient:
    """Sums the blocks' part of the gradient in the embeddings.

    Args:
        blocks: anchors and candidates.
        differentiable: number of leading candidates with a gradient; 0 if they are the anchors.
        wanted: whether there is a gradient at all.
    """

    def __init__(self, blocks: ShortfallBlocks, differentiable: int, *, wanted: bool) -> None:
        self.anchors, self.candidates = blocks.anchors, blocks.candidates
        self.same, self.wanted = blocks.candidates is blocks.anchors, wanted
        new = self.anchors.new_zeros
        width = self.anchors.shape[1]
        self.to_anchors = new((self.anchors.shape[0] if wanted else 0), width)
        self.to_candidates = new((differentiable if wanted else 0), width)

    def add(self, block: slice, toward: Tensor, spare: Tensor) -> None:
        """Add ``toward @ candidates`` and its counterpart; ``spare`` may be overwritten."""
        if self.same and toward.shape[0] == toward.shape[1] <= ONE_PRODUCT:
            # The whole problem in one block: one product for both sides.
            spare.copy_(toward.T).add_(toward)
            torch.mm(spare, self.candidates, out=self.to_anchors)
            return
        self.to_anchors[block].addmm_(toward, self.candidates)
        if self.same:
            self.to_anchors.addmm_(toward.T, self.anchors[block])
        elif self.to_candidates.shape[0]:
            leading = toward[:, : self.to_candidates.shape[0]]
            self.to_candidates.addmm_(leading.T, self.anchors[block])


#: For the compiler, which sees one operator where eager mode calls the function itself.
_candidate_nll_op = torch.library.custom_op(
    "weince::candidate_nll", _candidate_nll, mutates_args=()
)


@_candidate_nll_op.register_fake
def _(anchors: Tensor, candidates: Tensor | None, *others: Any) -> tuple[Tensor, ...]:
    positive, slope = others[4:6]
    differentiable, embeddings_grad, slope_grad = others[-3:]
    total, width = anchors.shape
    return (
        positive.new_empty(()),
        positive.new_empty(total if embeddings_grad else 0, width),
        positive.new_empty(differentiable if embeddings_grad else 0, width),
        slope.new_empty(total if slope_grad else 0),
    )


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*output[1:])
    ctx.columns = None if inputs[1] is None else inputs[1].shape[0]
    ctx.dtype = inputs[0].dtype


def _backward(ctx: Any, grad: Tensor | None, *twice: Tensor | None) -> tuple[Tensor | None, ...]:
    if any(other is not None for other in twice):
        raise RuntimeError(
            "the streaming losses have no second derivative; use impl='reference' for one"
        )
    to_anchors, to_candidates, to_slope = ctx.saved_tensors
    anchors = candidates = slope = None
    if grad is not None:
        if to_anchors.shape[0]:
            anchors = (to_anchors * grad).to(ctx.dtype)
        if to_candidates.shape[0]:
            candidates = (to_candidates * grad).to(ctx.dtype)
            if (rest := ctx.columns - candidates.shape[0]) > 0:
                candidates = torch.cat(
                    [candidates, candidates.new_zeros(rest, candidates.shape[1])]
                )
        if to_slope.shape[0]:
            slope = to_slope * grad
    return anchors, candidates, *(None,) * 5, slope, *(None,) * 13


_candidate_nll_op.register_autograd(_backward, setup_context=_setup_context)


class _CandidateNLL(torch.autograd.Function):
    """The same without the compiler's operator, whose dispatch costs half a millisecond a call."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        """Return what the operator returns."""
        # Not a ``setup_context`` of its own: binding its arguments takes as long as a pass.
        output = _candidate_nll(*inputs)
        _setup_context(ctx, inputs, output)
        return output

    backward = staticmethod(_backward)


# What both passes stand on: blocks of shortfalls, and memory for them ---------------------------


class ShortfallBlocks:
    """Rows of the matrix of shortfalls 1 - s between unit vectors.

    Products are taken in float32 where that is enough and in float64 where it is not: near the
    cap, and wherever float32 products would be rounded to TF32 or bfloat16.

    The tensors are those of a :class:`CandidateProblem`; ``rows`` is the number of anchors to a
    block. Blocks have the dtype of ``positive``. With an ``offset``, shape ``()``, they hold
    distances from an endpoint that lies so far beyond cosine 1, in place of shortfalls.
    """

    def __init__(
        self,
        anchors: Tensor,
        candidates: Tensor | None,
        positives: Tensor,
        own: Tensor | None,
        anchor_ids: Tensor | None,
        candidate_ids: Tensor | None,
        positive: Tensor,
        rows: int,
        offset: Tensor | None = None,
    ) -> None:
        dtype = positive.dtype
        self.exact_anchors = anchors.detach()
        self.exact_candidates = (anchors if candidates is None else candidates).detach()
        self.anchors = self.exact_anchors.to(dtype)
        self.candidates = self.anchors if candidates is None else self.exact_candidates.to(dtype)
        self.positives, self.own = positives[:, None], None if own is None else own[:, None]
        self.anchor_ids, self.candidate_ids = anchor_ids, candidate_ids
        self.dtype, self.rows = dtype, rows
        self.one = torch.ones((), dtype=dtype)  # stays on the CPU, like a Python number
        self.exact_one = self.exact_anchors.new_ones(1)
        self.positive = positive[:, None]
        if offset is not None:
            self.exact_one = self.exact_one + offset
            self.one = self.exact_one[0].to(dtype)
            self.positive = self.positive + offset.to(dtype)
        self.always_exact = dtype == torch.float64 or float32_products_are_rounded()

    def __iter__(self) -> Iterator[slice]:
        """The row ranges, in order."""
        total = self.anchors.shape[0]
        return (slice(i, min(i + self.rows, total)) for i in range(0, total, self.rows))

    def fill(self, rows: slice, out: Tensor, *, exact: bool = False) -> Tensor:
        """Write the shortfalls of ``rows`` to ``out``, shape ``(rows, C)``, of all columns."""
        if exact or self.always_exact:
            with scratch(1, (out.shape[0], out.shape[1]), self.exact_anchors) as (wide,):
                others = self.exact_candidates.T
                torch.addmm(self.exact_one, self.exact_anchors[rows], others, alpha=-1, out=wide)
                out.copy_(wide)
        else:
            torch.mm(self.anchors[rows], self.candidates.T, out=out)
            torch.sub(self.one, out, out=out)
        return out.scatter_(1, self.positives[rows], self.positive[rows])

    def _only_negatives(self, rows: slice, out: Tensor) -> Tensor:
        """Set all but negatives to infinity."""
        self.leave_out(rows, out, torch.inf)
        return out.scatter_(1, self.positives[rows], torch.inf)

    def kept(self, keep: bool) -> Tensor | None:
        """Room for all shortfalls, shape ``(A, C)``, or None."""
        shape = (self.anchors.shape[0], self.candidates.shape[0])
        return self.anchors.new_empty(shape) if keep else None

    def negatives(self, kept: Tensor | None) -> Iterator[tuple[slice, Tensor, torch.dtype]]:
        """Each block's rows, its shortfalls, and the dtype of the product they come from.

        All but negatives is at infinity. The shortfalls are in memory that is used again; those of
        all columns go to ``kept`` if it is given.
        """

        def fill(block: slice, out: Tensor, *, exact: bool, keep: Tensor | None) -> Tensor:
            self.fill(block, out if keep is None else keep[block], exact=exact)
            if keep is not None:
                out.copy_(keep[block])
            return self._only_negatives(block, out)

        with scratch(1, (self.rows, self.candidates.shape[0]), self.anchors) as (buffer,):
            # On a CPU, reading a value is free. On an accelerator it would wait for the device, so
            # all products are exact there.
            exact = self.anchors.device.type != "cpu" or self.always_exact
            if not exact:  # a few rows often tell, and spare a product of all
                few = slice(0, min(self.rows, PROBED))
                exact = reaches_near(fill(few, buffer[few], exact=False, keep=None).amin())
            for block in self:
                work = buffer[: block.stop - block.start]
                fill(block, work, exact=exact, keep=kept)
                if not exact:
                    exact = reaches_near(work.amin())
                    if exact:  # and so, most likely, do the blocks to come
                        fill(block, work, exact=True, keep=kept)
                yield block, work, torch.float64 if exact else self.dtype

    def leave_out(self, rows: slice, block: Tensor, value: float) -> Tensor:
        """Set what is no candidate of ``rows`` to ``value`` in ``block``."""
        if self.own is not None:
            block.scatter_(1, self.own[rows], value)
        if self.anchor_ids is not None and self.candidate_ids is not None:
            same = self.anchor_ids[rows, None] == self.candidate_ids
            block.masked_fill_(same.scatter_(1, self.positives[rows], value=False), value)
        return block


def rows_per_block(problem: CandidateProblem, memory: int | None = None) -> int:
    """Number of anchors whose block's buffers fit the budget, evened out over the blocks.

    Raises:
        ValueError: if ``memory`` is not positive.
    """
    anchors, device = problem.anchors.shape[0], problem.anchors.device
    row = problem.columns * problem.dtype.itemsize
    most = working_memory(device, memory) // (BUFFERS * row)
    if device.type == "cpu":
        most = min(most, CPU_ROWS)
    blocks = -(-anchors // max(1, most))
    return -(-anchors // blocks)


def working_memory(device: torch.device, memory: int | None = None) -> int:
    """The memory budget in bytes: the caller's, or the device's default."""
    check_memory(memory)
    if memory is None:
        return CPU_MEMORY if device.type == "cpu" else ACCELERATOR_MEMORY
    return memory


def float32_products_are_rounded() -> bool:
    """Whether the user lets matrix products of float32 run in TF32 or bfloat16."""
    backends = (torch.backends.cuda, torch.backends.mkldnn)
    return any(backend.matmul.fp32_precision not in ("none", "ieee") for backend in backends)


@contextmanager
def scratch(count: int, shape: tuple[int, int], like: Tensor) -> Iterator[list[Tensor]]:
    """Lend ``count`` matrices of unknown content; they must not be used or returned afterwards.

    An allocator gives a few megabytes back to the system after every call and gets them anew, page
    by page, at the next. At N = 256 this costs more than the matrix products. So on a CPU each
    thread keeps what it used last, at most :data:`KEPT` bytes.

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
