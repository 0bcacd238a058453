"""A frozen encoder's batches: their cosines, and the choices they make.

A :class:`ScoreBank` holds the cosines of batches of two views. A :class:`ChoiceBank` holds those of
each anchor's candidates, and says which one is the positive.

Paper, section 2.3.2: each anchor view of a batch faces the other 2B - 1 views, and the "winner" is
its paired positive. The scores are those of a frozen model and are not fitted; only the link from
scores to winning probabilities is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..checks import check_at_least
from ..losses.arguments import check_pairs
from ..losses.candidates import two_view_scores

Array = npt.NDArray[np.float64]
Augment = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]

#: How far above 1 a cosine may be by the rounding of float32.
ABOVE_ONE = 1e-5
#: A loser no farther than this from its anchor is the same item, in the batch a second time: at
#: cosine 1 as far as float32 scores, which are exact to 6e-8, can tell.
IDENTICAL = 1e-7
#: A loser nearer than this is a near-duplicate, as :func:`weince_lib.diagnostics.diagnose` counts
#: them: it stays a candidate.
NEAR_DUPLICATE = 1e-3


@dataclass(frozen=True)
class ScoreBank:
    """Cosines of several batches of ``N`` pairs from a frozen model.

    Attributes:
        scores: shape ``(batches, 2N, 2N)``, float32; the diagonal holds self-similarities.
        positives: shape ``(2N,)``, column of each anchor's positive, the same in every batch.
    """

    scores: Tensor
    positives: Tensor

    def negatives(self) -> Tensor:
        """Cosines of all negative pairs, every unordered pair once, shape ``(pairs,)``."""
        size = self.scores.shape[1]
        upper = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
        upper[torch.arange(size), self.positives] = False
        return self.scores[:, upper].flatten()


@torch.no_grad()
def two_view_bank(
    model: nn.Module,
    images: Tensor,
    augment: Augment,
    *,
    batches: int = 32,
    batch_size: int = 256,
    seed: int = 0,
    disjoint: bool = False,
) -> ScoreBank:
    """Score ``batches`` batches of two augmented views with a frozen model.

    Args:
        model: maps images to the embeddings ``z`` the loss sees; used in evaluation mode.
        images: uint8, shape ``(n, C, H, W)``; drawn without replacement within a batch.
        augment: maps a batch and a generator to two views; the one used in training.
        batches: 32 in the paper (section 2.3.2).
        batch_size: pairs per batch N, 256 in the paper.
        seed: of the draws and the augmentation.
        disjoint: no image is in two batches. Intervals over batches, and batches that are held
            out, take batches for independent; with few images they share many otherwise.

    Raises:
        ValueError: if there are fewer images than one batch, or than all disjoint batches together,
            or the model gives embeddings that are zero or not finite (the row is named).
    """
    check_at_least("batches", batches, 1)
    if len(images) < batch_size * (batches if disjoint else 1):
        wanted = f"{batches} disjoint batches" if disjoint else "batch"
        raise ValueError(f"{len(images)} images make no {wanted} of {batch_size}; lower batch_size")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator) if disjoint else None
    was_training = model.training
    model.eval()
    parts = []
    try:
        for batch in range(batches):
            if order is None:
                drawn = torch.randperm(len(images), generator=generator)[:batch_size]
            else:
                drawn = order[batch * batch_size : (batch + 1) * batch_size]
            z0, z1 = (model(view) for view in augment(images[drawn], generator))
            check_pairs(z0, z1)
            scores, positives = two_view_scores(z0, z1)
            parts.append(scores)
    finally:
        model.train(was_training)
    return ScoreBank(torch.stack(parts), positives)


@dataclass(frozen=True)
class ChoiceBank:
    """Cosines of every anchor's candidates, the winner's first.

    A loser at cosine 1 is no candidate: it is the anchor's own item once more, whether the winner
    beats it says nothing of the link, and in the endpoint coordinate, which has no bound there, a
    single one would decide the fit. Such losers (:attr:`identical`) keep their place and are left
    out of every fit.

    Attributes:
        scores: shape ``(batches, anchors, candidates)``, float64, cosines in [-1, 1]. Column 0 is
            the winner's, the others are the losers' in any order.

    Raises:
        ValueError: for another shape, fewer than two candidates, or scores that are not finite or
            are no cosines (the first is named).
    """

    scores: Array

    def __post_init__(self) -> None:
        shape = self.scores.shape
        if len(shape) != 3 or 0 in shape or shape[2] < 2:
            raise ValueError(
                "scores must have shape (batches, anchors, candidates) with two candidates or "
                f"more, got {shape}"
            )
        bad = ~(np.abs(self.scores) <= 1.0 + ABOVE_ONE)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise ValueError(
                f"scores{list(where)} is {self.scores[where]:g}, not a cosine; normalise the "
                "embeddings, or drop rows that are not finite"
            )

    @property
    def batches(self) -> int:
        """Number of batches."""
        return self.scores.shape[0]

    @property
    def anchors(self) -> int:
        """Anchors of all batches together."""
        return self.scores.shape[0] * self.scores.shape[1]

    @property
    def negatives(self) -> int:
        """Losers that each anchor has."""
        return self.scores.shape[2] - 1

    @cached_property
    def identical(self) -> npt.NDArray[np.bool_]:
        """Which losers are at cosine 1, shape ``(batches, anchors, negatives)``."""
        return np.asarray(1.0 - self.scores[..., 1:] <= IDENTICAL)

    @property
    def near_duplicates(self) -> int:
        """Losers at a cosine of 0.999 or more that are not :attr:`identical`."""
        near = 1.0 - self.scores[..., 1:] <= NEAR_DUPLICATE
        return int(near.sum()) - int(self.identical.sum())

    def _losers(self) -> Array:
        """The losers' scores, the identical ones after all others."""
        return np.where(self.identical, -np.inf, self.scores[..., 1:])

    def _with_nearest(self, winners: Array, losers: Array, count: int) -> Array:
        """Winners and the ``count`` nearest of their losers; identical ones are at 1 again."""
        nearest = np.partition(losers, self.negatives - count, axis=-1)[..., -count:]
        nearest = np.where(np.isneginf(nearest), 1.0, nearest)
        return np.concatenate([winners, nearest], axis=-1)

    def of(self, batches: Iterable[int]) -> ChoiceBank:
        """Some of the batches, by number."""
        return ChoiceBank(self.scores[list(batches)])

    def hardest(self, count: int) -> ChoiceBank:
        """Keep the winner and each anchor's ``count`` most similar negatives (Figure 7).

        An anchor with fewer negatives that are not identical keeps some that are, which count
        nowhere.

        Raises:
            ValueError: if there are not so many negatives.
        """
        self._check_count(count)
        return ChoiceBank(self._with_nearest(self.scores[..., :1], self._losers(), count))

    def hardest_candidates(self, count: int) -> ChoiceBank:
        """Choices among each anchor's ``count + 1`` most similar candidates, winner or not.

        Anchors whose winner is not among them are left out. Which candidates remain then does not
        depend on who won, and the winners of a softmax over all candidates are winners of the same
        softmax over these. For :meth:`hardest`, which keeps the winner in any case, that is not so
        (McFadden 1978, "Modelling the choice of residential location": uniform conditioning).

        Returns:
            The anchors of all batches as one batch, since their number differs between batches.

        Raises:
            ValueError: if there are not so many candidates, or no winner is among them.
        """
        self._check_count(count)
        winner = self.scores[..., :1]
        # Ties count for the winner: it is then one of several that could be kept.
        losers = self._losers()
        kept = (losers > winner).sum(axis=-1) <= count
        if not kept.any():
            raise ValueError(f"no winner is among its anchor's {count + 1} nearest candidates")
        return ChoiceBank(self._with_nearest(winner[kept], losers[kept], count)[None])

    def pool(self, count: int, *, seed: int = 0) -> ChoiceBank:
        """Keep the winner and ``count`` negatives of each anchor drawn at random (Figure 8).

        Smaller pools of one seed are parts of the larger ones, so that a curve over the pool's
        size is not roughened by new draws.

        Raises:
            ValueError: if there are not so many negatives.
        """
        self._check_count(count)
        draw = np.random.default_rng(seed)
        order = draw.permuted(
            np.broadcast_to(np.arange(1, self.negatives + 1), self.scores[..., 1:].shape), axis=-1
        )
        chosen = np.take_along_axis(self.scores, order[..., :count], axis=-1)
        return ChoiceBank(np.concatenate([self.scores[..., :1], chosen], axis=-1))

    def with_winners(self, winners: npt.NDArray[np.intp]) -> ChoiceBank:
        """The same candidates with other winners, for simulated choices.

        Args:
            winners: column of each anchor's new winner, shape ``(batches, anchors)``.
        """
        scores = self.scores.copy()
        index = winners[..., None]
        new = np.take_along_axis(scores, index, axis=-1)
        np.put_along_axis(scores, index, scores[..., :1], axis=-1)
        scores[..., :1] = new
        return ChoiceBank(scores)

    def _check_count(self, count: int) -> None:
        if not 1 <= count <= self.negatives:
            raise ValueError(
                f"count must lie between 1 and the {self.negatives} negatives, got {count}"
            )


