"""k-nearest-neighbour evaluation of frozen features (paper Appendix F.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checks import check_at_least, check_labelled_features
from ..losses.arguments import ZERO_NORM, check_embeddings, check_temperature
from .features import full_precision

#: The k of R@k in the paper's Tables 3 and 7.
RECALL_KS = (1, 2, 5, 10, 20, 50)
#: Cosines held at once when no block is given: 2^25, 128 MiB in float32.
BLOCK_COSINES = 2**25


@torch.no_grad()
def knn_evaluate(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    query_labels: Tensor,
    *,
    ks: Sequence[int] = RECALL_KS,
    neighbours: int = 50,
    temperature: float = 0.1,
    block: int | None = None,
) -> dict[str, float]:
    """Retrieve each query's nearest bank items by cosine, and score recall and votes.

    R@k is the share of queries with at least one item of their own class among the k nearest.
    The vote gives each of the ``neighbours`` nearest a weight exp(s / temperature) for its class,
    s its cosine; the class with the largest sum is the prediction, the smaller number on a tie.

    Args:
        bank: encoder outputs h to search, shape ``(n, d)``; normalised here.
        bank_labels: class numbers from 0, shape ``(n,)``.
        queries: features to classify, shape ``(m, d)``; none of them should be in the bank, where
            it would find itself.
        query_labels: class numbers from 0, shape ``(m,)``. A class that the bank lacks is a miss.
        ks: the k of R@k; the paper's 1, 2, 5, 10, 20, 50.
        neighbours: voters; the paper's 50.
        temperature: of the vote; the paper's 0.1.
        block: queries compared at once. ``None`` takes as many as keep the cosines within
            128 MiB; it bounds memory and does not change the result.

    Returns:
        ``"recall_at_1"``, ... for every k in ascending order, and ``"knn_accuracy"``, in percent.

    Raises:
        ValueError: for features without a cosine (naming the row), sets that do not fit each
            other, settings out of range, or a bank with fewer items than the largest k. Such a
            bank is refused, not clipped to: R@50 from 30 items would be another quantity under
            the same name.
    """
    _check(bank, bank_labels, queries, query_labels, ks, neighbours, block)
    check_temperature(temperature)
    deepest = max(*ks, neighbours)
    if deepest > len(bank):
        raise ValueError(
            f"the bank has {len(bank)} items and the largest k is {deepest}; "
            "give a larger bank, or smaller ks and neighbours"
        )
    block = block or max(1, BLOCK_COSINES // len(bank))
    dtype = torch.promote_types(full_precision(bank).dtype, full_precision(queries).dtype)
    unit_bank = F.normalize(bank.to(dtype), dim=1, eps=ZERO_NORM)
    bank_labels, query_labels = bank_labels.long(), query_labels.long()
    classes = int(bank_labels.max()) + 1
    hits = torch.zeros(deepest, dtype=torch.long, device=bank.device)
    correct = torch.zeros((), dtype=torch.long, device=bank.device)
    with torch.autocast(bank.device.type, enabled=False):
        for x, y in zip(queries.split(block), query_labels.split(block), strict=True):
            cosines = F.normalize(x.to(dtype), dim=1, eps=ZERO_NORM) @ unit_bank.T
            nearest = cosines.topk(deepest, dim=1)
            found = bank_labels[nearest.indices]
            same = found == y[:, None]
            # Column k - 1: has one of the k nearest the query's class?
            hits += (same.cumsum(dim=1) > 0).sum(dim=0)
            voters = nearest.values[:, :neighbours]
            # Relative to the nearest: the same vote, and no overflow at a low temperature.
            weights = ((voters - voters[:, :1]) / temperature).exp()
            votes = weights.new_zeros(len(x), classes)
            votes.scatter_add_(1, found[:, :neighbours], weights)
            correct += (votes.argmax(dim=1) == y).sum()
    scale = 100.0 / len(queries)
    recalls = {f"recall_at_{k}": scale * int(hits[k - 1]) for k in sorted(ks)}
    return recalls | {"knn_accuracy": scale * int(correct)}


def _check(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    query_labels: Tensor,
    ks: Sequence[int],
    neighbours: int,
    block: int | None,
) -> None:
    """Raise unless both sets have cosines with each other and the settings make sense."""
    for features, labels, name in ((bank, bank_labels, "bank"), (queries, query_labels, "queries")):
        check_labelled_features(features, labels, name)
        check_embeddings(features, name)
    if bank.shape[1] != queries.shape[1]:
        raise ValueError(f"bank has width {bank.shape[1]} and queries {queries.shape[1]}")
    if bank.device != queries.device:
        raise ValueError(f"bank is on {bank.device} and queries on {queries.device}")
    if not ks or min(ks) < 1 or len(set(ks)) != len(ks):
        raise ValueError(f"ks must be different positive integers, got {tuple(ks)}")
    check_at_least("neighbours", neighbours, 1)
    if block is not None:
        check_at_least("block", block, 1)
