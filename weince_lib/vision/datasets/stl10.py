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
from .published import Archive, Published, batches, check_count, check_labels

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
        counts={"train": 5_000, "test": 8_000, "unlabeled": 100_000},
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
        ValueError: naming a file that is not the published one, or whose content is wrong.
    """
    folder = home / published.folder
    for file in published.files[split]:
        published.verify(folder / file, file)
    path = folder / published.files[split][0]
    size = path.stat().st_size
    if size == 0 or size % (3 * SIDE * SIDE):
        raise ValueError(f"{path} has {size} bytes, no whole number of {SIDE} x {SIDE} images")
    # Mapped, and turned a block at a time: the file and the result never lie in memory together.
    stored = np.memmap(path, np.uint8, "r").reshape(-1, 3, SIDE, SIDE)
    check_count(published, split, len(stored), path)
    images = np.empty((min(limit, len(stored)) if limit else len(stored), 3, SIDE, SIDE), np.uint8)
    for rows in batches(len(stored), limit, 1000):
        images[rows] = stored[rows].transpose(0, 1, 3, 2)
    labels = np.full(len(images), UNLABELLED, dtype=np.int64)
    labelled = len(published.files[split]) == 2
    if labelled:
        numbers = folder / published.files[split][1]
        given = np.fromfile(numbers, np.uint8)
        check_labels(numbers, given, len(stored), 1, published.classes)
        labels[:] = given[: len(images)].astype(np.int64) - 1
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels),
        classes=CLASSES if labelled else (),
    )
