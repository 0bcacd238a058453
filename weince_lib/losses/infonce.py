"""InfoNCE (NT-Xent), the top-1 Plackett-Luce likelihood of paper section 2.1.

L_i = -log( exp(s_ii+ / tau) / sum_{j in C(i)} exp(s_ij / tau) ), averaged over the anchors.

van den Oord et al. (2018), arXiv:1807.03748; in the two-view form of SimCLR, arXiv:2002.05709, over
all 2N views but the anchor; in the bipartite form of CLIP, arXiv:2103.00020, queries against keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import check_memory
from .candidates import CandidateSet, candidate_problems
from .module import ContrastiveLoss
from .negative_queue import NegativeQueue
from .reference import cosines, masked_cross_entropy
from .similarity import Implementation, logit_slope, loss_dtype, resolve_impl
from .streaming import candidate_nll


def infonce_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float = 0.5,
    *,
    candidates: CandidateSet = "two-view",
    symmetric: bool = True,
    ids: Tensor | None = None,
    negatives: Tensor | None = None,
    queue: NegativeQueue | None = None,
    logit_scale: Tensor | None = None,
    gather_distributed: bool = False,
    validate: bool = True,
    impl: Implementation = "auto",
    memory_budget: int | None = None,
) -> Tensor:
    """InfoNCE of one batch of pairs.

    Args:
        z0: first views, or queries, shape ``(N, d)``; rows need not be normalised.
        z1: second views, or keys, same shape. Row ``k`` of both is the same item.
        temperature: tau. 0.5 is SimCLR's choice for batches of 256 and the paper's for images;
            sentence encoders use 0.05.
        candidates: ``"two-view"``, each view against the 2N - 1 others, or ``"bipartite"``, each
            query against the N keys.
        symmetric: of the bipartite set, whether each key is also scored against the N queries
            (CLIP; the mean of both directions) or not (SimCSE).
        ids: identity of each pair, integer, shape ``(N,)``: candidates of an anchor's own identity,
            duplicates in the batch or the queue, are no negatives of it.
        negatives: further candidates of every anchor (hard negatives, say), shape ``(K, d)``, with
            gradient; not for the symmetric bipartite set.
        queue: past embeddings as further candidates, without gradient; read here and not written.
            Not for the symmetric bipartite set.
        logit_scale: 1 / tau as a tensor of one element, learnable, in place of ``temperature``. No
            upper bound is applied: clamp the parameter in the training loop, as CLIP does at 100.
        gather_distributed: take the candidates of all ranks. The loss is then the mean over this
            rank's anchors; see :mod:`weince_lib.losses.distributed` for what that means for
            gradients.
        validate: look for zero and non-finite rows (CPU only, where it is free). Without it a zero
            row (one whose norm is below 1e-12) has cosine 0 with everything and takes no gradient,
            so that two views that are all zero have the loss ln(2N - 1) of a blind guess. Also
            compare the ranks' batches before gathering them, which on an accelerator waits for the
            answer; without it unequal batches may hang.
        impl: ``"reference"`` is the equation in plain operations, in float64 and with the whole
            score matrix; ``"streaming"`` the same to rounding, in blocks of anchors and with the
            gradient in closed form; ``"auto"`` is streaming.
        memory_budget: bytes the streaming implementation may use for blocks of scores; by default
            32 MiB on a CPU (a last-level cache) and 512 MiB on an accelerator.

    Returns:
        Scalar loss in nats per anchor, float32 (float64 for float64 input).

    Raises:
        ValueError: for shapes that differ, no negatives, a temperature or a budget that is not
            positive, an unknown option, rows that are zero or not finite, ``ids`` of the wrong
            length, and batches that differ between ranks.
        RuntimeError: for ``gather_distributed`` without a process group.
    """
    scale = logit_slope(temperature, logit_scale, z0, validate=validate)
    check_memory(memory_budget)
    reference = resolve_impl(impl) == "reference"
    problems = candidate_problems(
        z0,
        z1,
        candidates=candidates,
        symmetric=symmetric,
        ids=ids,
        negatives=negatives,
        queue=queue,
        gather_distributed=gather_distributed,
        validate=validate,
        twice_differentiable=reference,
    )
    losses = []
    for problem in problems:
        if reference:
            scores, counts = cosines(problem)
            losses.append(masked_cross_entropy(scores * scale, counts, problem.positives))
        else:
            slope = scale.to(problem.dtype).expand(problem.positives.shape)
            losses.append(candidate_nll(problem, slope, memory=memory_budget))
    return mean_of(losses).to(loss_dtype(z0))


def mean_of(losses: list[Tensor]) -> Tensor:
    """The mean of scalars; problems of one batch have equally many anchors."""
    return losses[0] if len(losses) == 1 else torch.stack(losses).mean()


class InfoNCELoss(ContrastiveLoss):
    """Module form of :func:`infonce_loss`: ``InfoNCELoss(temperature=0.5)(z0, z1)``.

    Its keywords are those of the function; ``ids``, ``negatives`` and ``logit_scale`` belong to the
    call. With a ``queue``, each training step ends with ``z1`` going into it.
    """

    def forward(
        self,
        z0: Tensor,
        z1: Tensor,
        *,
        ids: Tensor | None = None,
        negatives: Tensor | None = None,
        logit_scale: Tensor | None = None,
    ) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches of embeddings."""
        loss = infonce_loss(
            z0,
            z1,
            self.temperature,
            ids=ids,
            negatives=negatives,
            logit_scale=logit_scale,
            **self.options(),
        )
        self.enqueue(z1, ids)
        return loss