def choices_of(bank: ScoreBank, *, every: int = 1) -> ChoiceBank:
    """The choices in a score bank: all views but the anchor are candidates, the positive wins.

    The bank's cosines are float32, exact to 6e-8; that is a thousandth of the shortfall of a pair
    at cosine 0.9999.

    Args:
        bank: 32 batches of 256 pairs in the paper.
        every: take only every so-manyth view of a batch as an anchor, for speed.

    Returns:
        Scores of shape ``(batches, 2B, 2B - 1)``, or with fewer anchors.
    """
    batches, size, _ = bank.scores.shape
    anchors = torch.arange(size)
    others = torch.ones(size, size, dtype=torch.bool)
    others[anchors, anchors] = False
    others[anchors, bank.positives] = False
    scores = bank.scores.double().cpu().numpy()
    winners = scores[:, anchors.numpy(), bank.positives.cpu().numpy()][..., None]
    losers = scores[:, others.numpy()].reshape(batches, size, size - 2)
    return ChoiceBank(np.concatenate([winners, losers], axis=-1)[:, ::every])


def draw_winners(bank: ChoiceBank, logits: np.ndarray, *, seed: int = 0) -> ChoiceBank:
    """The same scores with winners drawn with the given logits; none of them is at cosine 1.

    Args:
        bank: the choices.
        logits: shape of ``bank.scores``.
        seed: of the winners.
    """
    draw = np.random.default_rng(seed)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights[..., 1:][bank.identical] = 0.0
    cumulative = np.cumsum(weights, axis=-1)
    uniform = draw.random(logits.shape[:2]) * cumulative[..., -1]
    winners = (uniform[..., None] > cumulative).sum(axis=-1)
    return bank.with_winners(np.minimum(winners, logits.shape[-1] - 1))
