"""CIFAR-10, CIFAR-100 and ImageNet-32: pickled batches of colour images of 32 x 32 pixels.

A batch holds ``data``, n rows of 3,072 bytes (red, green and blue planes), and labels.

CIFAR: 50,000 + 10,000 images, Krizhevsky (2009), "Learning multiple layers of features from tiny
images". The "python version"; the names of the classes lie beside the batches. Addresses and hashes
are torchvision's.

ImageNet-32: the 1,281,167 + 50,000 images of ILSVRC 2012, Chrabaszcz, Loshchilov and Hutter (2017),
arXiv:1707.08819. The validation images are the test split here: ImageNet's own test labels are not
public. Labels in the files run from 1 to 1000. ImageNet asks for an agreement, so nothing is
downloaded. Its publisher states no hashes for these files that we could find; the ones below are
those on which independent public loaders of this data set agree, and have not been checked against
a copy from the publisher by this project.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from .data_set import Arrays, DataSet, Published

SIDE = 32
#: What a number of classes goes with. The first entry is the key of the labels in a batch, the
#: second the key of the classes' names in the first file (ImageNet-32 has none), the third the
#: first label.
KEYS = {
    10: ("labels", "label_names", 0),
    100: ("fine_labels", "fine_label_names", 0),
    1000: ("labels", "", 1),
}

_NAMES10 = {"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"}
CIFAR10 = Published(
    "cifar-10-batches-py",
    files={
        "train": {
            **_NAMES10,
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        },
        "test": {**_NAMES10, "test_batch": "40351d587109b95175f43aff81a1287e"},
    },
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
)
_NAMES100 = {"meta": "7973b15100ade9c7d40fb424638fde48"}
CIFAR100 = Published(
    "cifar-100-python",
    files={
        "train": {**_NAMES100, "train": "16019d7e3df5f24257cddd939b257f8d"},
        "test": {**_NAMES100, "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    },
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
)
IMAGENET32 = Published(
    "imagenet32",
    files={
        "train": {
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
        },
        "test": {"val_data": "06c02b8b4c8de8b3a36b07859a49de6f"},
    },
    by_hand=(
        "Imagenet32_train.zip and Imagenet32_val.zip from https://image-net.org/download-images "
        "(log in and agree to ImageNet's terms), unpack them"
    ),
    uneven=("train",),
)


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read a split from its batches; no more of them than the limit needs.

    A pickle can run code when it is read. Each file's hash is compared first, so that it is the one
    that was published. The training images of ImageNet-32 take 3.9 GB.

    Raises:
        ValueError: naming a file that is not the published one.
    """
    label_key, names_key, first_label = KEYS[known.shape.classes]
    contents = (_unpickled(path) for path in known.published.verified(split, home))
    names = (
        next(contents)[names_key]
        if names_key
        else [str(first_label + number) for number in range(known.shape.classes)]
    )
    total = known.count(split)
    size = min(limit, total) if limit else total
    # Filled in place: a list of batches joined at the end would take the space twice.
    images = np.empty((size, 3, SIDE, SIDE), dtype=np.uint8)
    labels = np.empty(size, dtype=np.int64)
    found = 0
    while found < size:
        batch = next(contents)
        rows = slice(found, min(found + len(batch["data"]), size))
        images[rows] = batch["data"].reshape(-1, 3, SIDE, SIDE)[: rows.stop - found]
        labels[rows] = np.asarray(batch[label_key])[: rows.stop - found] - first_label
        found = rows.stop
    return images, labels, tuple(names)


def _unpickled(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content: dict[str, Any] = pickle.load(file, encoding="latin1")
    return content
