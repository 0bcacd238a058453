"""The type every data set is turned into, and what is known of a set before it is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ...errors import one_line
from ..augment import TwoViewAugment

#: Splits that every data set has.
SPLITS = ("train", "test")
#: The label of every image of a set without classes.
UNLABELLED = -1
#: What a reader returns: images (uint8, shape ``(n, C, H, W)``), labels (int64, shape ``(n,)``) and
#: names of the classes.
Arrays = tuple[np.ndarray, np.ndarray, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one size, in memory; or unlabelled ones, for contrastive training alone.

    Pixels stay ``uint8``: a quarter of the space, and a content hash that no scaling changes.

    Attributes:
        name: what the set was asked for by, as records show it, such as ``"fashion-mnist"``.
        images: ``uint8``, shape ``(n, C, H, W)``, with C = 1 (grey) or 3 (RGB).
        labels: ``int64``, shape ``(n,)``, indices into ``classes``; all -1 without classes.
        classes: names of the classes; empty for an unlabelled set.

    Raises:
        ValueError: for another dtype or shape, or a label that names no class.
    """

    name: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                f"{self.name}: images must be uint8 of shape (n, 1 or 3, H, W), "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{self.name}: labels must be int64 of shape ({images.shape[0]},), one per image, "
                f"got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        if not self.classes:
            if bool((labels != UNLABELLED).any()):
                raise ValueError(
                    f"{self.name}: without classes every label must be {UNLABELLED}, "
                    f"got {int(labels[labels != UNLABELLED][0])}"
                )
        elif len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.classes):
            raise ValueError(
                f"{self.name}: labels run from {int(labels.min())} to {int(labels.max())}, "
                f"but there are {len(self.classes)} classes"
            )

    def __len__(self) -> int:
        return self.images.shape[0]

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.images.shape[1:])
        return (
            f"ImageSet({self.name!r}, {len(self)} images of {shape}, {len(self.classes)} classes)"
        )

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            array = tensor.contiguous().cpu().numpy()
            # Little-endian by name, so that the hash is the same on every machine.
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            digest.update(f"{array.dtype.name} {array.shape}\n".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def content_hash(self) -> str:
        """SHA-256 (hex) of images and labels, their shapes and dtypes; computed once.

        Order counts, class names and :attr:`name` do not. The tensors are taken as constant:
        writing into them does not change a hash already computed.
        """
        return self._digest

    def subset(self, indices: Tensor | Sequence[int]) -> ImageSet:
        """The images at ``indices`` (``int64``, shape ``(m,)``), in that order, as a copy.

        Raises:
            ValueError: if ``indices`` is not a list of whole numbers, such as a boolean mask.
            IndexError: for an index outside the set.
        """
        chosen = torch.as_tensor(indices)
        if chosen.numel() == 0:
            chosen = chosen.long().reshape(0)
        if chosen.dtype in (torch.bool, torch.uint8) or chosen.is_floating_point():
            raise ValueError(f"indices must be whole numbers, got {chosen.dtype}; see nonzero()")
        return replace(self, images=self.images[chosen.long()], labels=self.labels[chosen.long()])

    def limit(self, n: int) -> ImageSet:
        """The first ``n`` images, or all of them for ``n = 0`` and for ``n`` beyond the end.

        Raises:
            ValueError: for a negative ``n``.
        """
        check_limit(n)
        return self if n == 0 or n >= len(self) else self.subset(torch.arange(n))


def check_limit(n: int) -> None:
    """Raise ``ValueError`` unless ``n`` is a number of images; 0 stands for all."""
    if n < 0:
        raise ValueError(f"limit must be 0 (all images) or a positive number of images, got {n}")


@dataclass(frozen=True)
class Shape:
    """The published size of a data set: images of three kinds, an image's size, classes.

    ``pretraining`` images are those of contrastive training, ``labelled`` ones are for probe and
    neighbours; ``side`` is in pixels.
    """

    pretraining: int
    labelled: int
    test: int
    channels: int
    side: int
    classes: int


@dataclass(frozen=True)
class File:
    """A file of a data set.

    Attributes:
        path: where it is, or would be.
        expected: the hash it should have, in words; empty if none is known.
        verify: compares the hash and raises ``ValueError``.
    """

    path: Path
    expected: str = ""
    verify: Callable[[], object] = field(default_factory=lambda: bool)

    @classmethod
    def with_md5(cls, path: Path, md5: str) -> File:
        """A file of a known MD5."""
        return cls(path, f"MD5 {md5}", partial(check_md5, path, md5))


@dataclass(frozen=True)
class Published:
    """The files of a data set of fixed content.

    Attributes:
        folder: their folder below the data folder.
        files: for each split, the files it is read from, in order, with their MD5 in hex; none for
            a set that is read from its archive, which is not unpacked.
        url: of the archive of the whole set; empty if the publisher asks for an agreement first.
        archive_md5: of that archive.
        by_hand: without an archive, where to get the files.
        uneven: splits whose classes differ in size.
    """

    folder: str = ""
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    url: str = ""
    archive_md5: str = ""
    by_hand: str = ""
    uneven: tuple[str, ...] = ()

    @property
    def archive(self) -> str:
        """Name of the archive."""
        return self.url.rpartition("/")[2]

    def ensure(self, title: str, split: str, home: Path) -> None:
        """Download the set unless all files of a split, or its archive, are there.

        Raises:
            FileNotFoundError: if files are missing and cannot be had; says which, with their
                hashes, and where to put them.
        """
        folder = home / self.folder
        missing = [
            f"{file} (MD5 {md5})"
            for file, md5 in self.files.get(split, {}).items()
            if not (folder / file).is_file()
        ]
        kept_whole = bool(self.url) and not self.files
        if not missing and not (kept_whole and not (home / self.archive).is_file()):
            return
        lacks = f"{title}: {folder if missing else home} lacks {', '.join(missing) or self.archive}"
        if not self.url:
            raise FileNotFoundError(
                f"{lacks}. Get {self.by_hand} and put these files into {folder}"
            )
        from torchvision.datasets.utils import download_and_extract_archive, download_url

        with downloading(
            f"{lacks}. The download of {self.url} failed; put {self.archive} "
            f"(MD5 {self.archive_md5}) into {home}"
            + (f", or those files into {folder}" if missing else "")
        ):
            if missing:
                download_and_extract_archive(
                    self.url, str(home), filename=self.archive, md5=self.archive_md5
                )
            else:
                part = f"{self.archive}.part"  # half a download must not be taken for the archive
                download_url(self.url, str(home), filename=part, md5=self.archive_md5)
                (home / part).rename(home / self.archive)

    def place(self, home: Path) -> tuple[str, list[File]]:
        """The set's folder or archive, and all its files there or not."""
        if not self.folder:
            return "scikit-learn", []
        if not self.files:
            archive = home / self.archive
            return str(archive), [File.with_md5(archive, self.archive_md5)]
        folder = home / self.folder
        hashes = {file: md5 for files in self.files.values() for file, md5 in files.items()}
        return str(folder), [File.with_md5(folder / file, md5) for file, md5 in hashes.items()]

    def verified(self, split: str, home: Path) -> Iterator[Path]:
        """The files of a split one after another, each compared with its MD5 before it is given."""
        for file, md5 in self.files[split].items():
            check_md5(home / self.folder / file, md5)
            yield home / self.folder / file


@dataclass(frozen=True)
class DataSet:
    """A data set with a name of its own. Functions get the set itself as their first argument.

    Attributes:
        title: its usual name, for tables and figures.
        shape: its size, known beforehand so that a plan needs no data.
        read: from the set, a split, the data folder and a limit (0: all) to the split's arrays. It
            may read more than the limit, which is cut off.
        augment: the views to train with.
        splits: the names of its splits.
        published: its files if their content is fixed; missing ones are downloaded before ``read``.
        files: from the set and the data folder, where it lies and its files. By default those
            that are published; a set without either comes with scikit-learn.
        content: for a set whose content can change: its hash, from the arguments of ``read``.
    """

    title: str
    shape: Shape
    read: Callable[[DataSet, str, Path, int], Arrays]
    augment: TwoViewAugment = field(default_factory=TwoViewAugment)
    splits: tuple[str, ...] = SPLITS
    published: Published = Published()
    files: Callable[[DataSet, Path], tuple[str, list[File]]] | None = None
    content: Callable[[DataSet, str, Path, int], str] | None = None

    def place(self, home: Path) -> tuple[str, list[File]]:
        """Where the set lies or would lie below the data folder, and its files."""
        return self.files(self, home) if self.files else self.published.place(home)

    def count(self, split: str) -> int:
        """Images of ``"train"`` (the labelled ones) or ``"test"``."""
        return {"train": self.shape.labelled, "test": self.shape.test}[split]


def check_md5(path: Path, expected: str) -> None:
    """Raise ``ValueError`` with both hashes unless a file's MD5 is the expected one."""
    with path.open("rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the published file: its MD5 is {found}, expected {expected}; "
            "delete it and get it again"
        )


@contextmanager
def downloading(otherwise: str) -> Iterator[None]:
    """Raise ``FileNotFoundError(otherwise)``, with its cause, where a download fails."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise FileNotFoundError(f"{otherwise} ({one_line(error)})") from error
