"""Linear probe on frozen features (paper Appendix F.3).

Multinomial logistic regression by Adam: one linear layer, cross-entropy, minibatches, no weight
decay, nothing dropped from any set. The probes of all seeds are trained together as one batched
layer. Seeds share nothing (own initial weights, own batch order, a sum of losses whose gradient
splits by seed, and Adam works elementwise), so the results are those of training them one by one.

The gradient of one layer under cross-entropy is short enough to be written out, (p - y) x^T, which
saves what automatic differentiation costs on small matrices (tests/benchmarks/evaluation.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..checks import check_at_least, check_labelled_features, check_positive
from .features import full_precision

#: The paper's probe seeds.
PROBE_SEEDS = (1, 2, 3, 4, 5)
#: Rows scored at once, so that logits of a large test set with many classes fit in memory.
EVALUATION_BLOCK = 4096


@dataclass(frozen=True)
class ProbeResult:
    """Accuracies of one encoder's probes.

    Attributes:
        seeds: probe seeds, in the order of the accuracies.
        accuracy: for every evaluation set, the accuracy in percent of each seed's probe.
    """

    seeds: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]


def linear_probe(
    train_features: Tensor,
    train_labels: Tensor,
    evaluate: Mapping[str, tuple[Tensor, Tensor]],
    *,
    seeds: Sequence[int] = PROBE_SEEDS,
    epochs: int = 100,
    batch_size: int = 256,
    learning_rate: float = 3e-4,
) -> ProbeResult:
    """Train one linear classifier per seed on frozen features and score it on every set.

    The number of classes is the largest training label plus one. Every training row is used in
    every epoch (the last, smaller batch too) and every evaluation row is counted.

    Args:
        train_features: encoder outputs h, shape ``(rows, d)``; used as they are, not normalised.
        train_labels: class numbers from 0, shape ``(rows,)``.
        evaluate: features and labels of each evaluation set by name, for instance ``"validation"``
            and ``"test"``.
        seeds: probe seeds; each sets initial weights and batch order, on the CPU.
        epochs: passes over the training rows; the paper's 100.
        batch_size: rows per step; the paper's 256.
        learning_rate: Adam's; the paper's 3e-4.

    Returns:
        A :class:`ProbeResult`. A seed's result does not depend on which other seeds are trained
        (up to rounding, should a device multiply batches of matrices in another order).

    Raises:
        ValueError: for features that are not finite (naming the row), sets that do not fit each
            other, an evaluation label that training never saw, repeated or missing seeds, and
            settings that are not positive.
    """
    _check(train_features, train_labels, evaluate, seeds)
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        check_at_least(name, value, 1)
    check_positive("learning_rate", learning_rate)
    weight, bias = train_layers(
        full_precision(train_features.detach()),
        train_labels.long(),
        seeds,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
    )
    accuracy = {
        name: percent_correct(weight, bias, x.detach(), y) for name, (x, y) in evaluate.items()
    }
    return ProbeResult(tuple(seeds), accuracy)


def train_layers(
    features: Tensor,
    labels: Tensor,
    seeds: Sequence[int],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
) -> tuple[Tensor, Tensor]:
    """Train one linear layer for each of S seeds, all at once.

    Arguments are those of :func:`linear_probe`, with features in float32 or float64.

    Returns:
        Weights, shape ``(S, C, d)``, and biases, shape ``(S, C)``; they need no gradient.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    # Autocast would round the logits.
    with torch.no_grad(), torch.autocast(features.device.type, enabled=False):
        weight, bias = initial_layers(generators, int(labels.max()) + 1, features)
        # One kernel for the whole step where there is one.
        fused = features.device.type in ("cpu", "cuda")
        optimiser = torch.optim.Adam([weight, bias], lr=learning_rate, fused=fused)
        for _ in range(epochs):
            orders = [torch.randperm(len(features), generator=g) for g in generators]
            for rows in torch.stack(orders).to(features.device).split(batch_size, dim=1):
                weight.grad, bias.grad = mean_gradients(weight, bias, features, labels, rows)
                optimiser.step()
    return weight, bias


