"""Two-view batches: checks, cosine scores and the place of each positive.

Every loss of this package starts from the same three facts about a batch of ``N`` pairs: the
``M = 2N`` unit vectors, their ``(M, M)`` cosines, and the index of each anchor's positive. Both
views are stacked, first all of ``z0`` and then all of ``z1``, so that the positive of anchor ``i``
is ``(i + N) mod 2N``.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from .arguments import check_flag, check_temperature

#: What embeddings may be of; 8-bit floats know no arithmetic.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Rows shorter than this have no direction; it is the ``eps`` of ``torch.nn.functional.normalize``.
ZERO_NORM = 1e-12

Implementation = Literal["auto", "reference", "streaming"]


def resolve_impl(impl: str) -> Literal["reference", "streaming"]:
    """The implementation behind ``impl``: ``"auto"`` is streaming, which is never the worse one.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    if impl not in get_args(Implementation):
        raise ValueError(f"unknown impl {impl!r}; known: {', '.join(get_args(Implementation))}")
    return "reference" if impl == "reference" else "streaming"


def logit_slope(
    temperature: float, logit_scale: Tensor | None, like: Tensor, *, validate: bool = True
) -> Tensor:
    """1 / tau as a scalar tensor: of the temperature, or a learnable one of its own.

    Args:
        temperature: tau; of no effect where ``logit_scale`` is given.
        logit_scale: 1 / tau itself (CLIP keeps its logarithm; pass ``log_scale.exp()``), with one
            element; takes a gradient. It is taken as it is, without an upper bound: clamped here
            it would lose its gradient and stay at the bound for good. CLIP's training loop clamps
            the parameter after each step instead, ``log_scale.data.clamp_(0, math.log(100))``.
        like: gives the device.
        validate: also look at its sign, on the CPU and outside ``torch.compile``.

    Raises:
        ValueError: if ``logit_scale`` has more elements than one, is no floating-point number, is
            on another device, or is not positive and finite.
    """
    check_temperature(temperature)
    check_flag("validate", validate)
    if logit_scale is None:
        return torch.full((), 1.0 / temperature, dtype=exact_dtype(like.device), device=like.device)
    if not isinstance(logit_scale, Tensor):
        raise ValueError(
            f"logit_scale must be a tensor of one element, got {logit_scale!r}; a fixed number "
            "is 1 / temperature"
        )
    if logit_scale.numel() != 1 or not logit_scale.is_floating_point():
        raise ValueError(
            "logit_scale must be one floating-point number, "
            f"got shape {tuple(logit_scale.shape)} of {logit_scale.dtype}"
        )
    if logit_scale.device != like.device:
        raise ValueError(f"logit_scale is on {logit_scale.device}, the embeddings on {like.device}")
    if validate and logit_scale.device.type == "cpu" and not torch.compiler.is_compiling():
        value = float(logit_scale.detach())
        if not 0.0 < value < float("inf"):
            raise ValueError(f"logit_scale must be positive and finite, got {value}")
    return logit_scale.reshape(()).to(exact_dtype(like.device))


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
    check_kind(z, name)
    norm = torch.linalg.vector_norm(z.detach().float(), dim=1)
    if norm.numel():
        least, most = (float(end) for end in norm.aminmax())
        if least >= ZERO_NORM and most < float("inf"):  # neither holds for NaN
            return  # one look is enough for a good batch
    finite = torch.isfinite(z).all(dim=1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise ValueError(f"{name}: row {row} holds NaN or infinity; {_count(~finite)} such rows")
    zero = norm < ZERO_NORM
    if bool(zero.any()):
        row = int(zero.nonzero()[0, 0])
        raise ValueError(
            f"{name}: row {row} {describe_short(float(norm[row]))}, so it has no cosine; "
            f"{_count(zero)} such rows (drop them, or see validate=False)"
        )


def describe_short(norm: float) -> str:
    """What a row shorter than :data:`ZERO_NORM` is, for messages."""
    return "is zero" if norm == 0.0 else f"has norm {norm:.3g}, below {ZERO_NORM:g}"


def check_kind(z: Tensor, name: str) -> None:
    """Raise one clear error unless a tensor is dense and of 16, 32 or 64-bit floating point.

    Raises:
        ValueError: for integers, quantised or sparse tensors and 8-bit floats, with the call that
            converts them.
    """
    if z.is_quantized:
        raise ValueError(f"{name} must be floating point, got {z.dtype}; call .dequantize() first")
    if z.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor, got {z.layout}; call .to_dense() first")
    if z.dtype not in FLOATS:
        bits = " of 16 bits or more" if z.is_floating_point() else ""
        raise ValueError(f"{name} must be floating point{bits}, got {z.dtype}; call .float() first")


def _count(mask: Tensor) -> str:
    return f"{int(mask.sum())} of {mask.numel()}"


def check_pairs(z0: Tensor, z1: Tensor, *, validate: bool = True, least: int = 2) -> None:
    """Raise one clear error unless ``z0`` and ``z1`` are two views of the same N items.

    Args:
        z0: first views, shape ``(N, d)``, any floating dtype.
        z1: second views, same shape and device.
        validate: also look for rows that are zero or not finite. Only done where it costs no
            synchronisation: on the CPU, outside ``torch.compile``.
        least: least N; a pair that has negatives elsewhere may be alone.

    Raises:
        ValueError: naming the mismatch.
    """
    if z0.ndim != 2 or z0.shape != z1.shape:
        raise ValueError(
            "z0 and z1 must be two views of one batch, both (N, d); "
            f"got {tuple(z0.shape)} and {tuple(z1.shape)}"
        )
    if z0.shape[0] < least:
        raise ValueError(
            f"a batch of N = {z0.shape[0]} pairs has no negatives; N must be {least} or more"
        )
    check_kind(z0, "z0")
    check_kind(z1, "z1")
    if z0.device != z1.device:
        raise ValueError(f"z0 is on {z0.device} and z1 on {z1.device}; move them together")
    if validate and z0.device.type == "cpu" and not torch.compiler.is_compiling():
        check_embeddings(z0, "z0")
        check_embeddings(z1, "z1")


def stack_views(z0: Tensor, z1: Tensor) -> Tensor:
    """All of ``z0``, then all of ``z1``, shape ``(2N, d)``; autocast must not choose the dtype."""
    with torch.autocast(z0.device.type, enabled=False):
        return torch.cat([z0, z1])


def unit_rows(z: Tensor) -> Tensor:
    """Rows of length 1 in float64, whatever autocast says; zero rows stay zero.

    A row of float32 numbers is a unit vector only to 6e-8, which is 1e-4 of the distance between
    two vectors of shortfall 1e-6; in float64 nothing is lost. The gradient of a zero row, which
    has no direction, is zero.

    Args:
        z: embeddings, shape ``(rows, d)``, any floating dtype.

    Returns:
        Shape ``(rows, d)``, float64 (float32 on Apple's GPUs, which have no float64).
    """
    with torch.autocast(z.device.type, enabled=False):
        return _unit_rows(z.to(exact_dtype(z.device)))[0]


def _unit_rows(z: Tensor) -> tuple[Tensor, Tensor]:
    norm = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    # The clamp keeps the unused branch finite: 0 times an infinite derivative is NaN.
    inverse = torch.where(norm < ZERO_NORM, 0.0, 1.0 / norm.clamp_min(ZERO_NORM))
    return z * inverse, inverse


class UnitRowsOnce(torch.autograd.Function):
    """:func:`unit_rows` with its first derivative in closed form, at a third of the cost.

    The derivative of z / |z| in direction g is (g - u (u . g)) / |z| with u the unit row.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Return the unit rows of ``z``."""
        unit, inverse = _unit_rows(z.to(exact_dtype(z.device)))
        ctx.save_for_backward(unit, inverse)
        ctx.dtype = z.dtype
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """Project the gradient on the tangent space of each row."""
        unit, inverse = ctx.saved_tensors
        along = (unit * grad).sum(1, keepdim=True)
        return torch.addcmul(grad, unit, along, value=-1.0).mul_(inverse).to(ctx.dtype)


def exact_dtype(device: torch.device) -> torch.dtype:
    """The dtype that similarities near 1 are taken in on ``device``."""
    return torch.float32 if device.type == "mps" else torch.float64


def loss_dtype(z: Tensor) -> torch.dtype:
    """The dtype of losses and evidence: float64 for float64 embeddings, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def two_view_cosines(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`two_view_scores`, but not yet rounded: float64 for every input."""
    n = z0.shape[0]
    z = unit_rows(stack_views(z0, z1))
    with torch.autocast(z.device.type, enabled=False):
        scores = z @ z.T
    return scores, torch.arange(2 * n, device=z.device).roll(n)


def two_view_scores(z0: Tensor, z1: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines of all ``M = 2N`` views by one matrix product, and each anchor's positive.

    The product runs in float64, which neither autocast nor TensorFloat-32 touches: half precision
    is wrong in the third digit of a cosine, which near the cap is the whole signal.

    Args:
        z0: first views, shape ``(N, d)``; rows need not be normalised.
        z1: second views, same shape.

    Returns:
        ``scores``, shape ``(2N, 2N)``, float32 (float64 for float64 input), and ``positives``,
        shape ``(2N,)``, the column of each anchor's positive. The diagonal holds
        self-similarities, which are no candidates.
    """
    scores, positives = two_view_cosines(z0, z1)
    return scores.to(loss_dtype(z0)), positives


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
