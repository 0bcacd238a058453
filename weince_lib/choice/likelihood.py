"""Log-likelihoods of choices and rankings, and their maxima (paper section 2.1).

Luce (1959) and Plackett (1975) for the laws, McFadden (1974) for the conditional logit. A candidate
with score -inf is not on offer. That way candidate sets of different size share one array, and a
ranking is a series of choices from what is left.

The three fits are one concave problem, scores s = X theta and the sum of
:func:`top1_log_likelihood` over choices: X holds features for the conditional logit, and says which
item stands where for scores of items.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax

from ..checks import check_at_least
from ..links import Array

Integers = npt.NDArray[np.int64]

#: Newton's method stops when a full step can gain no more than this many nats.
_ENOUGH = 1e-12
_MOST_STEPS = 100


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
    w = _check_indices(winners, "winners", 1)
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
    order = _check_indices(rankings, "rankings", 2)
    s = _rows_of(scores, len(order))
    if not np.isfinite(s).all():
        raise ValueError("rankings need finite scores: every candidate takes part")
    _check_range(order, s.shape[1], "candidate")
    _check_distinct(order)
    left = s.copy()
    rows = np.arange(len(order))
    total = np.zeros(len(order))
    for place in range(min(order.shape[1], s.shape[1] - 1)):
        chosen = order[:, place]
        total += log_softmax(left, axis=1)[rows, chosen]
        left[rows, chosen] = -np.inf
    return total


@dataclass(frozen=True, eq=False)
class ChoiceFit:
    """A maximum-likelihood fit.

    Attributes:
        estimate: coefficients, or scores of the items with mean 0, shape ``(p,)``.
        covariance: inverse of the observed information, shape ``(p, p)``; for scores that of the
            centred scores, whose rows sum to 0.
        log_likelihood: at the estimate, in nats over all choices.
    """

    estimate: Array
    covariance: Array
    log_likelihood: float

    @property
    def standard_errors(self) -> Array:
        """Square roots of the covariance's diagonal."""
        return np.sqrt(np.diag(self.covariance))


def fit_conditional_logit(features: npt.ArrayLike, winners: npt.ArrayLike) -> ChoiceFit:
    """Fit s_ij = x_ij . theta to winners.

    One feature, the score itself, makes theta an inverse temperature.

    Args:
        features: shape ``(choices, candidates, p)``; a row of NaN for a candidate that is not on
            offer.
        winners: index of the winner in each choice, shape ``(choices,)``.

    Returns:
        A :class:`ChoiceFit` with the coefficients theta.

    Raises:
        ValueError: for shapes that do not fit, features that are collinear or do not vary within
            candidate sets, or winners so well separated that the likelihood has no maximum.
    """
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 3 or x.size == 0:
        raise ValueError(f"features must have shape (choices, candidates, p), got {x.shape}")
    absent = np.asarray(np.isnan(x).all(axis=2))
    x = np.where(absent[:, :, None], 0.0, x)
    if not np.isfinite(x).all():
        raise ValueError("features must be finite, or all NaN for a candidate not on offer")
    # Units that differ by powers of ten are no matter for the model but for its arithmetic.
    unit = x.std(axis=(0, 1))
    unit[unit == 0] = 1.0
    design = sparse.csr_array((x / unit).reshape(-1, x.shape[2]))
    fit = _newton(design, ~absent, _check_winners(winners, absent.shape))
    return ChoiceFit(fit.estimate / unit, fit.covariance / np.outer(unit, unit), fit.log_likelihood)


def fit_scores_from_winners(
    candidates: npt.ArrayLike, winners: npt.ArrayLike, items: int
) -> ChoiceFit:
    """Scores of items from who won against whom.

    Args:
        candidates: items that stood to choose, shape ``(choices, candidates)``.
        winners: column of the winner in each row, shape ``(choices,)``.
        items: how many items there are.

    Returns:
        A :class:`ChoiceFit` with one score per item, in nats, with mean 0: adding a constant to
        all scores changes no choice.

    Raises:
        ValueError: for items that do not exist or stand twice in a set, and for choices that leave
            a score without a finite estimate (Ford 1957): some group of items never lost to, or
            was never compared with, the others.
    """
    sets = _check_indices(candidates, "candidates", 2)
    w = _check_winners(winners, sets.shape)
    return _fit_items(sets, np.ones_like(sets, dtype=np.bool_), w, items)


def fit_scores_from_rankings(rankings: npt.ArrayLike, items: int) -> ChoiceFit:
    """Scores of items from Plackett-Luce rankings.

    Args:
        rankings: items best first, shape ``(rankings, places)``; the items of one ranking may be a
            part of all, and those not named took no part.
        items: how many items there are.

    Returns:
        A :class:`ChoiceFit` as :func:`fit_scores_from_winners` returns it; its log-likelihood is
        that of the rankings.

    Raises:
        ValueError: as :func:`fit_scores_from_winners` does.
    """
    order = _check_indices(rankings, "rankings", 2)
    places = order.shape[1]
    check_at_least("places of a ranking", places, 2)
    # Row r of each ranking: those in places r and later are on offer, the one in place r wins.
    sets = np.repeat(order, places - 1, axis=0)
    winners = np.tile(np.arange(places - 1), len(order))
    offered = np.arange(places) >= winners[:, None]
    return _fit_items(sets, offered, winners, items)


