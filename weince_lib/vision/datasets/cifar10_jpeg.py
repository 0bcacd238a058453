"""CIFAR-10 as JPEG files in an archive: 60,000 lossy copies of its images.

A copy loses detail, so results on it are not comparable with CIFAR-10's to the last digit, and are
shown as "CIFAR-10 (JPEG)". The archive holds ``train/CLASS/NNNN.jpg`` (50,000 images) and
``test/CLASS/NNNN.jpg`` (10,000), 32x32 pixels, colour.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

from ... import files
from ...errors import InputError
from .data_set import SPLITS

#: Name of the folder below the data folder, and of the data set in a config.
FOLDER = "cifar10-jpeg"
NAME = f"imagefolder:data/{FOLDER}"
#: SHA-256 of the archive.
ARCHIVE_SHA256 = "0bfcb68717a0ecb0d51ed61034906a773d48d424d94b766a46d7d1c55702a4d9"
#: SHA-256 of the sorted list of file names and sizes, see :func:`listing`.
LISTING_SHA256 = "229a0fa4ea6e6e0079093c0e959b0018c2374272cd3f844f3232804e9ab0c6a6"


def unpack(archive: Path, data: Path) -> Path:
    """Unpack the archive into ``cifar10-jpeg`` of the data folder, whole or not at all.

    Returns:
        The folder of the images. One that is there already is checked and kept.

    Raises:
        FileNotFoundError: if there is no such archive.
        InputError: for an archive with another hash, or a folder that is there and not whole.
    """
    target = data / FOLDER
    if target.exists():
        check(target)
        return target
    if not archive.is_file():
        raise FileNotFoundError(f"{archive}: no such archive of CIFAR-10 (JPEG)")
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != ARCHIVE_SHA256:
        raise InputError(
            f"{archive}: SHA-256 is {found}, that of CIFAR-10 (JPEG) is {ARCHIVE_SHA256}; "
            "copy the archive again"
        )
    data.mkdir(parents=True, exist_ok=True)
    # Aside first: a folder that is unpacked in half would be taken for a smaller data set.
    with TemporaryDirectory(dir=data) as folder:
        aside = Path(folder) / "whole"
        try:
            files.unpack_tar(archive, aside)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise InputError(f"{archive}: not a whole tar archive ({error})") from error
        check(aside)
        aside.rename(target)
    return target


def check(folder: Path) -> None:
    """Compare names and sizes of all files with the archive's, which takes less than a second.

    Raises:
        FileNotFoundError: if the folder is missing, with the command that makes it.
        InputError: if files are missing or have other sizes, with the same command.
    """
    again = "weince data unpack ARCHIVE"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"CIFAR-10 (JPEG) is not at {folder}; unpack its archive there: {again}"
        )
    names = listing(folder)
    if hashlib.sha256("\n".join(names).encode()).hexdigest() != LISTING_SHA256:
        train = sum(name.startswith("train/") for name in names)
        raise InputError(
            f"{folder}: names or sizes of files are not those of CIFAR-10 (JPEG), which has 50,000 "
            f"in train/ and 10,000 in test/; there are {train:,} and {len(names) - train:,}. "
            f"Remove the folder and unpack the archive again: {again}"
        )


def listing(folder: Path) -> list[str]:
    """``"SPLIT/CLASS/FILE SIZE"`` of every image, sorted."""
    found = []
    for split in SPLITS:
        for parent, _, names in os.walk(folder / split):
            for file in names:
                path = Path(parent, file)
                found.append(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}")
    return sorted(found)
