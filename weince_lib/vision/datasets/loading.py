"""Loading a data set by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ... import paths
from . import (
    cifar,
    digit_pairs,
    digits,
    fashion_mnist,
    image_folder,
    imagenet32,
    stl10,
    tiny_imagenet,
)
from .image_set import ImageSet, check_limit
from .published import Published

#: Data sets of the paper that lie in the data folder, and how to learn about each. A function,
#: since torchvision, which knows hashes and addresses, takes seconds to import.
PUBLISHED: dict[str, Callable[[], Published]] = {
    "cifar10": lambda: cifar.spec("cifar10"),
    "cifar100": lambda: cifar.spec("cifar100"),
    "stl10": stl10.spec,
    "imagenet32": lambda: imagenet32.SPEC,
    "tiny-imagenet": lambda: tiny_imagenet.SPEC,
}
#: What :func:`load` knows.
DATASETS = ("digits", "digit-pairs", "fashion-mnist", *PUBLISHED, "imagefolder:PATH")
#: Splits that every data set has.
SPLITS = ("train", "test")
#: Name of the further split of STL-10.
UNLABELED = "unlabeled"

_FOLDER_PREFIX = "imagefolder:"
_READERS = {
    "cifar10": cifar.read,
    "cifar100": cifar.read,
    "stl10": stl10.read,
    "imagenet32": imagenet32.read,
}
_TITLES = {
    "digits": "handwritten digits",
    "digit-pairs": "digit pairs",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "stl10": "STL-10",
    "imagenet32": "ImageNet-32",
    "tiny-imagenet": "Tiny-ImageNet",
}
#: Image folders with a name of their own, by the name of the folder.
_FOLDER_TITLES = {"cifar10-jpeg": "CIFAR-10 (JPEG)", "cifar10-imagefolder": "CIFAR-10 (JPEG)"}


def load(
    name: str,
    split: Literal["train", "test", "unlabeled"] | str,
    *,
    root: Path | str | None = None,
    limit: int = 0,
    image_size: int = 0,
) -> ImageSet:
    """Load one split of a data set into memory.

    ``"digits"`` comes with scikit-learn and is always there, and so are ``"digit-pairs"``, two of
    them side by side in a hundred classes. ``"fashion-mnist"``, ``"cifar10"``,
    ``"cifar100"``, ``"stl10"`` and ``"tiny-imagenet"`` are looked for on this machine and
    downloaded only if they are nowhere; ``"imagenet32"`` has to be put there by hand. Every file
    is compared with its published hash. ``"imagefolder:PATH"`` reads ``PATH/train/CLASS/*`` and
    ``PATH/test/CLASS/*`` as RGB. Sets of many small files (Tiny-ImageNet, image folders) are
    decoded once and kept in ``cache`` below the data folder.

    Args:
        name: one of :data:`DATASETS`.
        split: ``"train"`` or ``"test"``; the latter are the validation images of ImageNet-32 and
            Tiny-ImageNet, whose test labels are not public. STL-10 also has ``"unlabeled"``.
        root: the data folder; by default $WEINCE_DATA, else ``data`` under the project root. Also
            what a relative PATH starts from, by default the working directory.
        limit: keep the first so many images; 0 keeps all. Published sets are in the order of their
            files, whose classes are mixed. Image folders and the training images of Tiny-ImageNet,
            whose files lie sorted by class, are dealt out one image of each class at a time, so
            that a limited set is balanced; only the images kept are decoded.
        image_size: for image folders: side in pixels of the square that every image is scaled and
            centre-cropped to. 0 leaves them as they are, which takes images of one size.

    Returns:
        The split.

    Raises:
        ValueError: for an unknown name or split, a negative limit, a file whose content is not
            the published one, or images of unequal size.
        FileNotFoundError: for data that is missing or empty, saying what to put where.
    """
    if split not in splits(name):
        raise ValueError(f"unknown split {split!r}; known: {', '.join(splits(name))}")
    check_limit(limit)
    home = Path(root).expanduser().resolve() if root else paths.data()
    cache = home / "cache"
    if name.startswith(_FOLDER_PREFIX):
        folder = Path(root or ".") / Path(name.removeprefix(_FOLDER_PREFIX)).expanduser()
        return image_folder.load(
            folder, split, name=name, limit=limit, image_size=image_size, cache=cache
        )
    if image_size:
        raise ValueError(f"image_size={image_size} is for image folders; {name} has one size")
    if name == "digits":
        return digits.load(split).limit(limit)
    if name == "digit-pairs":
        return digit_pairs.load(split).limit(limit)
    if name == "fashion-mnist":
        return fashion_mnist.load(split, root=home).limit(limit)
    published = PUBLISHED[name]()
    if name == "tiny-imagenet":
        tiny_imagenet.ensure(published, home)
        return tiny_imagenet.read(published, split, home, limit, cache=cache)
    published.ensure(split, home)
    return _READERS[name](published, split, home, limit)


def content_of(name: str, split: str, *, root: Path | str | None = None, limit: int = 0) -> str:
    """A hash of what a data set's name stands for, if that is not the same for all time.

    The content of a folder can change, and a link can be pointed elsewhere. Built-in and published
    sets cannot: their files are compared with known hashes whenever they are read.

    Args:
        name: as for :func:`load`.
        split: as for :func:`load`.
        root: as for :func:`load`.
        limit: as for :func:`load`.

    Returns:
        SHA-256 (hex) of files and labels, which are not decoded; empty for a set of fixed content,
        and where neither ``train`` nor ``test`` is there.

    Raises:
        FileNotFoundError, ValueError: as :func:`load`.
    """
    if split not in splits(name):
        raise ValueError(f"unknown split {split!r}; known: {', '.join(splits(name))}")
    check_limit(limit)
    if name == "tiny-imagenet":
        home = Path(root).expanduser().resolve() if root else paths.data()
        return tiny_imagenet.content_of(PUBLISHED[name](), split, home, limit)
    if not name.startswith(_FOLDER_PREFIX):
        return ""
    folder = Path(root or ".") / Path(name.removeprefix(_FOLDER_PREFIX)).expanduser()
    if not any((folder / part).is_dir() for part in SPLITS):
        return ""
    return image_folder.content_of(folder, split, limit=limit)


def splits(name: str) -> tuple[str, ...]:
    """The splits of a data set.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    folder = name.startswith(_FOLDER_PREFIX) and name != _FOLDER_PREFIX
    if not folder and name not in _TITLES:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(DATASETS)}")
    return (*SPLITS, UNLABELED) if name == "stl10" else SPLITS


def pretraining_split(name: str) -> str:
    """The split that contrastive training takes: of STL-10 the unlabelled one, else ``"train"``.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    return UNLABELED if UNLABELED in splits(name) else "train"


def title(name: str) -> str:
    """A data set's name for tables and figures, such as ``"CIFAR-10"``.

    An image folder is called by its own name; ``cifar10-jpeg`` (or ``cifar10-imagefolder``) is
    ``"CIFAR-10 (JPEG)"``, since lossy copies give other results than the data set itself.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    splits(name)
    if name in _TITLES:
        return _TITLES[name]
    folder = Path(name.removeprefix(_FOLDER_PREFIX)).name
    return _FOLDER_TITLES.get(folder, f"{folder} (image folder)")
