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
from .published import Archive, Published

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
        ValueError: naming a file that is not the published one.
    """
    label_key, names_key = KEYS[published.classes]
    images, labels = [], []
    for file in published.files[split]:
        batch = published.unpickle(home, file)
        images.append(batch["data"].reshape(-1, 3, SIDE, SIDE))
        labels.append(np.asarray(batch[label_key], dtype=np.int64))
        if limit and sum(map(len, images)) >= limit:
            break
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(np.concatenate(images)),
        labels=torch.from_numpy(np.concatenate(labels)),
        classes=tuple(published.unpickle(home, published.common[0])[names_key]),
    ).limit(limit)
