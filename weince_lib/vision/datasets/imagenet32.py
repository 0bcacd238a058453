"""ImageNet-32: the 1,281,167 + 50,000 images of ILSVRC 2012 at 32 x 32 pixels, 1,000 classes.

Chrabaszcz, Loshchilov and Hutter (2017), arXiv:1707.08819. Ten pickled batches to train with and
one of the validation images, which serve as the test split here: ImageNet's own test labels are
not public. Labels in the files run from 1 to 1000. ImageNet asks for an agreement, so nothing is
downloaded. Its publisher states no hashes for these files that we could find; the ones below are
those on which independent public loaders of this data set agree, and have not been checked
against a copy from the publisher by this project.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .cifar import SIDE
from .image_set import ImageSet
from .published import Published

_MD5 = {
    "train_data_batch_1": "6c4495e65cd24a8c3019857ef9b758ee",
    "train_data_batch_2": "3dd727de4155836807dfc19f98c9fe70",
    "train_data_batch_3": "03d3dc4e850e23e1d526f268a0196296",
    "train_data_batch_4": "876f7e6d6ddb1f52ecb654ffdc8293f6",
    "train_data_batch_5": "c789bcdd1feed34a9bc58598a1a1bf7d",
    "train_data_batch_6": "8ce5344cb1e11f31bc507cae4c856083",
    "train_data_batch_7": "32ecc8ad6c55b1c9cb6cf79a2cc46094",
    "train_data_batch_8": "bdeb6da3d05771121992b48c59c69439",
    "train_data_batch_9": "58417149b5ce31688f805341e7f57b4f",
    "train_data_batch_10": "46ad60a1144aaf97a143914453b0dabb",
    "val_data": "06c02b8b4c8de8b3a36b07859a49de6f",
}

SPEC = Published(
    name="imagenet32",
    title="ImageNet-32",
    folder="imagenet32",
    files={
        "train": tuple(f"train_data_batch_{k}" for k in range(1, 11)),
        "test": ("val_data",),
    },
    md5=_MD5,
    counts={"train": 1_281_167, "test": 50_000},
    classes=1000,
    source=(
        "Imagenet32_train.zip and Imagenet32_val.zip from https://image-net.org/download-images "
        "(log in and agree to ImageNet's terms), unpack them"
    ),
    uneven=frozenset({"train"}),
)


def read(published: Published, split: str, home: Path, limit: int = 0) -> ImageSet:
    """Read a split from its pickled batches below ``home``; the training split takes 3.9 GB.

    Args:
        published: :data:`SPEC`.
        split: ``"train"`` or ``"test"`` (ImageNet's validation images).
        home: the data folder.
        limit: read no more files than the first so many images need; 0 reads all.

    Raises:
        FileNotFoundError: for a missing file.
        ValueError: naming a file that is not the published one.
    """
    total = published.counts[split]
    size = min(limit, total) if limit else total
    # Filled in place: a list of batches joined at the end would take the space twice.
    images = np.empty((size, 3, SIDE, SIDE), dtype=np.uint8)
    labels = np.empty(size, dtype=np.int64)
    found = 0
    for file in published.files[split]:
        batch = published.unpickle(home, file)
        data = batch["data"].reshape(-1, 3, SIDE, SIDE)[: size - found]
        rows = slice(found, found + len(data))
        images[rows] = data
        labels[rows] = np.asarray(batch["labels"])[: len(data)] - 1
        found = rows.stop
        if found == size:
            break
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels),
        classes=tuple(str(label) for label in range(1, published.classes + 1)),
    )