def mean_gradients(
    weight: Tensor, bias: Tensor, features: Tensor, labels: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of each seed's mean cross-entropy over its batch.

    With logits W x + b and their softmax p, they are the batch means of (p - y) x^T and p - y,
    y the one-hot label. ``rows`` are each seed's batch, shape ``(S, B)``; the gradients have the
    shapes of ``weight``, ``(S, C, d)``, and ``bias``, ``(S, C)``.
    """
    seeds, size = rows.shape
    # index_select copies whole rows; indexing with a matrix goes by element and is slower.
    x = features.index_select(0, rows.flatten()).view(seeds, size, -1)
    y = labels[rows][:, None]
    # Classes before rows: both products then run along contiguous memory.
    residual = torch.baddbmm(bias[:, :, None], weight, x.mT).softmax(dim=1)
    residual.scatter_add_(1, y, residual.new_full((), -1.0).expand(y.shape))
    residual /= size
    return residual @ x, residual.sum(dim=2)


def initial_layers(
    generators: Sequence[torch.Generator], classes: int, like: Tensor
) -> tuple[Tensor, Tensor]:
    """Initial weights ``(S, C, d)`` and biases ``(S, C)``, one layer per generator.

    Uniform on ``[-1/sqrt(d), 1/sqrt(d)]``, as ``torch.nn.Linear`` does. ``like`` are the features,
    shape ``(rows, d)``, for width, dtype and device.
    """
    width = like.shape[1]
    bound = width**-0.5
    weights, biases = [], []
    for generator in generators:
        weights.append(torch.empty(classes, width).uniform_(-bound, bound, generator=generator))
        biases.append(torch.empty(classes).uniform_(-bound, bound, generator=generator))
    weight = torch.stack(weights).to(like.device, like.dtype)
    return weight, torch.stack(biases).to(like.device, like.dtype)


@torch.no_grad()
def percent_correct(
    weight: Tensor, bias: Tensor, features: Tensor, labels: Tensor
) -> tuple[float, ...]:
    """Accuracy in percent of S linear layers, shapes ``(S, C, d)`` and ``(S, C)``, on all rows."""
    correct = torch.zeros(len(weight), dtype=torch.long, device=features.device)
    with torch.autocast(features.device.type, enabled=False):
        for x, y in zip(
            features.to(weight.dtype).split(EVALUATION_BLOCK),
            labels.split(EVALUATION_BLOCK),
            strict=True,
        ):
            logits = torch.baddbmm(bias[:, None], x.expand(len(weight), -1, -1), weight.mT)
            correct += (logits.argmax(dim=2) == y).sum(dim=1)
    return tuple(100.0 * count / len(labels) for count in correct.tolist())


def _check(
    features: Tensor,
    labels: Tensor,
    evaluate: Mapping[str, tuple[Tensor, Tensor]],
    seeds: Sequence[int],
) -> None:
    """Raise unless every set is sound and fits the training set."""
    check_labelled_features(features, labels, "train")
    if not evaluate:
        raise ValueError("evaluate is empty; name at least one set, such as 'validation'")
    highest = int(labels.max())
    for name, (x, y) in evaluate.items():
        check_labelled_features(x, y, name)
        if x.shape[1] != features.shape[1]:
            raise ValueError(
                f"{name} features have width {x.shape[1]}, train features {features.shape[1]}"
            )
        if x.device != features.device:
            raise ValueError(
                f"{name} is on {x.device} and train on {features.device}; move them together"
            )
        if int(y.max()) > highest:
            raise ValueError(
                f"{name} labels hold class {int(y.max())}, train labels only 0 to {highest}"
            )
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must be at least one and all different, got {tuple(seeds)}")
