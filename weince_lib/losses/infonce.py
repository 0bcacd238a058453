"""InfoNCE (NT-Xent), the top-1 Plackett-Luce likelihood of paper section 2.1.

L_i = -log( exp(s_ii+ / tau) / sum_{j in C(i)} exp(s_ij / tau) ), averaged over the anchors.

van den Oord et al. (2018), arXiv:1807.03748; in the two-view form of SimCLR, arXiv:2002.05709, over
all 2N views but the anchor; in the bipartite form of CLIP, arXiv:2103.00020, queries against keys.

Here are also what all losses of embeddings share: their keywords, the base of their modules, and
:func:`batch_loss`, which makes candidate problems of a batch and hands them to the passes.
"""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from torch import Tensor, nn

from .arguments import (
    CandidateSet,
    Implementation,
    check_candidate_set,
    check_flag,
    check_impl,
    check_memory,
    check_temperature,
    logit_slope,
    loss_dtype,
    may_look,
)
from .candidates import Batch
from .evidence import TailEvidence, TailSettings
from .link import EndpointLink
from .monitor import look_for_duplicates
from .passes import problem_loss
from .queue import NegativeQueue


class LossOptions(TypedDict, total=False):
    """Keywords of every loss of embeddings; see :func:`weince_lib.losses.infonce_loss`."""

    candidates: CandidateSet
    symmetric: bool
    queue: NegativeQueue | None
    gather_distributed: bool
    validate: bool
    impl: Implementation
    memory_budget: int | None


class CallOptions(LossOptions, total=False):
    """The same with what belongs to one batch."""

    ids: Tensor | None
    negatives: Tensor | None
    logit_scale: Tensor | None


