"""WEINCE in the place of sentence-transformers' ``MultipleNegativesRankingLoss``.

from weince_lib.integrations.sentence_transformers import MultipleNegativesRankingLoss
loss = MultipleNegativesRankingLoss(model)
SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss).train()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import cos_sim
from torch import Tensor, nn

from weince_lib.checks import check_positive
from weince_lib.losses.arguments import loss_dtype
from weince_lib.losses.candidates import CandidateProblem, NormalizeRows
from weince_lib.losses.distributed import gather_rows
from weince_lib.losses.self_setting import SelfSettingLoss

from ._core import Correction, check_partners, contrastive_loss, resolve_correction, world


class MultipleNegativesRankingLoss(nn.Module):
    """Each anchor sentence against all positives and hard negatives of the batch.

    The inputs are columns ``(anchor, positive, [negative, ...])``, as for the library's loss: the
    candidates of an anchor are every other column of every row, the positive its own. Sentences
    that occur twice in a batch are negatives of themselves unless the batch sampler forbids it
    (``BatchSamplers.NO_DUPLICATES``); near the cap that matters more than it does to InfoNCE.

    Args:
        model: the model to train.
        scale: 1 / tau; the library's default, which is the paper's tau = 0.05 for sentences.
        similarity_fct: accepted for the call's sake: only the cosine has an endpoint.
        gather_across_devices: take candidates, and rho_0, from all processes. As in the library,
            without a process group it changes nothing. All processes must hold equally many rows.
        correction: tail settings, the name of a preset, or a ``SelfSettingLoss``, which takes no
            temperature and whose means are part of this module's state; None is the library's own
            loss in its default configuration, one way from anchors to candidates.

    Raises:
        ValueError: for a scale that is not positive and finite, another similarity than
            ``sentence_transformers.util.cos_sim``, or an unknown correction.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        scale: float = 20.0,
        similarity_fct: Callable[[Tensor, Tensor], Tensor] = cos_sim,
        gather_across_devices: bool = False,
        *,
        correction: Correction | SelfSettingLoss = "paper",
    ) -> None:
        super().__init__()
        check_positive("scale", scale)
        if similarity_fct is not cos_sim:
            raise ValueError(
                "similarity_fct must be sentence_transformers.util.cos_sim, the one similarity "
                f"with a cap at 1; got {similarity_fct!r}"
            )
        self.model = model
        self.scale = scale
        self.gather_across_devices = gather_across_devices
        self.correction = correction
        self.settings = resolve_correction(correction, sets_itself=True)

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None
    ) -> Tensor:
        """Embed the columns and return the scalar loss; ``labels`` are not used."""
        return self.compute_loss_from_embeddings(
            embed_columns(self.model, sentence_features), labels
        )

    def compute_loss_from_embeddings(
        self, embeddings: list[Tensor], labels: Tensor | None = None
    ) -> Tensor:
        """Loss of columns that have been embedded.

        Args:
            embeddings: anchors, positives and any number of negatives, shape ``(N, d)`` each.
            labels: not used.

        Returns:
            Scalar, in nats per anchor.

        Raises:
            ValueError: if there are fewer than two columns, their shapes differ, or they hold
                numbers no cosine can be taken of.
        """
        if len(embeddings) < 2:
            raise ValueError(
                f"the loss needs an anchor and a positive column, got {len(embeddings)} column(s)"
            )
        check_partners(**{f"column {index}": z for index, z in enumerate(embeddings)})
        rank, size = world() if self.gather_across_devices else (0, 1)
        n = embeddings[0].shape[0]
        columns: list[Tensor] = [NormalizeRows.apply(column) for column in embeddings]
        anchors, candidates = columns[0], columns[1:]
        if size > 1:
            candidates = [gather_rows(column) for column in candidates]
        problem = CandidateProblem(
            anchors=anchors,
            candidates=torch.cat(candidates),
            positives=torch.arange(rank * n, rank * n + n, device=anchors.device),
            dtype=loss_dtype(embeddings[0]),
        )
        return contrastive_loss(problem, self.scale, self.settings, all_ranks=size > 1)

    def get_config_dict(self) -> dict[str, Any]:
        """Settings for the model card and the training logs."""
        return {
            "scale": self.scale,
            "similarity_fct": "cos_sim",
            "gather_across_devices": self.gather_across_devices,
            "correction": self._correction(),
        }

    def _correction(self) -> Any:
        if isinstance(self.settings, SelfSettingLoss):
            return {"rule": self.settings.rule}
        return None if self.settings is None else dataclasses.asdict(self.settings)

    @property
    def temperature(self) -> float:
        """The temperature tau = 1 / scale."""
        return 1.0 / self.scale
