"""The streamed losses: two passes over blocks of anchors, without a matrix of all scores.

With a_i = (1 - lambda_i) / tau and b_i = lambda_i beta_i, the logits of Eq. (3.1) are, up to a
constant of the row, ``-a_i delta_ij - b_i log delta_ij``, and

    dL / ds_ij = (p_ij - 1[j = i+]) (a_i + b_i / delta_ij) / A.

The first pass, :func:`read_blocks`, reads numbers of each anchor's negatives, such as its tail. The
second, :func:`candidate_nll`, forms loss and gradient together, block by block. Its logits are
those of a :class:`BlockLink`, which gives value and derivative. ``torch.compile`` sees each pass as
one operator: it neither traces into it nor breaks the graph there. Autocast is switched off inside.

:class:`ShortfallBlocks` hands out the rows of the matrix of shortfalls 1 - s to both passes, and
:func:`scratch` lends them the memory.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .candidates import CandidateProblem
from .link import FAR

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
#: Anchors looked at before the first block, to see whether shortfalls reach near the cap.
PROBED = 16
#: Up to this many anchors, adding a matrix to its transpose costs less than a product with it.
ONE_PRODUCT = 1024

_thread = threading.local()


# The first pass: numbers of every anchor ----------------------------------------------------------

#: What reads a block, by name. It takes the shortfalls of a block of anchors, shape ``(rows, C)``,
#: infinite but for negatives, which it may overwrite; the number of negatives; whether every row
#: has so many; the rounding error of a cosine; and its own settings, words and then numbers. It
#: returns numbers of each anchor, shape ``(rows, m)``. Operators take no functions, so the compiler
#: gets the name.
READERS: dict[str, Callable[..., Tensor]] = {}


def read_blocks(
    problem: CandidateProblem,
    reader: str,
    numbers: Sequence[float],
    width: int,
    memory: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Read every anchor's negatives; keep the shortfalls for the second pass where they are few.

    Args:
        problem: anchors and candidates.
        reader: a key of :data:`READERS`, and its words after spaces.
        numbers: further settings of the reader.
        width: how many numbers of each anchor it returns, m.
        memory: budget in bytes for everything of a block's size; by default the device's.

    Returns:
        The numbers, ``(A, m)``, and the shortfalls, ``(A, C)``, or None if they exceed the budget.
    """
    size = problem.anchors.shape[0] * problem.columns * problem.dtype.itemsize
    keep = size <= working_memory(problem.anchors.device, memory)
    read: Any = _read_blocks_op if torch.compiler.is_compiling() else _read_blocks
    with torch.no_grad():
        found, kept = read(
            *(None if tensor is None else tensor.detach() for tensor in problem.tensors),
            reader,
            [float(number) for number in numbers],
            width,
            problem.negatives,
            rows_per_block(problem, memory),
            keep,
        )
    return found, kept if keep else None


