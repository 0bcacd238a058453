"""Loading a data set by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from . import digits, fashion_mnist, image_folder
from .image_set import ImageSet, check_limit

#: What :func:`load` knows.
DATASETS = ("digits", "fashion-mnist", "imagefolder:PATH")
SPLITS = ("train", "test")

_FOLDER_PREFIX = "imagefolder:"


def load(
    name: str,
    split: Literal["train", "test"] | str,
    *,
    root: Path | str | None = None,
    limit: int = 0,
    image_size: int = 0,
) -> ImageSet:
    """Load one split of a data set into memory.

    ``"digits"`` comes with scikit-learn and is always there. ``"fashion-mnist"`` is looked for on
    this machine and downloaded only if it is nowhere. ``"imagefolder:PATH"`` reads
    ``PATH/train/CLASS/*`` and ``PATH/test/CLASS/*`` as RGB.

    Args:
        name: one of :data:`DATASETS`.
        split: ``"train"`` or ``"test"``.
        root: where torchvision keeps its data sets, and what a relative PATH starts from. Without
            it Fashion-MNIST uses the environment variable WEINCE_DATA, else ``data`` in the
            working directory, and a relative PATH starts from the working directory.
        limit: keep the first so many images; 0 keeps all. Digits and Fashion-MNIST are in the
            order of their files, whose classes are mixed. Image folders, whose files lie sorted
            by class, are dealt out one image of each class at a time, so that a limited set is
            balanced; only the images kept are read.
        image_size: for image folders: side in pixels of the square that every image is scaled and
            centre-cropped to. 0 leaves them as they are, which takes images of one size.

    Returns:
        The split.

    Raises:
        ValueError: for an unknown name or split, a negative limit, a file whose content is not
            the published one, or images of unequal size.
        FileNotFoundError: for data that is missing or empty, saying what to put where.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(SPLITS)}")
    check_limit(limit)
    if name.startswith(_FOLDER_PREFIX) and name != _FOLDER_PREFIX:
        folder = Path(root or ".") / Path(name.removeprefix(_FOLDER_PREFIX)).expanduser()
        return image_folder.load(folder, split, name=name, limit=limit, image_size=image_size)
    if name not in ("digits", "fashion-mnist"):
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(DATASETS)}")
    if image_size:
        raise ValueError(f"image_size={image_size} is for image folders; {name} has one size")
    if name == "digits":
        return digits.load(split).limit(limit)
    return fashion_mnist.load(split, root=root).limit(limit)
