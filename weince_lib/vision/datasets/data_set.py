"""What is known of a data set before it is read: size, files with their hashes, reader."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import one_line
from ..augment import TwoViewAugment

#: Splits that every data set has.
SPLITS = ("train", "test")
#: What a reader returns: images (uint8, shape ``(n, C, H, W)``), labels (int64, shape ``(n,)``) and
#: names of the classes.
Arrays = tuple[np.ndarray, np.ndarray, tuple[str, ...]]


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
class File:
    """A file of a data set.

    Attributes:
        path: where it is, or would be.
        expected: the hash it should have, in words; empty if none is known.
        verify: compares the hash and raises ``ValueError``; ``None`` if none is known.
    """

    path: Path
    expected: str = ""
    verify: Callable[[], object] | None = None

    @classmethod
    def with_md5(cls, path: Path, md5: str) -> File:
        """A file of a known MD5."""
        return cls(path, f"MD5 {md5}", partial(check_md5, path, md5))


@dataclass(frozen=True)
class Published:
    """The files of a data set of fixed content.

    Attributes:
        folder: their folder below the data folder; empty for a set without such files.
        files: for each split, the files it is read from, in order, with their MD5 in hex. Empty for
            a set that is read from its archive.
        url: of the archive that holds the whole set; empty if the publisher asks for an agreement
            before the download.
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
        """Download the set unless all files of a split lie in ``home / folder``.

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
        if not missing:
            return
        lacks = f"{title}: {folder} lacks {', '.join(missing)}"
        if not self.url:
            raise FileNotFoundError(
                f"{lacks}. Get {self.by_hand} and put these files into {folder}"
            )
        from torchvision.datasets.utils import download_and_extract_archive

        with downloading(
            f"{lacks}. The download of {self.url} failed; put {self.archive} "
            f"(MD5 {self.archive_md5}) into {home}, or those files into {folder}"
        ):
            download_and_extract_archive(
                self.url, str(home), filename=self.archive, md5=self.archive_md5
            )

    def place(self, home: Path) -> tuple[str, list[File]]:
        """The set's folder, and all its files there or not."""
        if not self.folder:
            return "scikit-learn", []
        folder = home / self.folder
        hashes = {file: md5 for files in self.files.values() for file, md5 in files.items()}
        return str(folder), [File.with_md5(folder / file, md5) for file, md5 in hashes.items()]

    def verified(self, split: str, home: Path) -> Iterator[Path]:
        """The files of a split one after another, each compared with its MD5 before it is given.

        Raises:
            ValueError: naming file, found and expected hash.
        """
        for file, md5 in self.files[split].items():
            check_md5(home / self.folder / file, md5)
            yield home / self.folder / file


@dataclass(frozen=True)
class DataSet:
    """A data set with a name of its own. Functions get the set itself as their first argument.

    Attributes:
        title: its usual name, for tables and figures.
        shape: its size, known beforehand so that a plan needs no data.
        read: from the set, a split, the data folder and a limit (0: all) to the arrays of the
            split. It may read more than the limit, which is cut off.
        augment: the views to train with.
        splits: the names of its splits.
        published: its files if their content is fixed; what is missing is downloaded before
            ``read`` is called.
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
    """Compare a file's MD5 with the expected one.

    Raises:
        ValueError: naming file, found and expected hash.
    """
    with path.open("rb") as content:
        found = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the published file: its MD5 is {found}, expected {expected}; "
            "delete it and get it again"
        )


@contextmanager
def downloading(otherwise: str) -> Iterator[None]:
    """Turn what urllib and torchvision raise when a download fails into one error.

    Raises:
        FileNotFoundError: ``otherwise``, with the cause in brackets.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise FileNotFoundError(f"{otherwise} ({one_line(error)})") from error
