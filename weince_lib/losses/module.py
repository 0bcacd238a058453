"""What the loss modules share: their settings, and the queue that follows them."""

from __future__ import annotations

from typing import Any, TypedDict

from torch import Tensor, nn

from .arguments import check_flag, check_temperature
from .blocks import check_memory
from .candidates import CandidateSet, check_candidate_set
from .negative_queue import NegativeQueue
from .similarity import Implementation, resolve_impl


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


class ContrastiveLoss(nn.Module):
    """Keeps and checks a loss's settings. ``queue`` is a submodule, so it is saved with the state.

    In training mode the second views or keys are put into the queue after each loss; in evaluation
    mode the queue serves negatives and stays as it is.
    """

    def __init__(
        self,
        temperature: float = 0.5,
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
        check_temperature(temperature)
        for name, flag in (
            ("symmetric", symmetric),
            ("gather_distributed", gather_distributed),
            ("validate", validate),
        ):
            check_flag(name, flag)
        if queue is not None and not isinstance(queue, NegativeQueue):
            raise ValueError(f"queue must be a NegativeQueue or None, got {queue!r}")
        resolve_impl(impl)
        check_memory(memory_budget)
        check_candidate_set(candidates, symmetric=symmetric, queue=queue)
        self.temperature = temperature
        self.candidates: CandidateSet = candidates
        self.symmetric = symmetric
        self.queue = queue
        self.gather_distributed = gather_distributed
        self.validate = validate
        self.impl: Implementation = impl
        self.memory_budget = memory_budget

    def options(self) -> LossOptions:
        """The settings, as the functional form takes them."""
        return {
            "candidates": self.candidates,
            "symmetric": self.symmetric,
            "queue": self.queue,
            "gather_distributed": self.gather_distributed,
            "validate": self.validate,
            "impl": self.impl,
            "memory_budget": self.memory_budget,
        }

    def enqueue(self, keys: Tensor, ids: Tensor | None) -> None:
        """Put a batch into the queue, if there is one and this is training."""
        if self.queue is not None and self.training:
            self.queue.enqueue(keys, ids, gather_distributed=self.gather_distributed)

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        shown = [f"temperature={self.temperature}"]
        shown += [f"{name}={value}" for name, value in self.own_settings().items()]
        if self.candidates != "two-view":
            shown += [f"candidates={self.candidates!r}", f"symmetric={self.symmetric}"]
        if self.gather_distributed:
            shown.append("gather_distributed=True")
        return ", ".join([*shown, f"impl={self.impl!r}"])

    def own_settings(self) -> dict[str, Any]:
        """What a loss has beyond these settings."""
        return {}
