"""WEINCE in the place of ``open_clip.loss.ClipLoss``.

::

    from weince_lib.integrations.open_clip import ClipLoss
    loss = ClipLoss(local_loss=True, gather_with_grad=True, rank=rank, world_size=world_size)
    losses = loss(**model(images, texts), output_dict=True)
"""

from __future__ import annotations

from typing import Any

import torch
from open_clip.loss import ClipLoss as OpenClipLoss
from open_clip.loss import gather_features
from torch import Tensor

from weince_lib.losses.arguments import exact_dtype, loss_dtype
from weince_lib.losses.candidates import CandidateProblem, NormalizeRows

from ._core import Correction, check_partners, contrastive_loss, resolve_correction


class ClipLoss(OpenClipLoss):
    """Images against texts and texts against images, averaged, each with its own tail evidence.

    Args:
        *args: ``local_loss``, ``gather_with_grad``, ``cache_labels``, ``rank``, ``world_size`` and
            ``use_horovod``, positional or by name, as the installed open_clip has them. With
            ``world_size`` above 1 the candidates are those of all processes, and so are the anchors
            that rho_0 is a quantile of, whether or not the loss is local.
        correction: tail settings or the name of a preset; None is open_clip's own loss.
        **kwargs: as ``*args``.

    Raises:
        ValueError: for an unknown correction.
    """

    def __init__(self, *args: Any, correction: Correction = "paper", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = resolve_correction(correction)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
    ) -> Tensor | dict[str, Tensor]:
        """Loss of N images and their N texts.

        Args:
            image_features: shape ``(N, d)``, normalised by the model. The correction needs cosines
                and normalises them itself; without it, they are taken as they are, as in open_clip.
            text_features: same shape; row ``k`` of both belongs together.
            logit_scale: 1 / tau, already exponentiated; a tensor of one element has a gradient.
                No upper bound is applied: open_clip's training loop clamps it at 100 itself.
            logit_bias: accepted for the call's sake; a softmax does not depend on it.
            output_dict: return ``{"contrastive_loss": loss}``.

        Returns:
            Scalar, in nats per anchor.

        Raises:
            ValueError: if the features do not match, or hold numbers no cosine can be taken of.
        """
        check_partners(image_features=image_features, text_features=text_features)
        dtype = loss_dtype(image_features)
        image, text = self._exact(image_features), self._exact(text_features)
        all_images, all_texts = image, text
        first = 0
        local = self.world_size > 1 and self.local_loss
        if self.world_size > 1:
            all_images, all_texts = gather_features(
                image,
                text,
                local_loss=self.local_loss,
                gather_with_grad=self.gather_with_grad,
                rank=self.rank,
                world_size=self.world_size,
                use_horovod=self.use_horovod,
            )
            if local:
                first = self.rank * image.shape[0]
            else:
                image, text = all_images, all_texts
        columns = torch.arange(first, first + image.shape[0], device=image.device)
        problems = (
            CandidateProblem(image, all_texts, columns, dtype=dtype),
            CandidateProblem(text, all_images, columns, dtype=dtype),
        )
        from_image, from_text = (
            contrastive_loss(problem, logit_scale, self.settings, all_ranks=local)
            for problem in problems
        )
        loss = (from_image + from_text) / 2
        if logit_bias is not None:
            # Keeps a parameter that takes no part in the graph, where DDP waits for it.
            loss = loss + 0.0 * logit_bias.sum()
        return {"contrastive_loss": loss} if output_dict else loss

    def _exact(self, features: Tensor) -> Tensor:
        if self.settings is None:
            return features.to(exact_dtype(features.device))
        unit: Tensor = NormalizeRows.apply(features)
        return unit

    def extra_repr(self) -> str:
        """Settings, for ``print(loss)``."""
        return f"correction={self.settings}"
