"""A run's frozen features, kept on disk where that costs less than computing them again."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from .. import paths
from ..evaluation import cached_features
from ..vision import ImageSet, SimCLR, extract_features

#: Features of a set larger than this are not kept on disk: ImageNet-32's would take 2.6 GB a run.
FEATURES_LIMIT = 2**28


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
