"""What a trained encoder's frozen features are worth: linear probes and nearest neighbours."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from .. import paths
from ..errors import InputError
from ..evaluation import (
    RECALL_KS,
    cached_features,
    knn_evaluate,
    linear_probe,
    stratified_split,
)
from ..records.store import Metric
from ..vision import ImageSet, SimCLR, extract_features
from ..vision.datasets import LEAST_PER_CLASS
from .config import VisionConfig

#: Features of a set larger than this are not kept on disk: ImageNet-32's would take 2.6 GB a run.
FEATURES_LIMIT = 2**28
#: The probe on standardised features, see :func:`evaluate`.
STANDARDISED = "standardised_linear_accuracy"
#: Of that probe: on 64 features of a small ResNet 3e-3 and 1e-2 end within 0.1 points.
STANDARDISED_LEARNING_RATE = 3e-3
Queries = dict[str, tuple[Tensor, Tensor]]
Probed = tuple[Tensor, Tensor, Queries]


def check_evaluable(labelled: ImageSet, config: VisionConfig) -> None:
    """Make sure that every class can be split 80/20 and the kNN bank holds enough images.

    Raises:
        ValueError: naming the class that is too small, or the size of the bank.
    """
    sizes = labelled.labels.bincount(minlength=len(labelled.classes))
    for name, size in zip(labelled.classes, sizes.tolist(), strict=True):
        if 0 < size < LEAST_PER_CLASS:
            raise InputError(
                f"{labelled.name}: class {name!r} has {size} of the {len(labelled)} labelled "
                f"images, too few for the 80/20 split, which needs {LEAST_PER_CLASS}: raise "
                "train_limit, or leave the class out"
            )
    for seed in config.split_seeds:
        bank = len(stratified_split(labelled.labels, seed=seed).train)
        if bank < max(RECALL_KS):
            raise InputError(
                f"{len(labelled)} labelled images leave a kNN bank of {bank}; R@{max(RECALL_KS)} "
                "needs as many: raise train_limit"
            )


def standardised(bank: Tensor, bank_labels: Tensor, queries: Queries) -> Probed:
    """Features ``(n, d)`` shifted and scaled to mean 0 and deviation 1 in the bank, per column.

    A column that is constant in the bank stays so.
    """
    mean, deviation = bank.mean(dim=0), bank.std(dim=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    return (
        (bank - mean) / deviation,
        bank_labels,
        {name: ((h - mean) / deviation, true) for name, (h, true) in queries.items()},
    )


def evaluate(
    model: SimCLR, train_set: ImageSet, test_set: ImageSet, config: VisionConfig
) -> list[Metric]:
    """:func:`evaluate_features` of a model's frozen features h.

    ``train_set`` is labelled: see :func:`labelled_images`.
    """
    # Probe and neighbours go where the encoder is: a GPU has room for any set's features.
    device = next(model.parameters()).device
    train_h = frozen_features(model, train_set).to(device)
    test_h = frozen_features(model, test_set).to(device)
    labels, test_labels = train_set.labels.to(device), test_set.labels.to(device)
    return evaluate_features(train_h, labels, test_h, test_labels, config)


def evaluate_features(
    train_h: Tensor,
    labels: Tensor,
    test_h: Tensor,
    test_labels: Tensor,
    config: VisionConfig,
    *,
    probes: bool = True,
) -> list[Metric]:
    """Linear probe and kNN on features (paper F.3, F.4); accuracies in percent.

    The probe uses the split of the first split seed and one fit per probe seed; kNN one bank per
    split seed. The whole test set counts in every one.

    At the paper's learning rate the probe of a narrow encoder is far from converged after its 100
    epochs, so that its accuracy depends on the scale of h as well (seen: 74 % against 80 % for
    logistic regression). ``standardised_linear_accuracy`` is the probe on h standardised with the
    bank's mean and deviation, at a learning rate with which it does converge.

    Args:
        train_h: features of the labelled training images, shape ``(n, d)``.
        labels: their class numbers, shape ``(n,)``.
        test_h: features of the test images, shape ``(m, d)``.
        test_labels: shape ``(m,)``.
        config: gives probe and split seeds and the probe's epochs.
        probes: without them there is kNN alone.
    """
    metrics: list[Metric] = []
    for seed in config.split_seeds:
        split = stratified_split(labels, seed=seed)
        bank, bank_labels = train_h[split.train], labels[split.train]
        queries = {
            "validation": (train_h[split.validation], labels[split.validation]),
            "test": (test_h, test_labels),
        }
        if probes and seed == config.split_seeds[0]:
            probe = linear_probe(
                bank, bank_labels, queries, seeds=config.probe_seeds, epochs=config.probe_epochs
            )
            scaled = linear_probe(
                *standardised(bank, bank_labels, queries),
                seeds=config.probe_seeds,
                epochs=config.probe_epochs,
                learning_rate=STANDARDISED_LEARNING_RATE,
            )
            for metric, fits in (("linear_accuracy", probe), (STANDARDISED, scaled)):
                for name, values in fits.accuracy.items():
                    metrics += [
                        Metric(metric, value, name, probe_seed)
                        for probe_seed, value in zip(fits.seeds, values, strict=True)
                    ]
        for name, (h, true) in queries.items():
            found = knn_evaluate(bank, bank_labels, h, true)
            metrics += [Metric(metric, value, name, seed) for metric, value in found.items()]
    return metrics


def frozen_features(model: SimCLR, images: ImageSet) -> Tensor:
    """Features h of a set on the CPU, kept in ``runs/features/`` unless they are very large.

    An evaluation that is cut off, or another one of the same encoder, then finds them.
    """
    feature_dim = cast(int, model.encoder.feature_dim)
    if features_bytes(len(images), feature_dim) == 0:
        return extract_features(model.encoder, images.images)
    return cached_features(
        model.encoder,
        images.images,
        images.content_hash(),
        folder=paths.runs() / "features",
        extract=extract_features,
    )


def features_bytes(count: int, feature_dim: int) -> int:
    """Disk that the float32 features of ``count`` images take; 0 if they are not kept."""
    size = 4 * count * feature_dim
    return size if size <= FEATURES_LIMIT else 0
