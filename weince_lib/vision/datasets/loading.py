"""Every data set by its name: loading it, and what of it is on this machine and whole.

Another data set is one more entry in :data:`DATA_SETS`, with a function that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ... import paths
from ..augment import TwoViewAugment
from . import digits, fashion_mnist, image_folder, pickled, stl10, tiny_imagenet
from .data_set import SPLITS, DataSet, File, ImageSet, Published, Shape, check_limit

#: Name of the further split of STL-10.
UNLABELED = "unlabeled"
#: Least images of a class whose 80/20 split leaves one for validation.
LEAST_PER_CLASS = 5

#: By name. Fashion-MNIST, image folders and the paper's sets take the paper's views. Handwritten
#: digits do not: a mirrored digit is no digit, and a crop of a few of the 64 pixels shows none.
#: Their flip is off and their crops keep 40 % or more, which is this project's choice (the paper
#: has no such data set). Pairs of digits, twice as wide as high, keep that shape and 60 %: a
#: narrower crop would show one digit of the two.
DATA_SETS = {
    "digits": DataSet(
        "handwritten digits",
        Shape(1_352, 1_352, 445, 1, 8, 10),
        digits.read,
        TwoViewAugment(crop_scale=(0.4, 1.0), flip_probability=0.0),
    ),
    "digit-pairs": DataSet(
        "digit pairs",
        # Twice as wide as high; a step on squares of the same number of pixels takes as long.
        Shape(10_000, 10_000, 4_000, 1, 11, 100),
        digits.read_pairs,
        TwoViewAugment(crop_scale=(0.6, 1.0), crop_ratio=(1.6, 2.5), flip_probability=0.0),
    ),
    "fashion-mnist": DataSet(
        "Fashion-MNIST",
        Shape(60_000, 60_000, 10_000, 1, 28, 10),
        fashion_mnist.read,
        files=fashion_mnist.files,
    ),
    "cifar10": DataSet(
        "CIFAR-10",
        Shape(50_000, 50_000, 10_000, 3, 32, 10),
        pickled.read,
        published=pickled.CIFAR10,
    ),
    "cifar100": DataSet(
        "CIFAR-100",
        Shape(50_000, 50_000, 10_000, 3, 32, 100),
        pickled.read,
        published=pickled.CIFAR100,
    ),
    "stl10": DataSet(
        "STL-10",
        Shape(100_000, 5_000, 8_000, 3, 96, 10),
        stl10.read,
        splits=(*SPLITS, UNLABELED),
        published=stl10.STL10,
    ),
    "imagenet32": DataSet(
        "ImageNet-32",
        Shape(1_281_167, 1_281_167, 50_000, 3, 32, 1_000),
        pickled.read,
        published=pickled.IMAGENET32,
    ),
    "tiny-imagenet": DataSet(
        "Tiny-ImageNet",
        Shape(100_000, 100_000, 10_000, 3, 64, 200),
        tiny_imagenet.read,
        published=tiny_imagenet.TINY_IMAGENET,
    ),
}
#: What :func:`load` knows.
DATASETS = (*DATA_SETS, "imagefolder:PATH")

#: Image folders with a name of their own, by the name of the folder.
_FOLDER_TITLES = {"cifar10-jpeg": "CIFAR-10 (JPEG)", "cifar10-imagefolder": "CIFAR-10 (JPEG)"}


def load(
    name: str,
    split: str,
    *,
    root: Path | str | None = None,
    limit: int = 0,
    image_size: int = 0,
) -> ImageSet:
    """Load one split of a data set into memory.

    Digits and pairs of them come with scikit-learn. The others are looked for on this machine and
    downloaded if they are nowhere, except ``"imagenet32"``, which has to be put there by hand.
    Every file is compared with its published hash. ``"imagefolder:PATH"`` reads
    ``PATH/train/CLASS/*`` and ``PATH/test/CLASS/*`` as RGB. Sets of many small files
    (Tiny-ImageNet, image folders) are decoded once and kept in ``cache`` below the data folder.

    Args:
        name: one of :data:`DATASETS`.
        split: ``"train"`` or ``"test"``; the latter are the validation images of ImageNet-32 and
            Tiny-ImageNet, whose test labels are not public. STL-10 also has ``"unlabeled"``.
        root: the data folder; by default $WEINCE_DATA, else ``data`` under the project root. Also
            what a relative PATH starts from, by default the working directory.
        limit: keep the first so many images; 0 keeps all. Files that lie sorted by class (image
            folders, training images of Tiny-ImageNet) are dealt out one image of each class at a
            time, so that a limited set is balanced; only the images kept are decoded.
        image_size: for image folders: side in pixels of the square that every image is scaled and
            centre-cropped to. 0 leaves them as they are, which takes images of one size.

    Raises:
        ValueError: for an unknown name or split, a negative limit, a file whose content is not
            the published one, or images of unequal size.
        FileNotFoundError: for data that is missing or empty, saying what to put where.
    """
    known, home = _checked(name, split, root, limit, image_size), home_of(root)
    known.published.ensure(known.title, split, home)
    images, labels, classes = known.read(known, split, home, limit)
    found = ImageSet(name, torch.from_numpy(images), torch.from_numpy(labels), classes)
    return found.limit(limit)


def home_of(root: Path | str | None) -> Path:
    """The data folder, unless another is named."""
    return Path(root).expanduser().resolve() if root else paths.data()


def augmentation(dataset: str) -> TwoViewAugment:
    """The views to train with on a data set; ``ValueError`` for an unknown name."""
    return _named(dataset).augment


def content_of(name: str, split: str, *, root: Path | str | None = None, limit: int = 0) -> str:
    """A hash of the files that a data set's name stands for, if they can change as folders can.

    Built-in and published sets cannot: they are compared with known hashes whenever they are read.
    Arguments and errors are those of :func:`load`.

    Returns:
        SHA-256 (hex) of files and labels, which are not decoded; empty for a set of fixed content,
        and where neither ``train`` nor ``test`` is there.
    """
    known = _checked(name, split, root, limit)
    return known.content(known, split, home_of(root), limit) if known.content else ""


def pretraining_split(name: str) -> str:
    """The split that contrastive training takes: of STL-10 the unlabelled one, else ``"train"``."""
    return UNLABELED if UNLABELED in _named(name).splits else "train"


def title(name: str) -> str:
    """A data set's name for tables and figures; an image folder is called by its own name.

    ``cifar10-jpeg`` is ``"CIFAR-10 (JPEG)"``, since lossy copies give other results.
    """
    return _named(name).title


def _named(name: str, root: Path | str | None = None, image_size: int = 0) -> DataSet:
    """The entry of a data set, or one made for an image folder."""
    if name in DATA_SETS:
        if image_size:
            raise ValueError(f"image_size={image_size} is for image folders; {name} has one size")
        return DATA_SETS[name]
    prefix, _, place = name.partition(":")
    if prefix != "imagefolder" or not place:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(DATASETS)}")
    folder = Path(root or ".") / Path(place).expanduser()
    return DataSet(
        _FOLDER_TITLES.get(folder.name, f"{folder.name} (image folder)"),
        Shape(0, 0, 0, 3, 0, 0),  # what there is of it is found when it is read
        lambda known, split, home, limit: image_folder.read(
            folder, split, home / "cache", limit, image_size
        ),
        files=lambda known, home: (str(folder), []),
        content=lambda known, split, home, limit: image_folder.content_of(folder, split, limit),
    )


def _checked(
    name: str, split: str, root: Path | str | None, limit: int, image_size: int = 0
) -> DataSet:
    """The entry of a data set that has such a split."""
    known = _named(name, root, image_size)
    if split not in known.splits:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(known.splits)}")
    check_limit(limit)
    return known


@dataclass(frozen=True)
class Holding:
    """One data set on this machine.

    Attributes:
        name: what :func:`load` knows it by.
        title: its usual name.
        state: ``"there"``, ``"missing"``, or ``"incomplete"`` if some files are.
        where: the file or folder it is read from, or would be.
        bytes: size of its files.
    """

    name: str
    title: str
    state: str
    where: str
    bytes: int


@dataclass(frozen=True)
class Finding:
    """One thing looked at, and whether it is as it should be."""

    ok: bool
    text: str


def holdings(root: Path | str | None = None) -> list[Holding]:
    """What is there of every named data set; no file is read and nothing downloaded."""
    home = home_of(root)
    found = []
    for name, known in DATA_SETS.items():
        where, files = known.place(home)
        sizes = [file.path.stat().st_size for file in files if file.path.is_file()]
        state = "there" if len(sizes) == len(files) else "incomplete" if sizes else "missing"
        found.append(Holding(name, known.title, state, where, sum(sizes)))
    return found


def check(name: str, root: Path | str | None = None) -> list[Finding]:
    """Verify a data set's files, hashes and counts. Nothing is downloaded.

    ``name`` and ``root`` are those of :func:`load`; ``ValueError`` for an unknown name.

    Returns:
        One finding for each file (named, with the expected hash if it is wrong or missing), then
        for each split that could be read.
    """
    known = _named(name, root)
    findings = [_check_file(file) for file in known.place(home_of(root))[1]]
    if not all(finding.ok for finding in findings):
        return findings
    for split in known.splits:
        try:
            images = load(name, split, root=root)
        except (ValueError, OSError) as error:
            findings.append(Finding(False, f"{split}: {error}"))
        else:
            findings.append(_check_split(images, split, known.published))
    return findings


def _check_file(file: File) -> Finding:
    if not file.path.is_file():
        expected = f" (expected {file.expected})" if file.expected else ""
        return Finding(False, f"{file.path} is missing{expected}")
    try:
        file.verify()
    except ValueError as error:
        return Finding(False, str(error))
    return Finding(True, f"{file.path}: {file.expected or 'there'}")


def _check_split(images: ImageSet, split: str, published: Published) -> Finding:
    """Count the images of a split and of its classes."""
    shape = "x".join(str(size) for size in images.images.shape[1:])
    text = f"{split}: {len(images):,} images of {shape}"
    if not images.classes:
        return Finding(True, f"{text}, unlabelled")
    sizes = images.labels.bincount(minlength=len(images.classes))
    least, most = int(sizes.min()), int(sizes.max())
    of_each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    text = f"{text}, {len(images.classes)} classes of {of_each}"
    if published.folder and split not in published.uneven and least != most:
        return Finding(False, f"{text}; expected {len(images) // len(images.classes):,} of each")
    if split == "train" and least < LEAST_PER_CLASS:
        small = images.classes[int(sizes.argmin())]
        return Finding(
            False,
            f"{text}; class {small!r} has {least}, too few for the 80/20 split, which needs "
            f"{LEAST_PER_CLASS}",
        )
    return Finding(True, text)
