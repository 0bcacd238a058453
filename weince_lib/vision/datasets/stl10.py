"""STL-10: 100,000 unlabelled, 5,000 + 8,000 labelled colour images of 96 x 96 pixels.

Coates, Ng and Lee (2011), AISTATS. Contrastive training takes the unlabelled images; probe and kNN
the labelled ones. Binary files: images as bytes, for each its red, green and blue plane and each
plane column by column; labels as bytes from 1 to 10. URL and hashes are torchvision's.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch

from .image_set import UNLABELLED, ImageSet
from .published import Archive, Published

SIDE = 96
CLASSES = (
    "airplane",
    "bird",
    "car",
    "cat",
    "deer",
    "dog",
    "horse",
    "monkey",
    "ship",
    "truck",
)


@cache
def spec() -> Published:
    """What is published."""
    from torchvision.datasets import STL10

    return Published(
        name="stl10",
        title="STL-10",
        folder=STL10.base_folder,
        files={
            "train": ("train_X.bin", "train_y.bin"),
            "test": ("test_X.bin", "test_y.bin"),
            "unlabeled": ("unlabeled_X.bin",),
        },
        md5=dict(STL10.train_list + STL10.test_list),
        classes=len(CLASSES),
        source=STL10.url,
        archive=Archive(STL10.filename, STL10.tgz_md5, STL10.url),
    )


def read(published: Published, split: str, home: Path, limit: int = 0) -> ImageSet:
    """Read a split from its binary files below ``home``; the unlabelled one takes 2.8 GB.

    Args:
        published: see :func:`spec`.
        split: ``"train"``, ``"test"`` or ``"unlabeled"``.
        home: the data folder.
        limit: keep the first so many images; 0 keeps all.

    Returns:
        The split. Its labels are 0 to 9, or, without classes, all -1.

    Raises:
        FileNotFoundError: for a missing file.
        ValueError: naming a file that is not the published one.
    """
    image_file, *label_file = (published.verified(home, file) for file in published.files[split])
    # Mapped: the file and the result never lie in memory together.
    stored = np.memmap(image_file, np.uint8, "r").reshape(-1, 3, SIDE, SIDE)
    images = np.array(stored[: limit or None].transpose(0, 1, 3, 2), order="C")
    labels = np.full(len(images), UNLABELLED, dtype=np.int64)
    if label_file:
        labels = np.fromfile(label_file[0], np.uint8)[: len(images)].astype(np.int64) - 1
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels),
        classes=CLASSES if label_file else (),
    )
