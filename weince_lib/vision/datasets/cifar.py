"""CIFAR-10 and CIFAR-100: 50,000 + 10,000 colour images of 32 x 32 pixels.

Krizhevsky (2009), "Learning multiple layers of features from tiny images". The "python version":
pickled batches of ``data`` (n rows of 3,072 bytes: red, green and blue planes) and labels, with
the names of the classes beside them. URLs and hashes are torchvision's.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .image_set import ImageSet
from .pickles import read_pickle
from .published import Archive, Published, check_count, check_labels

SIDE = 32
#: Keys of the labels in a batch and of their names in the file of names, by number of classes.
KEYS = {10: ("labels", "label_names"), 100: ("fine_labels", "fine_label_names")}


@cache
def spec(name: str) -> Published:
    """What is published, for ``"cifar10"`` or ``"cifar100"``."""
    from torchvision.datasets import CIFAR10, CIFAR100

    known: Any = {"cifar10": CIFAR10, "cifar100": CIFAR100}[name]
    classes = int(name.removeprefix("cifar"))
    names = known.meta["filename"]
    return Published(
        name=name,
        title=f"CIFAR-{classes}",
        folder=known.base_folder,
        files={
            "train": tuple(file for file, _ in known.train_list),
            "test": tuple(file for file, _ in known.test_list),
        },
        md5=dict(known.train_list + known.test_list) | {names: known.meta["md5"]},
        counts={"train": 50_000, "test": 10_000},
        classes=classes,
        source=known.url,
        archive=Archive(known.filename, known.tgz_md5, known.url),
        common=(names,),
    )


def read(published: Published, split: str, home: Path, limit: int = 0) -> ImageSet:
    """Read a split from its files below ``home``.

    Args:
        published: see :func:`spec`.
        split: ``"train"`` or ``"test"``.
        home: the data folder.
        limit: read no more files than the first so many images need; 0 reads all.

    Raises:
        FileNotFoundError: for a missing file.
        ValueError: naming a file that is not the published one, or whose content is wrong.
    """
    label_key, names_key = KEYS[published.classes]
    folder = home / published.folder
    images, labels = [], []
    for file in published.files[split]:
        path = folder / file
        published.verify(path, file)
        data, numbers = read_batch(path, label_key, first=0, last=published.classes - 1)
        images.append(data)
        labels.append(numbers)
        if limit and sum(map(len, images)) >= limit:
            break
    else:
        check_count(published, split, sum(map(len, images)), folder)
    names = folder / published.common[0]
    published.verify(names, published.common[0])
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(np.concatenate(images)),
        labels=torch.from_numpy(np.concatenate(labels)),
        classes=tuple(read_pickle(names)[names_key]),
    ).limit(limit)


def read_batch(
    path: Path, label_key: str, *, first: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Read one pickled batch of 32 x 32 images.

    Args:
        path: the file.
        label_key: where its labels are.
        first: the least label.
        last: the greatest.

    Returns:
        Images, ``uint8`` of shape ``(n, 3, 32, 32)``, and labels, ``int64`` of shape ``(n,)``, as
        the file numbers them.

    Raises:
        ValueError: naming the file, if it is not such a batch or a label is out of range.
    """
    content = read_pickle(path)
    for key in ("data", label_key):
        if key not in content:
            raise ValueError(f"{path} has no {key!r}; it has {', '.join(map(str, content))}")
    data = content["data"]
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.ndim != 2
        or data.shape[1] != 3 * SIDE * SIDE
    ):
        kind = f"{getattr(data, 'dtype', type(data).__name__)} {getattr(data, 'shape', '')}"
        raise ValueError(f"{path}: data must be bytes of shape (n, {3 * SIDE * SIDE}), got {kind}")
    labels = np.asarray(content[label_key])
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{path}: {label_key} must be a list of whole numbers")
    check_labels(path, labels, len(data), first, last)
    return data.reshape(-1, 3, SIDE, SIDE), labels.astype(np.int64)
