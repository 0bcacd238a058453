"""The streaming implementation: row blocks, closed-form gradient, no matrix of all scores.

With a_i = (1 - lambda_i) / tau and b_i = lambda_i beta_i, the logits of Eq. (3.1) are, up to a
constant of the row, ``-a_i delta_ij - b_i log delta_ij``, and

    dL / ds_ij = (p_ij - 1[j = i+]) (a_i + b_i / delta_ij) / A.

Two passes over blocks of anchors: :func:`~weince_lib.losses.tail_pass.read_tails` reads each
anchor's tail, then :func:`candidate_nll` forms loss and gradient together, so that nothing of a
block outlives it. Both are single operators to ``torch.compile``, which neither traces into them
nor breaks at them, and to autocast, which does not reach inside. Between the two stands only the
batch's rho_0, so several processes can share it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .blocks import CandidateProblem, ShortfallBlocks
from .tail_pass import reaches_near
from .workspace import scratch

#: Up to this many anchors, adding a matrix to its transpose costs less than a product with it.
ONE_PRODUCT = 1024


def candidate_nll(
    problem: CandidateProblem,
    slope: Tensor,
    power: Tensor | None = None,
    *,
    floor: float = 1e-6,
    rho: Tensor | None = None,
    shortfalls: Tensor | None = None,
    memory: int | None = None,
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
        shortfalls: what ``read_tails`` kept, if anything.
        memory: budget in bytes, as for ``read_tails``.

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
    compiling = torch.compiler.is_compiling()
    nll = _candidate_nll_op if compiling else _CandidateNLL.apply
    loss, *_ = nll(
        problem.anchors,
        candidates,
        problem.positives,
        problem.own,
        problem.anchor_ids,
        problem.candidate_ids,
        problem.positive,
        slope,
        power,
        rho,
        shortfalls,
        floor,
        problem.rows_per_block(memory),
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
    floor: float,
    rows: int,
    differentiable: int,
    embeddings_grad: bool,
    slope_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = positive.dtype
    with torch.autocast(anchors.device.type, enabled=False):
        blocks = ShortfallBlocks(
            anchors, candidates, positives, own, anchor_ids, candidate_ids, positive, rows
        )
        a = slope.to(dtype)[:, None]
        b = None if power is None else power.to(dtype)[:, None]
        losses = torch.empty_like(a)
        gradient = _Gradient(blocks, differentiable, wanted=embeddings_grad)
        to_slope = torch.empty_like(a) if slope_grad else a.new_empty(0, 1)
        # A CPU's softmax reads a row before it writes it, so it may work in place.
        in_place = anchors.device.type == "cpu"
        room = (rows, blocks.candidates.shape[0])
        with scratch(3 if in_place else 4, room, blocks.anchors) as buffers:
            for block in blocks:
                count = block.stop - block.start
                delta, logits, floored, *more = (buffer[:count] for buffer in buffers)
                if shortfalls is None:
                    blocks.fill(block, delta, exact=_near(blocks, block, rho))
                else:
                    delta = shortfalls[block]
                paired = blocks.positive[block]
                if b is None:
                    torch.mul(delta, -a[block], out=logits)
                    target = -a[block] * paired
                else:
                    torch.clamp_min(delta, floor, out=floored)
                    torch.log(floored, out=logits).mul_(-b[block])
                    logits.addcmul_(delta, a[block], value=-1.0)
                    near = paired.clamp_min(floor)
                    target = -b[block] * near.log() - a[block] * paired
                blocks.leave_out(block, logits, -torch.inf)
                highest = logits.amax(1, keepdim=True)
                p = torch.softmax(logits, dim=1, out=logits if in_place else more[0])
                # log sum exp from the likeliest candidate, whose probability is at least 1 / C.
                losses[block] = highest - p.amax(1, keepdim=True).log() - target
                if slope_grad:
                    expected = (p * delta).sum(1, keepdim=True)
                    torch.sub(paired, expected, out=to_slope[block])
                if embeddings_grad:
                    share = 1.0 / losses.shape[0]
                    weight = a[block] * share
                    if b is None:
                        toward = p.mul_(weight)
                    else:
                        toward = torch.div(p, floored, out=floored).mul_(b[block] * share)
                        toward.addcmul_(p, weight)
                        weight = weight + b[block] * share / near
                    toward.scatter_add_(1, blocks.positives[block], -weight)
                    gradient.add(block, toward, spare=floored if b is None else logits)
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
def _(
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
    floor: float,
    rows: int,
    differentiable: int,
    embeddings_grad: bool,
    slope_grad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
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
    return anchors, candidates, *(None,) * 5, slope, *(None,) * 8


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
