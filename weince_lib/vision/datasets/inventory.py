"""What data is on this machine, and whether it is whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .image_set import ImageSet
from .loading import DATA_SETS, home_of, load, splits
from .published import File, Published

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
class Finding:
    """One thing looked at, and whether it is as it should be."""

    ok: bool
    text: str


def holdings(root: Path | str | None = None) -> list[Holding]:
    """What is there of every named data set; no file is read and nothing downloaded.

    Args:
        root: the data folder; by default see :func:`weince_lib.paths.data`.
    """
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

    Args:
        name: a key of :data:`DATA_SETS`, or ``imagefolder:PATH`` with a path.
        root: the data folder; by default see :func:`weince_lib.paths.data`. Also what a relative
            PATH starts from, by default the working directory.

    Returns:
        One finding for each file (named, with the expected hash if it is wrong or missing), then
        for each split that could be read.

    Raises:
        ValueError: for an unknown name.
    """
    findings, published = [], None
    known_splits = splits(name)
    if known := DATA_SETS.get(name):
        published = known.published() if known.published else None
        findings = [_check_file(file) for file in known.place(home_of(root))[1]]
        if not all(finding.ok for finding in findings):
            return findings
    for split in known_splits:
        try:
            images = load(name, split, root=root)
        except (ValueError, OSError) as error:
            findings.append(Finding(False, f"{split}: {error}"))
        else:
            findings.append(_check_split(images, split, published))
    return findings


def _check_file(file: File) -> Finding:
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
