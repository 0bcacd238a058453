"""WEINCE in the place of ``pytorch_metric_learning.losses.NTXentLoss``.

from weince_lib.integrations.metric_learning import NTXentLoss
loss_func = NTXentLoss(temperature=0.5)
loss = loss_func(embeddings, labels)
"""

from __future__ import annotations

from typing import Any

import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.losses import NTXentLoss as MetricLearningNTXentLoss
from pytorch_metric_learning.reducers import MeanReducer
from pytorch_metric_learning.utils import common_functions as c_f
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu
from torch import Tensor

from weince_lib.losses.arguments import check_temperature, loss_dtype
from weince_lib.losses.candidates import CandidateProblem, NormalizeRows
from weince_lib.losses.evidence import (
    TailEvidence,
    TailSettings,
    blend_weights,
    read_score_tails,
    read_tails,
)
from weince_lib.losses.link import EndpointLink, endpoint_coordinate

from ._core import Correction, check_rows, contrastive_loss, resolve_correction


class NTXentLoss(MetricLearningNTXentLoss):
    """NT-Xent over all positive pairs with the WEINCE correction.

    Every pair of an anchor and a positive (of the same label) is one term, scored against all the
    anchor's negatives (of other labels) and averaged by the reducer. The tail evidence is the
    anchor's: all its pairs share it. The class keeps the library's name because its wrappers
    (``SelfSupervisedLoss``, ``CrossBatchMemory``) go by names.

    With labels alone and the default reducer, no matrix of all scores is kept. With pairs or
    triplets from a miner, or a reducer that wants each pair's loss, one of shape
    ``(anchors, candidates)`` is.

    Args:
        temperature: tau of the softmax part; the library's default.
        correction: tail settings or the name of a preset; None is the library's own loss.
        **kwargs: ``distance``, ``reducer``, ``embedding_regularizer``, ... as the library has them.
            The distance has to be a ``CosineSimilarity``, the default.

    Raises:
        ValueError: for a temperature that is not positive, an unknown correction, or another
            distance.
    """

    def __init__(
        self, temperature: float = 0.07, *, correction: Correction = "paper", **kwargs: Any
    ) -> None:
        check_temperature(temperature)
        super().__init__(temperature=temperature, **kwargs)
        self.settings = resolve_correction(correction)
        distance = self.distance
        cosine = type(distance) is CosineSimilarity and distance.power == 1 and distance.p == 2
        if not cosine:
            raise ValueError(
                "distance must be a CosineSimilarity with p = 2 and power = 1, the one similarity "
                f"with a cap at 1; got {distance!r}"
            )

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: tuple[Tensor, ...] | None,
        ref_emb: Tensor,
        ref_labels: Tensor | None,
    ) -> dict[str, dict[str, Any]]:
        """The terms of the loss, for the library's reducers.

        Args:
            embeddings: anchors, shape ``(A, d)``; rows need not be normalised.
            labels: shape ``(A,)``; None if ``indices_tuple`` is given.
            indices_tuple: ``(anchors, positives, anchors, negatives)`` or triplets from a miner.
                A negative that occurs ``n`` times with an anchor counts ``n`` times in its
                normaliser, as in the library, and once in its tail.
            ref_emb: candidates, shape ``(C, d)``; the embeddings themselves by default.
            ref_labels: shape ``(C,)``.

        Raises:
            ValueError: if the embeddings hold numbers no cosine can be taken of.
        """
        c_f.labels_or_indices_tuple_required(labels, indices_tuple)
        check_rows(embeddings, "embeddings")
        itself = ref_emb is embeddings
        if not itself:
            check_rows(ref_emb, "ref_emb")
        pairs = lmu.convert_to_pairs(indices_tuple, labels, ref_labels)
        a1, p, a2, n = (c_f.to_device(index, embeddings) for index in pairs)
        if len(a1) == 0 or len(a2) == 0:
            return self.zero_losses()
        anchors: Tensor = NormalizeRows.apply(embeddings)
        candidates: Tensor | None = None if itself else NormalizeRows.apply(ref_emb)
        dtype = loss_dtype(embeddings)
        by_labels = indices_tuple is None and type(self.reducer) is MeanReducer
        if by_labels and labels is not None and ref_labels is not None:
            loss = self._labelled(anchors, candidates, labels, ref_labels, a1, p, a2, dtype)
            return {"loss": {"losses": loss, "indices": None, "reduction_type": "already_reduced"}}
        losses = self._mined(anchors, candidates, a1, p, a2, n).to(dtype)
        return {"loss": {"losses": losses, "indices": (a1, p), "reduction_type": "pos_pair"}}

    def _labelled(
        self,
        anchors: Tensor,
        candidates: Tensor | None,
        labels: Tensor,
        ref_labels: Tensor,
        a1: Tensor,
        p: Tensor,
        a2: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        """Mean over all positive pairs, a block of pairs at a time."""
        rows = torch.arange(anchors.shape[0], device=anchors.device)
        scale = 1.0 / self.temperature
        if candidates is None and ref_labels is labels and torch.equal(a1, rows):
            # One positive each, so anchor and positive are all that the negatives leave out.
            problem = CandidateProblem(anchors, None, p, own=a1, dtype=dtype)
            return contrastive_loss(problem, scale, self.settings)
        columns = anchors if candidates is None else candidates
        # Labels leave out the anchor itself and the other positives.
        problem = CandidateProblem(
            anchors[a1],
            columns,
            p,
            anchor_ids=labels[a1],
            candidate_ids=ref_labels,
            dtype=dtype,
        )
        if not isinstance(self.settings, TailSettings):
            return contrastive_loss(problem, scale, self.settings)
        # Each anchor's tail once, however many pairs it is in.
        unique, pair_to_unique = a1.unique(return_inverse=True)
        fewest = int(torch.bincount(a2, minlength=anchors.shape[0])[unique].min())
        if fewest == 0:  # an anchor without negatives leaves no tail to size the others by
            return contrastive_loss(problem, scale, None)
        tails = CandidateProblem(
            anchors.detach()[unique],
            columns.detach(),
            torch.empty_like(unique).scatter_(0, pair_to_unique, p),
            anchor_ids=labels[unique],
            candidate_ids=ref_labels,
            dtype=dtype,
            fewest_negatives=fewest,
        )
        reading, _ = read_tails(tails, self.settings)
        anchor = blend_weights(reading, self.settings)
        by_anchor = (anchor.rho, anchor.beta, anchor.delta_aic, anchor.lam)
        rho, beta, delta_aic, lam = (values[pair_to_unique] for values in by_anchor)
        evidence = TailEvidence(rho, beta, delta_aic, lam, anchor.rho_0)
        return contrastive_loss(problem, scale, self.settings, evidence=evidence)

    def _mined(
        self,
        anchors: Tensor,
        candidates: Tensor | None,
        a1: Tensor,
        p: Tensor,
        a2: Tensor,
        n: Tensor,
    ) -> Tensor:
        """Loss of every positive pair, shape ``(pairs,)``, for any choice of negatives."""
        columns = anchors if candidates is None else candidates
        with torch.autocast(anchors.device.type, enabled=False):
            scores = anchors @ columns.T
            times = torch.zeros_like(scores).index_put_(
                (a2, n), scores.new_ones(len(a2)), accumulate=True
            )
            paired = (anchors[a1] * columns[p]).sum(1)
            negative, positive = scores / self.temperature, paired / self.temperature
            if isinstance(self.settings, EndpointLink):
                negative = self.settings.coordinate(scores) / self.temperature
                positive = self.settings.coordinate(paired) / self.temperature
            elif self.settings is not None:
                lam, power = _mined_evidence(scores.detach(), times > 0, a1, self.settings)
                floor = self.settings.floor
                negative = (1.0 - lam)[:, None] * negative + power[:, None] * endpoint_coordinate(
                    scores, floor
                )
                positive = (1.0 - lam)[a1] * positive + power[a1] * endpoint_coordinate(
                    paired, floor
                )
            competing = (negative + times.log())[a1]
            if isinstance(self.settings, EndpointLink) and self.settings.decoupled:
                losses = competing.logsumexp(1) - positive
                return torch.where((times > 0).any(1)[a1], losses, 0.0)
            logits = torch.cat([positive[:, None], competing], dim=1)
            return logits.logsumexp(1) - positive


def _mined_evidence(
    scores: Tensor, is_negative: Tensor, a1: Tensor, settings: TailSettings
) -> tuple[Tensor, Tensor]:
    """Lambda and lambda * beta of every embedding, 0 where it is no anchor or has no tail."""
    lam, power = scores.new_zeros(2, scores.shape[0])
    unique = a1.unique()
    fewest = int(is_negative[unique].sum(1).min())
    if fewest == 0:
        return lam, power
    reading = read_score_tails(scores[unique], is_negative[unique], settings, fewest)
    evidence = blend_weights(reading, settings)
    lam[unique] = evidence.lam
    power[unique] = evidence.lam * evidence.beta
    return lam, power
