"""Winners and rankings by the Gumbel-max trick: add Gumbel noise to each score, then compare.

U_j = s_j / tau + eps_j with standard Gumbel eps (paper Eq. 2.3). The largest U_j wins with the
softmax probability, and the order of all U_j is a Plackett-Luce ranking (Yellott 1977).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..checks import check_at_least, check_positive
from ..links import check_scores
from .likelihood import Array, Integers

#: Utilities held in memory at a time.
BLOCK = 2_000_000


def sample_winners(
    scores: npt.ArrayLike, repetitions: int, *, temperature: float = 1.0, seed: int = 0
) -> Integers:
    """Draw the winner of a candidate set many times.

    Args:
        scores: of one candidate set, shape ``(candidates,)``.
        repetitions: independent choices.
        temperature: tau, the scale of the noise in units of the score.
        seed: of numpy's generator.

    Returns:
        Index of the winner, shape ``(repetitions,)``.

    Raises:
        ValueError: for scores of another shape, fewer than two or not finite, a temperature that
            is not positive, or fewer than one repetition.
    """
    blocks = _utilities(scores, repetitions, temperature, seed)
    return np.concatenate([u.argmax(axis=1) for u in blocks]).astype(np.int64)


def sample_rankings(
    scores: npt.ArrayLike, repetitions: int, *, temperature: float = 1.0, seed: int = 0
) -> Integers:
    """Draw whole Plackett-Luce rankings; the first place is :func:`sample_winners`'s winner.

    Args:
        scores: of one candidate set, shape ``(candidates,)``.
        repetitions: independent rankings.
        temperature: tau, the scale of the noise in units of the score.
        seed: of numpy's generator.

    Returns:
        Candidates best first, shape ``(repetitions, candidates)``.

    Raises:
        ValueError: as :func:`sample_winners` does.
    """
    blocks = _utilities(scores, repetitions, temperature, seed)
    return np.concatenate([np.argsort(-u, axis=1) for u in blocks]).astype(np.int64)


def block_sizes(repetitions: int, candidates: int) -> Iterator[int]:
    """Split repetitions so that no block holds more than :data:`BLOCK` utilities.

    Raises:
        ValueError: for fewer than one repetition.
    """
    check_at_least("repetitions", repetitions, 1)
    most = max(1, BLOCK // candidates)
    for start in range(0, repetitions, most):
        yield min(most, repetitions - start)


def _utilities(
    scores: npt.ArrayLike, repetitions: int, temperature: float, seed: int
) -> Iterator[Array]:
    s = check_scores(scores)
    if s.ndim != 1:
        raise ValueError(f"scores must have shape (candidates,), got {s.shape}")
    location = s / check_positive("temperature", temperature)
    rng = np.random.default_rng(seed)
    for size in block_sizes(repetitions, s.size):
        # Not -log(-log(u)) by hand: u = 0 would give log(0); numpy draws such a u again.
        yield location + rng.gumbel(size=(size, s.size))
