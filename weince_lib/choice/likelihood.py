"""Log-likelihoods of choices and rankings (paper section 2.1; Luce 1959, Plackett 1975).

A candidate with score -inf is not on offer. That way candidate sets of different size share one
array, and a ranking is a series of choices from what is left.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def top1_log_likelihood(scores: npt.ArrayLike, winners: npt.ArrayLike) -> Array:
    """Log-probability of each observed winner, s_w - log sum_j exp(s_j).

    With scores s_ij / tau and the positive as winner, InfoNCE is the mean of its negative.

    Args:
        scores: shape ``(choices, candidates)``, or ``(candidates,)`` for the same set each time;
            -inf for a candidate that is not on offer.
        winners: index of the winner in each choice, shape ``(choices,)``.

    Returns:
        Nats, shape ``(choices,)``.

    Raises:
        ValueError: for scores that are NaN or +inf, a set with fewer than two candidates, a winner
            that is not on offer, or shapes that do not fit.
    """
    w = check_indices(winners, "winners", 1)
    s = _rows_of(scores, len(w))
    _check_range(w, s.shape[1], "winner")
    rows = np.arange(len(w))
    if np.isneginf(s[rows, w]).any():
        row = int(np.isneginf(s[rows, w]).argmax())
        raise ValueError(f"choice {row}: the winner {w[row]} is not on offer (score -inf)")
    return np.asarray(log_softmax(s, axis=1)[rows, w], dtype=np.float64)


def ranking_log_likelihood(scores: npt.ArrayLike, rankings: npt.ArrayLike) -> Array:
    """Log-probability of each ranking under the Plackett-Luce model.

    A ranking is a choice from all candidates, then one from those left, and so on:

        log p(pi) = sum_r [ s_pi(r) - log sum_{t >= r} exp(s_pi(t)) ].

    Args:
        scores: shape ``(rankings, candidates)``, or ``(candidates,)`` for the same set each time.
        rankings: candidates best first, shape ``(rankings, places)``. With fewer places than
            candidates, the unplaced ones are known to come after the placed ones; one place is
            :func:`top1_log_likelihood`.

    Returns:
        Nats, shape ``(rankings,)``.

    Raises:
        ValueError: for scores that are not finite, a candidate that is placed twice, or shapes
            that do not fit.
    """
    order = check_indices(rankings, "rankings", 2)
    s = _rows_of(scores, len(order))
    if not np.isfinite(s).all():
        raise ValueError("rankings need finite scores: every candidate takes part")
    _check_range(order, s.shape[1], "candidate")
    check_distinct(order)
    left = s.copy()
    rows = np.arange(len(order))
    total = np.zeros(len(order))
    for place in range(min(order.shape[1], s.shape[1] - 1)):
        chosen = order[:, place]
        total += log_softmax(left, axis=1)[rows, chosen]
        left[rows, chosen] = -np.inf
    return total


def check_indices(values: npt.ArrayLike, name: str, ndim: int) -> Integers:
    """Indices as int64 with so many axes and at least one entry.

    Raises:
        ValueError: naming what is wrong.
    """
    array = np.asarray(values)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} axes and not be empty, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    return array.astype(np.int64)


def check_distinct(rankings: Integers) -> None:
    """Raise unless no candidate is placed twice in a row.

    Raises:
        ValueError: naming the first such row.
    """
    ordered = np.sort(rankings, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        row = int(twice.argmax())
        raise ValueError(f"row {row} places a candidate twice: {rankings[row].tolist()}")


def _rows_of(scores: npt.ArrayLike, rows: int) -> Array:
    """Scores with one row per observation."""
    s = np.asarray(scores, dtype=np.float64)
    if s.ndim == 1:
        s = np.broadcast_to(s, (rows, s.size))
    if s.ndim != 2 or s.shape[0] != rows:
        raise ValueError(f"scores of shape {np.shape(scores)} do not fit {rows} observations")
    if np.isnan(s).any() or np.isposinf(s).any():
        raise ValueError("scores must be finite, or -inf for a candidate that is not on offer")
    offered = np.isfinite(s).sum(axis=1)
    if (offered < 2).any():
        row = int((offered < 2).argmax())
        raise ValueError(f"a choice needs two candidates or more, row {row} has {offered[row]}")
    return s


def _check_range(indices: Integers, candidates: int, name: str) -> None:
    outside = (indices < 0) | (indices >= candidates)
    if outside.any():
        raise ValueError(
            f"{name} {indices[outside][0]} does not exist; there are {candidates}, from 0"
        )
