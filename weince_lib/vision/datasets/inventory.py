"""What data is on this machine, and whether it is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ... import paths
from . import fashion_mnist, tiny_imagenet
from .image_set import ImageSet
from .loading import DATASETS, PUBLISHED, load, splits, title
from .published import Published, check_md5

#: Least images of a class whose 80/20 split leaves one for validation.
LEAST_PER_CLASS = 5


@dataclass(frozen=True)
class Holding:
    """One data set on this machine.

    Attributes:
        name: what :func:`weince_lib.vision.load` knows it by.
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
class _File:
    """A file, the hash it should have in words (empty: none is known), and how to compare it."""

    path: Path
    expected: str = ""
    verify: Callable[[], None] | None = None


@dataclass(frozen=True)
class Finding:
    """One thing looked at, and whether it is as it should be."""

    ok: bool
    text: str


def holdings(root: Path | str | None = None) -> list[Holding]:
    """What is there of every named data set; no file is read and nothing downloaded.

    Args:
        root: the data folder; by default see :func:`weince_lib.paths.data`.
    """
    home = _home(root)
    found = []
    for name in DATASETS:
        if name == "imagefolder:PATH":
            continue
        where, files = _files(name, home)
        sizes = [file.path.stat().st_size for file in files if file.path.is_file()]
        state = "there" if len(sizes) == len(files) else "incomplete" if sizes else "missing"
        found.append(Holding(name, title(name), state, where, sum(sizes)))
    return found


def check(name: str, root: Path | str | None = None) -> list[Finding]:
    """Verify a data set's files, hashes and counts. Nothing is downloaded.

    Args:
        name: one of :data:`DATASETS`, or ``imagefolder:PATH`` with a path.
        root: the data folder; by default see :func:`weince_lib.paths.data`. Also what a relative
            PATH starts from, by default the working directory.

    Returns:
        One finding for each file (named, with the expected hash if it is wrong or missing), then
        for each split that could be read.

    Raises:
        ValueError: for an unknown name.
    """
    known = splits(name)
    home = _home(root)
    findings = []
    if not name.startswith("imagefolder:"):
        findings = [_check_file(file) for file in _files(name, home)[1]]
        if not all(finding.ok for finding in findings):
            return findings
    published = PUBLISHED[name]() if name in PUBLISHED else None
    for split in known:
        try:
            images = load(name, split, root=root)
        except (ValueError, OSError) as error:
            findings.append(Finding(False, f"{split}: {error}"))
        else:
            findings.append(_check_split(images, split, published))
    return findings


def _home(root: Path | str | None) -> Path:
    return Path(root).expanduser().resolve() if root else paths.data()


def _files(name: str, home: Path) -> tuple[str, list[_File]]:
    """Where a set lies or would lie, and its files."""
    if name in ("digits", "digit-pairs"):
        return "scikit-learn", []
    if name == "fashion-mnist":
        folder = fashion_mnist.place(home)
        return str(folder), [_fashion_file(folder, n) for n in fashion_mnist.SHA256]
    published = PUBLISHED[name]()
    folder = home / published.folder
    if name != "tiny-imagenet":
        return str(folder), [_file(folder / file, md5) for file, md5 in published.md5.items()]
    assert published.archive is not None
    zipped = home / published.archive.file
    if tiny_imagenet.place(published, home) == folder:
        needed = (tiny_imagenet.CLASSES, tiny_imagenet.ANNOTATIONS)
        return str(folder), [_File(folder / file) for file in needed]
    return str(zipped), [_file(zipped, published.archive.md5)]


def _file(path: Path, md5: str) -> _File:
    return _File(path, f"MD5 {md5}", partial(check_md5, path, md5))


def _fashion_file(folder: Path, name: str) -> _File:
    path = fashion_mnist.find(folder, name) or folder / f"{name}.gz"
    expected = f"SHA-256 of the decompressed content {fashion_mnist.SHA256[name]}"
    return _File(path, expected, partial(fashion_mnist.verify, path, name))


def _check_file(file: _File) -> Finding:
    if not file.path.is_file():
        expected = f" (expected {file.expected})" if file.expected else ""
        return Finding(False, f"{file.path} is missing{expected}")
    if file.verify is None:
        return Finding(True, f"{file.path} is there")
    try:
        file.verify()
    except ValueError as error:
        return Finding(False, str(error))
    return Finding(True, f"{file.path}: {file.expected}")


def _check_split(images: ImageSet, split: str, published: Published | None) -> Finding:
    """Count the images of a split and of its classes."""
    shape = "x".join(str(size) for size in images.images.shape[1:])
    text = f"{split}: {len(images):,} images of {shape}"
    if not images.classes:
        return Finding(True, f"{text}, unlabelled")
    sizes = images.labels.bincount(minlength=len(images.classes))
    least, most = int(sizes.min()), int(sizes.max())
    of_each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    text = f"{text}, {len(images.classes)} classes of {of_each}"
    if published is not None and split not in published.uneven and least != most:
        return Finding(False, f"{text}; expected {len(images) // published.classes:,} of each")
    if split == "train" and least < LEAST_PER_CLASS:
        small = images.classes[int(sizes.argmin())]
        return Finding(
            False,
            f"{text}; class {small!r} has {least}, too few for the 80/20 split, which needs "
            f"{LEAST_PER_CLASS}",
        )
    return Finding(True, text)
