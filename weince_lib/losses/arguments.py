"""Checks of what a caller passes to a loss: numbers, flags, options and batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .queue import NegativeQueue

Implementation = Literal["auto", "reference", "streaming"]
CandidateSet = Literal["two-view", "bipartite"]

#: Rows shorter than this have no direction; it is the ``eps`` of ``torch.nn.functional.normalize``.
ZERO_NORM = 1e-12
#: The dtypes embeddings may have. torch has no arithmetic for 8-bit floats.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Ranges of numbers, in the words of the error.
RANGES: dict[str, Callable[[float], bool]] = {
    "be finite": math.isfinite,
    "be positive and finite": lambda x: 0.0 < x < math.inf,
    "be finite and not negative": lambda x: 0.0 <= x < math.inf,
    "be at least 1": lambda x: x >= 1.0,
    "lie in (0, 1)": lambda x: 0.0 < x < 1.0,
    "lie in (0, 1]": lambda x: 0.0 < x <= 1.0,
    "lie in [0, 1)": lambda x: 0.0 <= x < 1.0,
    "lie in [0, 1]": lambda x: 0.0 <= x <= 1.0,
}


def exact_dtype(device: torch.device) -> torch.dtype:
    """The dtype that similarities near 1 are taken in on ``device``."""
    return torch.float32 if device.type == "mps" else torch.float64


def loss_dtype(z: Tensor) -> torch.dtype:
    """The dtype of losses and evidence: float64 for float64 embeddings, else float32."""
    return torch.float64 if z.dtype == torch.float64 else torch.float32


def check_number(name: str, value: object, must: str | None = None) -> None:
    """Raise ``ValueError`` unless ``value`` is a real number, no boolean, and in its range.

    Args:
        name: what the error calls it.
        value: to be checked.
        must: a key of :data:`RANGES`, if it has a range.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        given = f"a {tuple(value.shape)} tensor" if isinstance(value, Tensor) else repr(value)
        raise ValueError(f"{name} must be a number such as 0.5, got {given}")
    if must is not None and not RANGES[must](float(value)):
        raise ValueError(f"{name} must {must}, got {value}")


def check_flag(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is ``True`` or ``False``: the text "False" is true."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_temperature(temperature: object) -> None:
    """Raise ``ValueError`` unless ``temperature`` is a finite positive number."""
    if isinstance(temperature, Tensor):
        raise ValueError(
            "temperature must be a number such as 0.5, got a tensor; to learn it, pass "
            "logit_scale=log_scale.exp() with each call of the loss, where log_scale is a "
            "parameter of the model that starts at log(1 / temperature)"
        )
    check_number("temperature", temperature, "be positive and finite")


def check_impl(impl: str) -> None:
    """Raise ``ValueError`` for an unknown implementation, with the known ones listed."""
    if impl not in get_args(Implementation):
        raise ValueError(f"unknown impl {impl!r}; known: {', '.join(get_args(Implementation))}")


def check_memory(memory: int | None) -> None:
    """Raise ``ValueError`` unless a memory budget is None or a positive number of bytes."""
    if memory is not None and (not isinstance(memory, int) or memory < 1):
        raise ValueError(f"memory_budget must be a positive number of bytes, got {memory!r}")


def check_candidate_set(
    candidates: str, *, symmetric: bool, queue: NegativeQueue | None, negatives: bool = False
) -> None:
    """Raise ``ValueError`` for an unknown candidate set, or one that takes no further keys."""
    if candidates not in get_args(CandidateSet):
        known = ", ".join(get_args(CandidateSet))
        raise ValueError(f"unknown candidates {candidates!r}; known: {known}")
    if candidates == "bipartite" and symmetric and (queue is not None or negatives):
        raise ValueError(
            "a queue or explicit negatives are keys, so they serve the queries only; "
            "pass symmetric=False for the one-way loss"
        )


def logit_slope(
    temperature: float, logit_scale: Tensor | None, like: Tensor, *, validate: bool = True
) -> Tensor:
    """1 / tau as a scalar tensor: of the temperature, or a learnable one of its own.

    Args:
        temperature: tau; of no effect where ``logit_scale`` is given.
        logit_scale: 1 / tau itself, with one element; takes a gradient. There is no upper bound:
            clamped here it would lose its gradient and stay at the bound for good. CLIP's training
            loop clamps the parameter instead, ``log_scale.data.clamp_(0, math.log(100))``.
        like: gives the device.
        validate: also look at its sign, on the CPU and outside ``torch.compile``.

    Raises:
        ValueError: if ``logit_scale`` is no such tensor, or not positive and finite.
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
    if may_look(logit_scale, validate):
        check_number("logit_scale", float(logit_scale.detach()), "be positive and finite")
    return logit_scale.reshape(()).to(exact_dtype(like.device))


def check_embeddings(z: Tensor, name: str = "embeddings") -> None:
    """Raise ``ValueError`` for embeddings that have no cosine, with the first such row.

    Args:
        z: must be a floating-point matrix of finite rows with a direction.
        name: what the error calls it.
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
    """Raise ``ValueError`` unless a tensor is dense and of 16, 32 or 64-bit floating point."""
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
    """Raise ``ValueError`` unless ``z0`` and ``z1`` are two views of the same N items.

    Args:
        z0: first views, shape ``(N, d)``, any floating dtype.
        z1: second views, same shape and device.
        validate: also look for rows that are zero or not finite. Only done where it costs no
            synchronisation: on the CPU, outside ``torch.compile``.
        least: least N; a pair that has negatives elsewhere may be alone.
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
    if may_look(z0, validate):
        check_embeddings(z0, "z0")
        check_embeddings(z1, "z1")


def check_further(
    z0: Tensor,
    ids: Tensor | None,
    negatives: Tensor | None,
    queue: NegativeQueue | None,
    *,
    validate: bool = True,
) -> None:
    """Raise ``ValueError`` unless identities, negatives and queue fit the pairs.

    Args:
        z0: first views, shape ``(N, d)``.
        ids: identities, integers of shape ``(N,)``.
        negatives: further candidates, shape ``(K, d)``.
        queue: past embeddings of width d.
        validate: as for :func:`check_pairs`, of ``negatives``.
    """
    if ids is not None:
        if ids.shape != z0.shape[:1]:
            raise ValueError(
                f"ids must name each of the {z0.shape[0]} pairs once, shape ({z0.shape[0]},); "
                f"got {tuple(ids.shape)}"
            )
        if ids.is_floating_point() or ids.is_complex():
            raise ValueError(f"ids must be integers, got {ids.dtype}")
    if negatives is not None:
        if negatives.ndim != 2 or negatives.shape[1] != z0.shape[1]:
            raise ValueError(
                f"negatives must have shape (K, {z0.shape[1]}), got {tuple(negatives.shape)}"
            )
        check_kind(negatives, "negatives")
        if may_look(negatives, validate):
            check_embeddings(negatives, "negatives")
    if queue is not None and queue.dim != z0.shape[1]:
        raise ValueError(f"the queue holds rows of width {queue.dim}, the batch {z0.shape[1]}")


def may_look(z: Tensor, validate: bool) -> bool:
    """Whether reading values costs nothing: on a CPU, outside ``torch.compile``, and wanted."""
    return validate and z.device.type == "cpu" and not torch.compiler.is_compiling()