def _read_blocks(
    anchors: Tensor,
    candidates: Tensor | None,
    positives: Tensor,
    own: Tensor | None,
    anchor_ids: Tensor | None,
    candidate_ids: Tensor | None,
    positive: Tensor,
    reader: str,
    numbers: list[float],
    width: int,
    negatives: int,
    rows: int,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    name, *words = reader.split()
    with torch.autocast(anchors.device.type, enabled=False):
        blocks = ShortfallBlocks(
            anchors, candidates, positives, own, anchor_ids, candidate_ids, positive, rows
        )
        kept = anchors.new_empty(blocks.shape if keep else (0, 0), dtype=blocks.dtype)
        found = [
            READERS[name](
                block, negatives, anchor_ids is None, torch.finfo(dtype).eps, *words, *numbers
            )
            for block, dtype in blocks.negatives(kept if keep else None)
        ]
    return torch.cat(found), kept


#: For the compiler, which sees one operator where eager mode calls the function itself.
_read_blocks_op = torch.library.custom_op("weince::read_blocks", _read_blocks, mutates_args=())


@_read_blocks_op.register_fake
def _(anchors: Tensor, candidates: Tensor | None, *others: Any) -> tuple[Tensor, Tensor]:
    positive, width, keep = others[4], others[7], others[-1]
    total, columns = anchors.shape[0], (anchors if candidates is None else candidates).shape[0]
    kept = positive.new_empty((total, columns) if keep else (0, 0))
    return positive.new_empty(total, width), kept


def reaches_near(shortfalls: Tensor) -> bool:
    """Whether any of the shortfalls asks for a float64 product. Waits for an accelerator."""
    return bool((shortfalls < NEAR).any())


# The second pass: loss and gradient ----------------------------------------------------------


class BlockLink:
    """Logits of a block of anchors from shortfalls, and their derivative in the cosine.

    With shortfalls delta, a and b for each anchor, and epsilon for all:

    =============  ==================================  ==================================
    given          logit                               derivative
    =============  ==================================  ==================================
    slope          -a delta                            a
    slope, power   -a delta - b log(delta)             a + b / delta
    slope, offset  -a (1 + epsilon) log(delta + eps.)  a (1 + epsilon) / (delta + eps.)
    =============  ==================================  ==================================

    Args:
        slope: a, shape ``(A,)``.
        power: b, shape ``(A,)``, or None.
        offset: epsilon, shape ``()``, or None. The blocks then hold delta + epsilon.
        floor: least value of what the logarithm is taken of; None where it is never reached.
        far: the blocks hold delta; a large epsilon's logit is ``log1p(delta / epsilon)``.
    """

    def __init__(
        self,
        slope: Tensor,
        power: Tensor | None,
        offset: Tensor | None,
        floor: float | None,
        *,
        far: bool,
    ) -> None:
        self.a = slope[:, None]
        self.b = None if power is None else power.to(slope.dtype)[:, None]
        self.floor, self.far, self.pure = floor, far, offset is not None
        if offset is not None:
            self.offset, self.stretch = offset.to(slope.dtype), (1.0 + offset).to(slope.dtype)
            self.b = self.a * self.stretch

    def write_logits(self, rows: slice, delta: Tensor, out: Tensor, inner: Tensor) -> Tensor:
        """Write the logits to ``out``; return what the derivative is taken of.

        That is in ``inner`` or, of a pure link or without a floor, in ``delta``.
        """
        if self.b is None:
            torch.mul(delta, -self.a[rows], out=out)
        elif self.far:
            torch.div(delta, self.offset, out=inner)
            torch.log1p(inner, out=out).mul_(-self.b[rows])
            inner.add_(1.0)
        else:
            # A pure link has no further use for what lies below the floor.
            inner = self._floored(delta, out=delta if self.pure else inner)
            torch.log(inner, out=out).mul_(-self.b[rows])
            if not self.pure:
                out.addcmul_(delta, self.a[rows], value=-1.0)
        return inner

    def _floored(self, delta: Tensor, out: Tensor | None = None) -> Tensor:
        return delta if self.floor is None else torch.clamp_min(delta, self.floor, out=out)

    def logit(self, rows: slice, paired: Tensor) -> Tensor:
        """The logit of one candidate of each anchor, shape ``(rows, 1)``."""
        if self.pure or self.b is None:
            return self.a[rows] * self.coordinate(paired)
        return -self.b[rows] * self._floored(paired).log() - self.a[rows] * paired

    def coordinate(self, paired: Tensor) -> Tensor:
        """What the slope multiplies, of one candidate of each anchor."""
        if not self.pure:
            return -paired
        if self.far:
            return -self.stretch * torch.log1p(paired / self.offset)
        return -self.stretch * self._floored(paired).log()

    def expected(self, p: Tensor, delta: Tensor, inner: Tensor) -> Tensor:
        """The mean of :meth:`coordinate` over each anchor's candidates."""
        if not self.pure:
            return -(p * delta).sum(1, keepdim=True)
        if self.far:
            return -self.stretch * (p * torch.log1p(delta / self.offset)).sum(1, keepdim=True)
        # Not p * log: a candidate that is left out may have 0 times infinity.
        return -self.stretch * torch.xlogy(p, inner).sum(1, keepdim=True)

    def derivative(
        self, rows: slice, p: Tensor, inner: Tensor, paired: Tensor, share: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates' probabilities times derivative, and the positive's derivative.

        Args:
            rows: the block.
            p: probabilities; overwritten.
            inner: what :meth:`write_logits` returned; overwritten.
            paired: shortfalls of the positives, shape ``(rows, 1)``.
            share: factor of each anchor.
        """
        if self.b is None:
            pull = self.a[rows] * share
            return p.mul_(pull), pull
        b = self.b[rows] * share
        if self.far:
            b = b / self.offset
            near = paired / self.offset + 1.0
        else:
            near = self._floored(paired)
        toward = torch.div(p, inner, out=inner).mul_(b)
        if self.pure:
            return toward, b / near
        pull = self.a[rows] * share
        toward.addcmul_(p, pull)
        return toward, pull + b / near


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

    The gradient is formed on the way forward; going backward only scales it. It reaches the
    anchors, the candidates and ``slope``, not ``power``. There is no second derivative.

    Args:
        problem: anchors and candidates.
        slope: a_i, the slope of the logits in the cosine, shape ``(A,)``.
        power: b_i, the weight of ``-log`` shortfall, shape ``(A,)``; None is InfoNCE.
        floor: least shortfall.
        rho: each anchor's smallest negative shortfall, shape ``(A,)``, which says where float32
            products will not do. Needed with ``power`` unless ``shortfalls`` is given.
        shortfalls: what :func:`read_blocks` kept, if anything.
        memory: budget in bytes, as for :func:`read_blocks`.
        offset: epsilon >= 0, how far beyond cosine 1 the endpoint lies; see :class:`BlockLink`. A
            tensor, shape ``()``, must not exceed :data:`~weince_lib.losses.link.FAR`. None: no
            endpoint but that of ``power``.
        decoupled: leave the positive out of the denominator; an anchor without negatives then has
            loss 0.
        weight: of each anchor in the mean, shape ``(A,)``; None is 1.

    Returns:
        Scalar, in nats per anchor.
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
                    if not look:  # an accelerator takes products near the cap unasked
                        exact = rho is not None and (not in_place or reaches_near(rho[block]))
                    blocks.fill(block, delta, exact=exact)
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


class _Gradient:
    """Sums the blocks' part of the gradient in the embeddings, if it is wanted.

    ``differentiable`` candidates, the leading ones, have a gradient; 0 if they are the anchors.
    """

    def __init__(self, blocks: ShortfallBlocks, differentiable: int, *, wanted: bool) -> None:
        self.anchors, self.candidates = blocks.anchors, blocks.candidates
        self.same = blocks.candidates is blocks.anchors
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
    """Rows of the matrix of shortfalls 1 - s between the unit vectors of a candidate problem.

    Products are taken in float32 where that is enough and in float64 where it is not: near the
    cap, and wherever float32 products would be rounded to TF32 or bfloat16. Blocks of ``rows``
    anchors have the dtype of ``positive``. With an ``offset``, shape ``()``, they hold distances
    from an endpoint that lies so far beyond cosine 1.
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
        self.shape = (self.anchors.shape[0], self.candidates.shape[0])
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

    def negatives(self, kept: Tensor | None) -> Iterator[tuple[Tensor, torch.dtype]]:
        """Each block's shortfalls, and the dtype of the product they come from.

        All but negatives is at infinity. The shortfalls are in memory that is used again; those of
        all columns go to ``kept`` if it is given.
        """

        def fill(block: slice, out: Tensor, *, exact: bool, keep: Tensor | None) -> Tensor:
            self.fill(block, out if keep is None else keep[block], exact=exact)
            if keep is not None:
                out.copy_(keep[block])
            self.leave_out(block, out, torch.inf)
            return out.scatter_(1, self.positives[block], torch.inf)

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
                yield work, torch.float64 if exact else self.dtype

    def leave_out(self, rows: slice, block: Tensor, value: float) -> Tensor:
        """Set what is no candidate of ``rows`` to ``value`` in ``block``."""
        if self.own is not None:
            block.scatter_(1, self.own[rows], value)
        if self.anchor_ids is not None and self.candidate_ids is not None:
            same = self.anchor_ids[rows, None] == self.candidate_ids
            block.masked_fill_(same.scatter_(1, self.positives[rows], value=False), value)
        return block


def rows_per_block(problem: CandidateProblem, memory: int | None = None) -> int:
    """Number of anchors whose block's buffers fit the budget, evened out over the blocks."""
    anchors, device = problem.anchors.shape[0], problem.anchors.device
    row = problem.columns * problem.dtype.itemsize
    most = working_memory(device, memory) // (BUFFERS * row)
    if device.type == "cpu":
        most = min(most, CPU_ROWS)
    blocks = -(-anchors // max(1, most))
    return -(-anchors // blocks)


def working_memory(device: torch.device, memory: int | None = None) -> int:
    """The memory budget in bytes: the caller's, or the device's default."""
    if memory is None:
        return CPU_MEMORY if device.type == "cpu" else ACCELERATOR_MEMORY
    return memory


def float32_products_are_rounded() -> bool:
    """Whether the user lets matrix products of float32 run in TF32 or bfloat16."""
    backends = (torch.backends.cuda, torch.backends.mkldnn)
    return any(backend.matmul.fp32_precision not in ("none", "ieee") for backend in backends)


@contextmanager
def scratch(count: int, shape: tuple[int, int], like: Tensor) -> Iterator[list[Tensor]]:
    """Lend ``count`` matrices of unknown content, of the dtype and device of ``like``.

    They must not be used or returned afterwards. An allocator gives a few megabytes back to the
    system after every call and gets them anew, page by page, at the next. At N = 256 this costs
    more than the matrix products. So on a CPU each thread keeps what it used last, at most
    :data:`KEPT` bytes.
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
