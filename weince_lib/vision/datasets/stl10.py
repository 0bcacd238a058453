"""STL-10: 100,000 unlabelled, 5,000 + 8,000 labelled colour images of 96 x 96 pixels.

Coates, Ng and Lee (2011), AISTATS. Contrastive training takes the unlabelled images; probe and kNN
the labelled ones. Binary files: images as bytes, for each its red, green and blue plane and each
plane column by column; labels as bytes from 1 to 10. URL and hashes are torchvision's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .data_set import UNLABELLED, Arrays, DataSet, Published

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
STL10 = Published(
    "stl10_binary",
    files={
        "train": {
            "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
            "train_y.bin": "5a34089d4802c674881badbb80307741",
        },
        "test": {
            "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
            "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
        },
        "unlabeled": {"unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4"},
    },
    url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    archive_md5="91f7769df0f17e558f3565bffb0c7dfb",
)


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read a split; the unlabelled one takes 2.8 GB, and its labels are all -1.

    Raises:
        ValueError: naming a file that is not the published one.
    """
    image_file, *label_file = known.published.verified(split, home)
    # Mapped: the file and the result never lie in memory together.
    stored = np.memmap(image_file, np.uint8, "r").reshape(-1, 3, SIDE, SIDE)
    images = np.array(stored[: limit or None].transpose(0, 1, 3, 2), order="C")
    if not label_file:
        return images, np.full(len(images), UNLABELLED, dtype=np.int64), ()
    labels = np.fromfile(label_file[0], np.uint8)[: len(images)].astype(np.int64) - 1
    return images, labels, CLASSES
