"""Two-view batches: checks, cosine scores and the place of each positive.

Every loss of this package starts from the same three facts about a batch of ``N`` pairs: the
``M = 2N`` unit vectors, their ``(M, M)`` cosines, and the index of each anchor's positive. Both
views are stacked, first all of ``z0`` and then all of ``z1``, so that the positive of anchor ``i``
is ``(i + N) mod 2N``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Rows shorter than this have no direction; it is the ``eps`` of ``torch.nn.functional.normalize``.
ZERO_NORM = 1e-12
#: Rows with a larger entry are scaled down before their length is taken.
LONG_ROW = 1e15


def check_temperature(temperature: float) -> None:
    """Raise ``ValueError`` unless ``temperature`` is a finite positive number."""
    if not 0.0 < temperature < float("inf"):
        raise ValueError(f"temperature must be positive and finite, got {temperature}")


def check_embeddings(z: Tensor, name: str = "embeddings") -> None:
    """Raise one clear error for embeddings that have no cosine.

    Args:
        z: embeddings, shape ``(rows, d)``.
        name: what the error calls them.

    Raises:
        ValueError: if ``z`` is not a floating-point matrix, or holds a row that is not finite or
            has no direction; the first such row is named.
    """
    if z.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, d), got {tuple(z.shape)}")
    if not z.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {z.dtype}; call .float() first")
    finite = torch.isfinite(z).all(dim=1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise ValueError(f"{name}: row {row} holds NaN or infinity; {_count(~finite)} such rows")
    zero = z.detach().float().norm(dim=1) < ZERO_NORM
    if bool(zero.any()):
        row = int(zero.nonzero()[0, 0])
        raise ValueError(
            f"{name}: row {row} is zero, so it has no cosine; {_count(zero)} such rows "
            "(drop them, or see validate=False)"
        )


def _count(mask: Tensor) -> str:
    return f"{int(mask.sum())} of {mask.numel()}"


def check_pairs(z0: Tensor, z1: Tensor, *, validate: bool = True) -> None:
    """Raise one clear error unless ``z0`` and ``z1`` are two views of the same ``N >= 2`` items.

    Args:
        z0: first views, shape ``(N, d)``, any floating dtype.
        z1: second views, same shape and device.
        validate: also look for rows that are zero or not finite. Only done where it costs no
            synchronisation: on the CPU, outside ``torch.compile``.

    Raises:
        ValueError: naming the mismatch.
    """
    if z0.ndim != 2 or z0.shape != z1.shape:
        raise ValueError(
            "z0 and z1 must be two views of one batch, both (N, d); "
            f"got {tuple(z0.shape)} and {tuple(z1.shape)}"
        )
    if z0.shape[0] < 2:
        raise ValueError(
            f"a batch of N = {z0.shape[0]} pairs has no negatives; N must be 2 or more"
        )
    if not (z0.is_floating_point() and z1.is_floating_point()):
        raise ValueError(
            f"embeddings must be floating point, got {z0.dtype} and {z1.dtype}; call .float() first"
        )
    if z0.device != z1.device:
        raise ValueError(f"z0 is on {z0.device} and z1 on {z1.device}; move them together")
    if validate and z0.device.type == "cpu" and not torch.compiler.is_compiling():
        check_embeddings(z0, "z0")
        check_embeddings(z1, "z1")


def unit_rows(z: Tensor) -> Tensor:
    """Rows scaled to length 1. A zero row stays zero, and its gradient finite and moderate.

    Args:
        z: shape ``(rows, d)``, float32 or float64.
    """
    # The square of a float32 entry above 1.8e19 overflows: such rows are scaled down first.
    longest = z.detach().abs().amax(dim=1, keepdim=True)
    z = z / torch.where(longest > LONG_ROW, longest, 1.0)
    norm = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return z / torch.where(norm < ZERO_NORM, 1.0, norm)


def two_view_scores(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines of all ``M = 2N`` views by one matrix product, and each anchor's positive.

    The product runs in float32 (float64 for float64 input) whatever autocast says: half precision
    is wrong in the third digit of a cosine, which near the cap is the whole signal.

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape.

    Returns:
        ``scores``, shape ``(2N, 2N)``, and ``positives``, shape ``(2N,)``, the column of each
        anchor's positive. The diagonal holds self-similarities, which are no candidates.
    """
    n = z0.shape[0]
    with torch.autocast(z0.device.type, enabled=False):
        z = torch.cat([z0, z1])
        z = unit_rows(z if z.dtype == torch.float64 else z.float())
        scores = z @ z.T
    positives = torch.arange(2 * n, device=z.device).roll(n)
    return scores, positives


def candidate_cross_entropy(logits: Tensor, positives: Tensor) -> Tensor:
    """Mean negative log-likelihood of the positive among all candidates but the anchor itself.

    Args:
        logits: shape ``(M, M)``; the diagonal is ignored.
        positives: shape ``(M,)``, column of each anchor's positive.

    Returns:
        Scalar, in nats per anchor.
    """
    itself = torch.eye(logits.shape[0], dtype=torch.bool, device=logits.device)
    return F.cross_entropy(logits.masked_fill(itself, float("-inf")), positives)