def _fit_items(
    sets: Integers, offered: npt.NDArray[np.bool_], winners: Integers, items: int
) -> ChoiceFit:
    _check_distinct(sets)
    _check_range(sets, items, "item")
    rows = np.arange(len(sets))
    winning = np.broadcast_to(sets[rows, winners][:, None], sets.shape)
    beaten = offered & (sets != winning)
    _check_connected(sets[beaten], winning[beaten], items)
    # Item 0 has no column: its score is 0 until the scores are centred.
    named = (sets > 0).ravel()
    design = sparse.csr_array(
        (np.ones(named.sum()), (np.flatnonzero(named), sets.ravel()[named] - 1)),
        shape=(sets.size, items - 1),
    )
    fit = _newton(design, offered, winners)
    centre = np.eye(items)[:, 1:] - 1.0 / items
    return ChoiceFit(centre @ fit.estimate, centre @ fit.covariance @ centre.T, fit.log_likelihood)


def _check_connected(losers: Integers, winners: Integers, items: int) -> None:
    """Ford's condition: from each item to each other one there is a chain of wins."""
    edges = sparse.csr_array((np.ones(len(losers)), (losers, winners)), shape=(items, items))
    groups, of_item = connected_components(edges, directed=True, connection="strong")
    if groups > 1:
        raise ValueError(
            f"the choices leave {groups} groups of items that do not beat each other both ways, "
            f"such as item {int((of_item != of_item[0]).argmax())} and item 0: their scores have "
            "no finite estimate; add choices or leave such items out"
        )


def _newton(
    design: sparse.csr_array, offered: npt.NDArray[np.bool_], winners: Integers
) -> ChoiceFit:
    """Newton's method with step halving on the concave log-likelihood."""
    choices, candidates = offered.shape
    chosen = np.zeros(offered.shape)
    # Sums over the candidates of each choice.
    per_set = sparse.kron(sparse.eye_array(choices), np.ones((1, candidates)), format="csr")

    def scores(theta: Array) -> Array:
        return np.where(offered, (design @ theta).reshape(offered.shape), -np.inf)

    theta = np.zeros(design.shape[1])
    value = float(top1_log_likelihood(scores(theta), winners).sum())
    chosen[np.arange(choices), winners] = 1.0
    for _ in range(_MOST_STEPS):
        s = scores(theta)
        p = np.exp(s - s.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        gradient = design.T @ (chosen - p).ravel()
        weighted = sparse.diags_array(p.ravel()) @ design
        means = per_set @ weighted
        squares = (design.T @ weighted).toarray()
        information = squares - (means.T @ means).toarray()
        _check_information(information, np.diag(squares))
        step = np.linalg.solve(information, gradient)
        gain = float(gradient @ step)
        size = 1.0
        while True:
            tried = float(top1_log_likelihood(scores(theta + size * step), winners).sum())
            if tried >= value - 1e-9 * abs(value) or size < 1e-6:
                break
            size /= 2
        theta, value = theta + size * step, tried
        if gain < _ENOUGH:
            return ChoiceFit(theta, np.linalg.inv(information), value)
    raise ValueError(
        f"no maximum after {_MOST_STEPS} Newton steps: the features separate the winners from the "
        "others, so that coefficients grow without bound"
    )


def _check_information(information: Array, squares: Array) -> None:
    variance = np.diag(information)
    # A variance that is rounding of the mean square is none.
    none = variance <= 1e-12 * squares
    if none.any():
        column = int(none.argmax())
        raise ValueError(
            f"column {column} of the features does not vary within candidate sets, or winners are "
            "separated by it: it has no estimate"
        )
    scale = np.sqrt(variance)
    if np.linalg.cond(information / np.outer(scale, scale)) > 1e13:
        raise ValueError("features are collinear within candidate sets; leave one out")


def _check_indices(values: npt.ArrayLike, name: str, ndim: int) -> Integers:
    """Indices as int64 with so many axes and at least one entry."""
    array = np.asarray(values)
    if array.ndim != ndim or array.size == 0:
        raise ValueError(f"{name} must have {ndim} axes and not be empty, got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, got {array.dtype}")
    return array.astype(np.int64)


def _check_winners(winners: npt.ArrayLike, shape: tuple[int, ...]) -> Integers:
    """Columns of the winners, one for each row of candidate sets of this shape."""
    w = _check_indices(winners, "winners", 1)
    if len(w) != shape[0]:
        raise ValueError(f"{len(w)} winners for {shape[0]} candidate sets")
    _check_range(w, shape[1], "winner")
    return w


def _check_distinct(rankings: Integers) -> None:
    """Raise for a candidate that is placed twice in a row."""
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
