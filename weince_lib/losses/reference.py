"""The losses of any candidate set in plain operations, with the whole score matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .blocks import CandidateProblem
from .evidence import TailReading, TailSettings, read_tail


def cosines(problem: CandidateProblem) -> tuple[Tensor, Tensor]:
    """Cosines of all anchors with all candidates, and which of them count.

    Returns:
        ``scores``, shape ``(A, C)``, in the precision of the unit rows (float64), and ``counts``,
        boolean, shape ``(A, C)``: False for the anchor itself and for candidates of its identity
        other than its positive.
    """
    candidates = problem.anchors if problem.candidates is None else problem.candidates
    with torch.autocast(problem.anchors.device.type, enabled=False):
        scores = problem.anchors @ candidates.T
    columns = torch.arange(problem.columns, device=scores.device)
    counts = torch.ones_like(scores, dtype=torch.bool)
    if problem.anchor_ids is not None and problem.candidate_ids is not None:
        counts = problem.anchor_ids[:, None] != problem.candidate_ids
        counts = counts | (columns == problem.positives[:, None])
    if problem.own is not None:
        counts = counts & (columns != problem.own[:, None])
    return scores, counts


@torch.no_grad()
def read_score_tails(
    scores: Tensor, counts: Tensor, positives: Tensor, settings: TailSettings, negatives: int
) -> TailReading:
    """Read each anchor's tail from a matrix of scores.

    Args:
        scores: cosines, shape ``(A, C)``.
        counts: which of them count, shape ``(A, C)``.
        positives: column of each anchor's positive, shape ``(A,)``.
        settings: see :class:`TailSettings`.
        negatives: number of negatives that the tail's size is a share of. An anchor with too few
            for a tail of that size has no usable reading.
    """
    delta = (1.0 - scores).masked_fill(~counts, torch.inf)
    delta = delta.scatter(1, positives[:, None], torch.inf)
    k = settings.tail_size(negatives)
    smallest = delta.topk(min(k + 1, negatives), dim=1, largest=False, sorted=True).values
    return read_tail(smallest.clamp_min(settings.floor), k, settings)


def masked_cross_entropy(logits: Tensor, counts: Tensor, positives: Tensor) -> Tensor:
    """Mean negative log-likelihood of the positives among the candidates that count."""
    return F.cross_entropy(logits.masked_fill(~counts, -torch.inf), positives)
