"""The paper's vision study: which data set is trained with which encoder (Tables 2, 3, 6 and 7)."""

from __future__ import annotations

from typing import Any

from ..runs.config import ConfigError, VisionConfig, vision_config

#: Encoders of each data set. Tiny-ImageNet is the sweep that the paper calls its rebuttal's.
PAPER_ENCODERS = {
    "cifar10": ("resnet18", "resnet50"),
    "cifar100": ("resnet18", "resnet50"),
    "stl10": ("resnet18", "resnet50"),
    "imagenet32": ("resnet18", "resnet50"),
    "tiny-imagenet": ("resnet18", "vit-small"),
}
#: What ``paper/reported`` calls our data sets and encoders.
REPORTED_NAMES = {
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "stl10": "STL10",
    "imagenet32": "ImageNet32",
    "tiny-imagenet": "TinyImageNet",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "vit-small": "vit_small",
}


def paper_cells() -> tuple[tuple[str, str], ...]:
    """All pairs of data set and encoder, data set by data set."""
    return tuple((data, name) for data, names in PAPER_ENCODERS.items() for name in names)


def paper_config(dataset: str, encoder: str, **settings: Any) -> VisionConfig:
    """A run of one of the paper's cells: the profile ``paper`` with its data set and encoder.

    Args:
        dataset: a key of :data:`PAPER_ENCODERS`.
        encoder: one of its encoders.
        settings: further ones, see :func:`vision_config`.

    Raises:
        ConfigError: for a pair that is not in the paper, with those that are; otherwise as
            :func:`vision_config`.
    """
    if (dataset, encoder) not in paper_cells():
        known = ", ".join(f"{data} with {name}" for data, name in paper_cells())
        raise ConfigError(f"the paper has no {dataset} with {encoder}; it has {known}")
    return vision_config("paper", dataset=dataset, encoder=encoder, **settings)