def infonce_loss(
    z0: Tensor, z1: Tensor, temperature: float = 0.5, **options: Unpack[CallOptions]
) -> Tensor:
    """InfoNCE of one batch of pairs.

    Args:
        z0: first views, or queries, shape ``(N, d)``; rows need not be normalised.
        z1: second views, or keys, same shape. Row ``k`` of both is the same item.
        temperature: tau. 0.5 is SimCLR's choice for batches of 256 and the paper's for images;
            sentence encoders use 0.05.
        **options: any of the keywords that follow.
        candidates: ``"two-view"`` (default), each view against the 2N - 1 others, or
            ``"bipartite"``, each query against the N keys.
        symmetric: of the bipartite set, whether each key is also scored against the N queries
            (True, the default: CLIP, the mean of both directions) or not (SimCSE).
        ids: identity of each pair, integer, shape ``(N,)``: candidates of an anchor's own identity,
            duplicates in the batch or the queue, are no negatives of it.
        negatives: further candidates of every anchor (hard negatives, say), shape ``(K, d)``, with
            gradient; not for the symmetric bipartite set.
        queue: past embeddings as further candidates, without gradient; read here and not written.
            Not for the symmetric bipartite set.
        logit_scale: 1 / tau as a tensor of one element, learnable, in place of ``temperature``. No
            upper bound is applied: clamp the parameter in the training loop, as CLIP does at 100.
        gather_distributed: take the candidates of all ranks; False by default. The loss is then the
            mean over this rank's anchors; see :mod:`weince_lib.losses.distributed` for what that
            means for gradients.
        validate: look for zero and non-finite rows (CPU only, where it is free); True by default.
            Without it a zero row (one whose norm is below 1e-12) has cosine 0 with everything and
            takes no gradient, so that two views that are all zero have the loss ln(2N - 1) of a
            blind guess. Also compare the ranks' batches before gathering them, which on an
            accelerator waits for the answer; without it unequal batches may hang.
        impl: ``"reference"`` is the equation in plain operations, in float64 and with the whole
            score matrix; ``"streaming"`` the same to rounding, in blocks of anchors and with the
            gradient in closed form; ``"auto"``, the default, is streaming.
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
    loss, _ = batch_loss(z0, z1, temperature, None, **options)
    return loss


def batch_loss(
    z0: Tensor,
    z1: Tensor,
    temperature: float,
    settings: TailSettings | EndpointLink | None,
    *,
    logit_scale: Tensor | None = None,
    impl: Implementation = "auto",
    memory_budget: int | None = None,
    **candidates: Any,
) -> tuple[Tensor, TailEvidence | None]:
    """InfoNCE, WEINCE or an endpoint link's loss of one batch of pairs.

    The arguments are those of :func:`infonce_loss`, and ``settings``: how the tail is read, or the
    link; None is InfoNCE. Returns the loss, shape ``()``, and the evidence of this rank's anchors,
    None but for WEINCE.
    """
    check_memory(memory_budget)
    check_impl(impl)
    dense = impl == "reference"
    validate = candidates.get("validate", True)
    scale = logit_slope(temperature, logit_scale, z0, validate=validate)
    batch = Batch(z0, z1, **candidates)
    loss, evidence = problem_loss(
        batch.problems(twice_differentiable=dense),
        scale,
        settings,
        all_ranks=batch.gather_distributed,
        dense=dense,
        memory=memory_budget,
    )
    dtype = loss_dtype(z0)
    if evidence is not None and isinstance(settings, TailSettings):
        if may_look(z0, validate):
            look_for_duplicates(evidence.rho, settings.floor)
        if dense:  # the streamed passes have this dtype throughout
            evidence = evidence.to(dtype)
    return loss.to(dtype), evidence


class ContrastiveLoss(nn.Module):
    """Keeps and checks a loss's settings. ``queue`` is a submodule, so it is saved with the state.

    In training mode the second views or keys are put into the queue after each loss; in evaluation
    mode the queue serves negatives and stays as it is.

    Attributes:
        settings: how the tails are read, or the link; None is InfoNCE.
    """

    #: Whether the loss sets its sharpness itself and so has no temperature.
    sets_itself = False

    def __init__(
        self,
        temperature: float | None = 0.5,
        *,
        candidates: CandidateSet = "two-view",
        symmetric: bool = True,
        queue: NegativeQueue | None = None,
        gather_distributed: bool = False,
        validate: bool = True,
        impl: Implementation = "auto",
        memory_budget: int | None = None,
    ) -> None:
        super().__init__()
        if not self.sets_itself:
            check_temperature(temperature)
        if queue is not None and not isinstance(queue, NegativeQueue):
            raise ValueError(f"queue must be a NegativeQueue or None, got {queue!r}")
        self.temperature: Any = temperature
        self.settings: Any = None
        self.candidates: CandidateSet = candidates
        self.symmetric = symmetric
        self.queue = queue
        self.gather_distributed = gather_distributed
        self.validate = validate
        self.impl: Implementation = impl
        self.memory_budget = memory_budget
        for flag in ("symmetric", "gather_distributed", "validate"):
            check_flag(flag, getattr(self, flag))
        check_impl(impl)
        check_memory(memory_budget)
        check_candidate_set(candidates, symmetric=symmetric, queue=queue)

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
        return self._loss_and_evidence(z0, z1, ids, negatives, logit_scale)[0]

    def _loss_and_evidence(
        self,
        z0: Tensor,
        z1: Tensor,
        ids: Tensor | None,
        negatives: Tensor | None,
        logit_scale: Tensor | None,
    ) -> tuple[Tensor, TailEvidence | None]:
        found = batch_loss(
            z0,
            z1,
            self.temperature,
            self.settings,
            logit_scale=logit_scale,
            impl=self.impl,
            memory_budget=self.memory_budget,
            **self._batch_options(ids, negatives),
        )
        self.enqueue(z1, ids)
        return found

    def _batch_options(self, ids: Tensor | None, negatives: Tensor | None) -> dict[str, Any]:
        """What :class:`~weince_lib.losses.candidates.Batch` takes beside the pairs."""
        return {
            "candidates": self.candidates,
            "symmetric": self.symmetric,
            "ids": ids,
            "negatives": negatives,
            "queue": self.queue,
            "gather_distributed": self.gather_distributed,
            "validate": self.validate,
        }

    def enqueue(self, keys: Tensor, ids: Tensor | None) -> None:
        """Put a batch into the queue, if there is one and this is training."""
        if self.queue is not None and self.training:
            self.queue.enqueue(keys, ids, gather_distributed=self.gather_distributed)

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        shown = [] if self.temperature is None else [f"temperature={self.temperature}"]
        shown += [f"{name}={value}" for name, value in self.own_settings().items()]
        if self.candidates != "two-view":
            shown += [f"candidates={self.candidates!r}", f"symmetric={self.symmetric}"]
        if self.gather_distributed:
            shown.append("gather_distributed=True")
        return ", ".join([*shown, f"impl={self.impl!r}"])

    def own_settings(self) -> dict[str, Any]:
        """What a loss has beyond these settings."""
        return {}


class InfoNCELoss(ContrastiveLoss):
    """Module form of :func:`infonce_loss`: ``InfoNCELoss(temperature=0.5)(z0, z1)``.

    Its keywords are those of the function; ``ids``, ``negatives`` and ``logit_scale`` belong to the
    call. With a ``queue``, each training step ends with ``z1`` going into it.
    """
