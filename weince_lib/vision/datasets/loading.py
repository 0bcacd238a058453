"""Every data set by its name, and loading one. Another data set is one more entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ... import paths
from ..augment import TwoViewAugment
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
from .published import File, Published

#: Splits that every data set has.
SPLITS = ("train", "test")
#: Name of the further split of STL-10.
UNLABELED = "unlabeled"


@dataclass(frozen=True)
class Shape:
    """The published size of a data set.

    Attributes:
        pretraining: images of contrastive training.
        labelled: labelled training images, for probe and neighbours.
        test: test images.
        channels: of an image.
        side: length in pixels.
        classes: number of classes.
    """

    pretraining: int
    labelled: int
    test: int
    channels: int
    side: int
    classes: int


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set with a name of its own.

    Attributes:
        title: its usual name, for tables and figures.
        shape: its size, known beforehand so that a plan needs no data.
        read: reads a split: from the split and the data folder; of a published set, from what is
            published, the split, the data folder and the limit.
        augment: the views to train with.
        splits: the names of its splits.
        published: for a set of the paper, its files, and where they come from. A function, since
            torchvision, which knows hashes and addresses, takes seconds to import.
        files: where it lies and its files, from the data folder (and before it, what is published).
            By default those that are published; a set without either comes with scikit-learn.
        content: for a set whose content can change: its hash, from the arguments of ``read``.
    """

    title: str
    shape: Shape
    read: Callable[..., ImageSet]
    augment: TwoViewAugment = field(default_factory=TwoViewAugment)
    splits: tuple[str, ...] = SPLITS
    published: Callable[[], Published] | None = None
    files: Callable[..., tuple[str, list[File]]] | None = None
    content: Callable[..., str] | None = None

    def place(self, home: Path) -> tuple[str, list[File]]:
        """Where the set lies or would lie below the data folder, and its files."""
        if self.published is None:
            return self.files(home) if self.files else ("scikit-learn", [])
        known = self.published()
        return self.files(known, home) if self.files else known.place(home)


#: By name. Fashion-MNIST, image folders and the paper's sets take the paper's views. Handwritten
#: digits do not: a mirrored digit is no digit, and a crop of a few of the 64 pixels shows none.
#: Their flip is off and their crops keep 40 % or more, which is this project's choice (the paper
#: has no such data set). Pairs of digits, twice as wide as high, keep that shape and 60 %: a
#: narrower crop would show one digit of the two.
DATA_SETS = {
    "digits": DataSet(
        "handwritten digits",
        Shape(1_352, 1_352, 445, 1, 8, 10),
        lambda split, home: digits.load(split),
        TwoViewAugment(crop_scale=(0.4, 1.0), flip_probability=0.0),
    ),
    "digit-pairs": DataSet(
        "digit pairs",
        # Twice as wide as high; a step on squares of the same number of pixels takes as long.
        Shape(10_000, 10_000, 4_000, 1, 11, 100),
        lambda split, home: digit_pairs.load(split),
        TwoViewAugment(crop_scale=(0.6, 1.0), crop_ratio=(1.6, 2.5), flip_probability=0.0),
    ),
    "fashion-mnist": DataSet(
        "Fashion-MNIST",
        Shape(60_000, 60_000, 10_000, 1, 28, 10),
        fashion_mnist.load,
        files=fashion_mnist.files,
    ),
    "cifar10": DataSet(
        "CIFAR-10",
        Shape(50_000, 50_000, 10_000, 3, 32, 10),
        cifar.read,
        published=lambda: cifar.spec("cifar10"),
    ),
    "cifar100": DataSet(
        "CIFAR-100",
        Shape(50_000, 50_000, 10_000, 3, 32, 100),
        cifar.read,
        published=lambda: cifar.spec("cifar100"),
    ),
    "stl10": DataSet(
        "STL-10",
        Shape(100_000, 5_000, 8_000, 3, 96, 10),
        stl10.read,
        splits=(*SPLITS, UNLABELED),
        published=stl10.spec,
    ),
    "imagenet32": DataSet(
        "ImageNet-32",
        Shape(1_281_167, 1_281_167, 50_000, 3, 32, 1_000),
        imagenet32.read,
        published=lambda: imagenet32.SPEC,
    ),
    "tiny-imagenet": DataSet(
        "Tiny-ImageNet",
        Shape(100_000, 100_000, 10_000, 3, 64, 200),
        tiny_imagenet.read,
        published=lambda: tiny_imagenet.SPEC,
        files=tiny_imagenet.listed_files,
        content=tiny_imagenet.content_of,
    ),
}
#: What :func:`load` knows.
DATASETS = (*DATA_SETS, "imagefolder:PATH")

_FOLDER_PREFIX = "imagefolder:"
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
    home = home_of(root)
    if name.startswith(_FOLDER_PREFIX):
        folder = Path(root or ".") / Path(name.removeprefix(_FOLDER_PREFIX)).expanduser()
        return image_folder.load(
            folder, split, name=name, limit=limit, image_size=image_size, cache=home / "cache"
        )
    if image_size:
        raise ValueError(f"image_size={image_size} is for image folders; {name} has one size")
    known = DATA_SETS[name]
    if known.published is None:
        return known.read(split, home).limit(limit)
    published = known.published()
    published.ensure(split, home)
    return known.read(published, split, home, limit)


def home_of(root: Path | str | None) -> Path:
    """The data folder, unless another is named."""
    return Path(root).expanduser().resolve() if root else paths.data()


def augmentation(dataset: str) -> TwoViewAugment:
    """The views to train with on a data set, named as for :func:`load`.

    Raises:
        ValueError: for an unknown data set, with the known ones listed.
    """
    splits(dataset)
    return DATA_SETS[dataset].augment if dataset in DATA_SETS else TwoViewAugment()


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
    if known := DATA_SETS.get(name):
        if known.content is None or known.published is None:
            return ""
        return known.content(known.published(), split, home_of(root), limit)
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
    if not folder and name not in DATA_SETS:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(DATASETS)}")
    return SPLITS if folder else DATA_SETS[name].splits


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
    if name in DATA_SETS:
        return DATA_SETS[name].title
    folder = Path(name.removeprefix(_FOLDER_PREFIX)).name
    return _FOLDER_TITLES.get(folder, f"{folder} (image folder)")
