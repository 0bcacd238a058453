"""Tiny-ImageNet: 100,000 + 10,000 colour images of 64 x 64 pixels, 200 classes of ImageNet.

Le and Yang (2015), Stanford CS231n. Its validation images, whose classes are listed in
``val/val_annotations.txt``, are the test split here: the labels of its own test images are not
public. Read from the published zip, whose hash is known (the publisher states none; public loaders
agree on this one), so that what is in it needs no checks.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from .data_set import Arrays, DataSet, Published, check_md5
from .image_folder import deal, decode

TINY_IMAGENET = Published(
    "tiny-imagenet-200",
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
)


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read a split from the zip, which is not unpacked.

    Training images are dealt out one of each class at a time; validation images come in the order
    of their annotations. Decoded images are kept in ``home / "cache"``, see :mod:`.image_folder`.

    Raises:
        ValueError: for a zip that is not the published one.
    """
    published = known.published
    zipped = home / published.archive
    check_md5(zipped, published.archive_md5)
    with zipfile.ZipFile(zipped) as archive:

        def lines(name: str) -> list[str]:
            return archive.read(f"{published.folder}/{name}").decode().splitlines()

        classes = lines("wnids.txt")
        index = {wnid: label for label, wnid in enumerate(classes)}
        if split == "train":
            by_class: list[list[tuple[str, int]]] = [[] for _ in classes]
            for name in sorted(archive.namelist()):
                _, part, *rest = name.split("/")
                if part == "train" and name.endswith(".JPEG"):
                    by_class[index[rest[0]]].append((name, index[rest[0]]))
            listed = deal(by_class)
        else:
            # Tab-separated: file, class, and the box of the object.
            rows = [line.split("\t") for line in lines("val/val_annotations.txt")]
            images = f"{published.folder}/val/images"
            listed = [(f"{images}/{file}", index[wnid]) for file, wnid, *_ in rows]
        kept = listed[: limit or None]
        pixels = decode([name for name, _ in kept], archive.read, home / "cache")
    return pixels, np.array([label for _, label in kept], dtype=np.int64), tuple(classes)
