"""What is known about a published data set: files, hashes, counts, and where to get it."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import one_line


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
    """A data set of fixed content.

    Attributes:
        name: what :func:`weince_lib.vision.load` knows it by.
        title: its usual name, for tables and messages.
        folder: its folder below the data folder.
        files: names of the files of each split, in order, relative to ``folder``.
        md5: of every file, in hex; empty for a set that is read from its archive.
        counts: images in each split, where a reader has to know them.
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
    classes: int
    source: str
    counts: Mapping[str, int] = field(default_factory=dict)
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

    def place(self, home: Path) -> tuple[str, list[File]]:
        """The set's folder, and all its files there or not."""
        folder = home / self.folder
        return str(folder), [File.with_md5(folder / file, md5) for file, md5 in self.md5.items()]

    def verified(self, home: Path, file: str) -> Path:
        """The path of a file that has its published MD5.

        Raises:
            ValueError: naming file, found and expected hash.
        """
        path = home / self.folder / file
        check_md5(path, self.md5[file])
        return path

    def unpickle(self, home: Path, file: str) -> dict[str, Any]:
        """What a pickled file holds.

        A pickle can run code when it is read. The hash is compared first, so that this is the file
        that was published.

        Raises:
            ValueError: as :meth:`verified`.
        """
        with self.verified(home, file).open("rb") as content:
            found: dict[str, Any] = pickle.load(content, encoding="latin1")
        return found


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
