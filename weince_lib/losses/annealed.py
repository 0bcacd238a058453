"""The decoupled softmax, soft at first and sharp at the end of a training run.

At step t of T, counted from 0, the temperature is

    tau_t = start^(1 - t / (T - 1)) end^(t / (T - 1)),

a straight line in log tau, and ``end`` from step T on. At 0.3 about half of 510 negatives compete
and the embeddings spread over the sphere. At 0.05 a few per cent compete, and the loss orders near
neighbours. Both numbers bracket the temperatures that were best in the studies on images.

It is the redesigned bet of :mod:`weince_lib.studies.grid_annealed`, where what it rests on and
what would sink it are written down. Temperature schedules for contrastive learning: Kukleva et al.
(2023), arXiv:2303.13664, who let tau swing up and down.
"""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from .arguments import check_number
from .infonce import ContrastiveLoss, LossOptions, batch_loss
from .link import EndpointLink


class AnnealedLoss(ContrastiveLoss):
    """``AnnealedLoss(steps=epochs * len(loader))(z0, z1)``; see this module's head.

    Each call in training mode is a step. The count is part of the ``state_dict``: a run that is
    resumed must load it. In evaluation mode the loss has the temperature of the next step.

    Args:
        steps: T, of the whole run. None, the default, leaves it to the training loop, which sets
            the attribute of this name; training without it is an error.
        start: temperature of the first step.
        end: temperature of the last step.
        **options: those of :class:`weince_lib.losses.InfoNCELoss`, which has no ``temperature``
            here and no ``logit_scale`` in its call.

    Attributes:
        seen: buffer, the number of steps so far, shape ``()``.

    Raises:
        ValueError: for temperatures that are not positive, and for fewer than one step.
    """

    sets_itself = True
    seen: Tensor

    def __init__(
        self,
        steps: int | None = None,
        *,
        start: float = 0.3,
        end: float = 0.05,
        **options: Unpack[LossOptions],
    ) -> None:
        super().__init__(None, **options)
        if steps is not None and not (isinstance(steps, int) and steps >= 1):
            raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
        check_number("start", start, "be positive and finite")
        check_number("end", end, "be positive and finite")
        self.steps, self.start, self.end = steps, float(start), float(end)
        self.link = EndpointLink(0.0, decoupled=True)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def logit_scale(self) -> Tensor:
        """1 / tau of the next step, float32, shape ``()``."""
        if self.steps is None:
            raise ValueError(
                "the loss does not know how long the run is; give AnnealedLoss(steps=...) the "
                "number of steps of the whole run"
            )
        share = (self.seen.float() / max(self.steps - 1, 1)).clamp(max=1.0)
        return (1.0 / self.start) * (self.start / self.end) ** share

    def forward(  # type: ignore[override]  # it has no temperature to scale
        self, z0: Tensor, z1: Tensor, *, ids: Tensor | None = None, negatives: Tensor | None = None
    ) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches; negative values occur."""
        loss, _ = batch_loss(
            z0,
            z1,
            self.start,
            self.link,
            logit_scale=self.logit_scale(),
            impl=self.impl,
            memory_budget=self.memory_budget,
            **self._batch_options(ids, negatives),
        )
        self.enqueue(z1, ids)
        if self.training:
            self.seen += 1
        return loss

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if f"{prefix}seen" not in state_dict:
            errors: list[str] = rest[-1]
            errors.append(
                "the loss lowers its temperature step by step, and this state has no count of the "
                "steps; save loss.state_dict() beside the model's and load it"
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def own_settings(self) -> dict[str, Any]:
        """Both temperatures, for ``print(loss)``."""
        return {"start": self.start, "end": self.end}
