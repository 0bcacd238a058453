"""What is known about a published data set: files, hashes, counts, and where to get it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Archive:
    """One file that holds a whole data set.

    Attributes:
        file: its name.
        md5: of the file, in hex.
        url: where the publisher offers it.
    """

    file: str
    md5: str
    url: str


@dataclass(frozen=True)
class Published:
    """A data set of fixed content.

    Attributes:
        name: what :func:`weince_lib.vision.load` knows it by.
        title: its usual name, for tables and messages.
        folder: its folder below the data folder.
        files: names of the files of each split, in order, relative to ``folder``.
        md5: of every file, in hex; empty for a set that is read from its archive.
        counts: images in each split.
        classes: number of classes.
        uneven: splits whose classes differ in size.
        archive: what to download, or ``None`` if the publisher asks for an agreement first.
        source: where to get it by hand.
        common: files that every split needs.
    """

    name: str
    title: str
    folder: str
    files: Mapping[str, tuple[str, ...]]
    md5: Mapping[str, str]
    counts: Mapping[str, int]
    classes: int
    source: str
    archive: Archive | None = None
    uneven: frozenset[str] = field(default=frozenset())
    common: tuple[str, ...] = ()

    def needed(self, split: str) -> tuple[str, ...]:
        """Names of all files that a split is read from."""
        return (*self.files[split], *self.common)

    def ensure(self, split: str, home: Path) -> None:
        """Download the set unless all files of a split lie in ``home / folder``.

        Raises:
            FileNotFoundError: if files are missing and cannot be had; says which, with their
                hashes, and where to put them.
        """
        missing = [f for f in self.needed(split) if not (home / self.folder / f).is_file()]
        if not missing:
            return
        if self.archive is None:
            raise FileNotFoundError(self.missing(missing, home))
        from torchvision.datasets.utils import download_and_extract_archive

        archive = self.archive
        try:
            download_and_extract_archive(
                archive.url, str(home), filename=archive.file, md5=archive.md5
            )
        except (OSError, RuntimeError) as error:  # what urllib and torchvision raise when offline
            raise FileNotFoundError(f"{self.missing(missing, home)} ({one_line(error)})") from error

    def missing(self, files: list[str], home: Path) -> str:
        """One sentence on missing files: what they are, where to get them, where to put them."""
        folder = home / self.folder
        names = ", ".join(f"{file} (MD5 {self.md5[file]})" for file in files)
        text = f"{self.title}: {folder} lacks {names}. "
        if self.archive is None:
            return f"{text}Get {self.source} and put these files into {folder}"
        return (
            f"{text}The download of {self.archive.url} failed; put {self.archive.file} "
            f"(MD5 {self.archive.md5}) into {home}, or those files into {folder}"
        )

    def verify(self, path: Path, file: str) -> None:
        """Compare a file's MD5 with the published one.

        Raises:
            ValueError: naming file, found and expected hash.
        """
        check_md5(path, self.md5[file])


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


def check_labels(path: Path, labels: np.ndarray, images: int, first: int, last: int) -> None:
    """Compare labels as a file gives them with what they may be.

    Args:
        path: the file, for the message.
        labels: integers, shape ``(n,)``.
        images: how many there must be.
        first: the least label.
        last: the greatest.

    Raises:
        ValueError: naming the file and the first wrong label.
    """
    if len(labels) != images:
        raise ValueError(f"{path} has {len(labels)} labels for {images} images; get it again")
    wrong = np.flatnonzero((labels < first) | (labels > last))
    if wrong.size:
        raise ValueError(
            f"{path}: label {labels[wrong[0]]} of image {wrong[0]} is out of range, "
            f"expected {first} to {last}; get the file again"
        )


def check_count(spec: Published, split: str, found: int, where: Path) -> None:
    """Compare the number of images with the published one.

    Raises:
        ValueError: naming both.
    """
    if found != spec.counts[split]:
        raise ValueError(
            f"{where}: {spec.title} {split} has {found} images, expected {spec.counts[split]}; "
            "delete it and get it again"
        )


def one_line(error: Exception) -> str:
    """An error's message without line breaks."""
    return " ".join(str(error).split())


def batches(total: int, limit: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size`` rows that cover the first ``limit`` (0: all) of ``total``."""
    end = min(total, limit) if limit else total
    for start in range(0, end, size):
        yield slice(start, min(start + size, end))
