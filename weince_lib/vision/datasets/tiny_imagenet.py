"""Tiny-ImageNet: 100,000 + 10,000 colour images of 64 x 64 pixels, 200 classes of ImageNet.

Le and Yang (2015), Stanford CS231n. Its validation images, whose classes are listed in
``val/val_annotations.txt``, are the test split here: the labels of its own test images are not
public. Read from the published zip, whose hash is known (the publisher states none; public loaders
agree on this one), or from a folder it was unpacked into.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .data_set import Arrays, DataSet, File, Published, check_md5, downloading
from .image_folder import deal, decode, files_hash

TINY_IMAGENET = Published(
    "tiny-imagenet-200",
    url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    archive_md5="90528d7ca1a48142e341f4ef8d21d0de",
)
#: Where the classes are listed, and the validation images with theirs.
CLASSES = "wnids.txt"
ANNOTATIONS = "val/val_annotations.txt"


@dataclass(frozen=True)
class _Opened:
    """The zip or the folder: where it is, the names of its files, and a function that reads one."""

    where: Path
    names: set[str]
    content: Callable[[str], bytes]

    def lines(self, name: str, published: Published) -> list[str]:
        self.need(name, published)
        return self.content(name).decode().splitlines()

    def need(self, name: str, published: Published) -> None:
        if name not in self.names:
            raise FileNotFoundError(
                f"{self.where} lacks {name}; get {published.archive} (MD5 {published.archive_md5}) "
                f"from {published.url}"
            )


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read a split from the zip, else from the unpacked folder; else the zip is downloaded.

    Training images are dealt out one of each class at a time; validation images come in the order
    of their annotations. Decoded images are kept in ``home / "cache"``, see :mod:`.image_folder`.

    Raises:
        FileNotFoundError: if neither zip nor folder can be had, or naming a file that it lacks.
        ValueError: for a zip that is not the published one, a number of images that is not, an
            annotation of an unknown class, or a file that is no readable image.
    """
    where = _place(known, home) or _download(known, home)
    if where.suffix == ".zip":
        check_md5(where, known.published.archive_md5)
    with _opened(known, where) as opened:
        classes, names, labels = _listed(known, split, opened, limit)
        images = decode(names, opened.content, home / "cache")
    return images, np.array(labels, dtype=np.int64), tuple(classes)


def content_of(known: DataSet, split: str, home: Path, limit: int) -> str:
    """:func:`.files_hash` of an unpacked folder; empty without one.

    A zip has no need of it: its hash is compared at each reading.

    Raises:
        FileNotFoundError, ValueError: as :func:`read`.
    """
    where = _place(known, home)
    if where is None or where.suffix == ".zip":
        return ""
    with _opened(known, where) as opened:
        _, names, labels = _listed(known, split, opened, limit)
    return files_hash([where / name for name in names], labels)


def files(known: DataSet, home: Path) -> tuple[str, list[File]]:
    """Where the set lies or would lie, and what must be there."""
    where = _place(known, home) or home / known.published.archive
    if where.suffix == ".zip":
        return str(where), [File.with_md5(where, known.published.archive_md5)]
    return str(where), [File(where / file) for file in (CLASSES, ANNOTATIONS)]


def _place(known: DataSet, home: Path) -> Path | None:
    """The zip below ``home`` if it is there, else the unpacked folder, else ``None``."""
    zipped, folder = home / known.published.archive, home / known.published.folder
    if zipped.is_file():
        return zipped
    return folder if folder.is_dir() else None


def _download(known: DataSet, home: Path) -> Path:
    from torchvision.datasets.utils import download_url

    published = known.published
    zipped = home / published.archive
    part = f"{published.archive}.part"  # so that half a download is not taken for the zip
    with downloading(
        f"{known.title}: neither {zipped} nor {home / published.folder} is there, and the download "
        f"of {published.url} failed; put {published.archive} (MD5 {published.archive_md5}) into "
        f"{home}"
    ):
        download_url(published.url, str(home), filename=part, md5=published.archive_md5)
        return (home / part).rename(zipped)


@contextmanager
def _opened(known: DataSet, where: Path) -> Iterator[_Opened]:
    """Open the zip or the folder; names are relative to the set's folder."""
    if where.suffix != ".zip":
        names = {p.relative_to(where).as_posix() for p in where.rglob("*") if p.is_file()}
        yield _Opened(where, names, lambda name: (where / name).read_bytes())
        return
    top = f"{known.published.folder}/"
    with zipfile.ZipFile(where) as archive:
        names = {n.removeprefix(top) for n in archive.namelist() if n.startswith(top)}
        yield _Opened(where, names, lambda name: archive.read(f"{top}{name}"))


def _listed(
    known: DataSet, split: str, opened: _Opened, limit: int
) -> tuple[list[str], list[str], list[int]]:
    """The classes, and name and label of every image of a split."""
    classes = opened.lines(CLASSES, known.published)
    if len(classes) != known.shape.classes:
        raise ValueError(
            f"{opened.where}: {CLASSES} lists {len(classes)} classes, expected "
            f"{known.shape.classes}"
        )
    index = {name: label for label, name in enumerate(classes)}
    if split == "train":
        by_class: list[list[tuple[str, int]]] = [[] for _ in classes]
        for name in sorted(opened.names):
            part, wnid, *_ = (*name.split("/"), "")
            if part == "train" and wnid in index and name.endswith(".JPEG"):
                by_class[index[wnid]].append((name, index[wnid]))
        listed = deal(by_class)
    else:
        # Tab-separated: file, class, and the box of the object.
        listed = []
        for number, line in enumerate(opened.lines(ANNOTATIONS, known.published), 1):
            file, wnid, *_ = (*line.split("\t"), "")
            if wnid not in index:
                raise ValueError(
                    f"{opened.where}: {ANNOTATIONS}, line {number}: {wnid!r} is no class of "
                    f"{CLASSES}"
                )
            opened.need(f"val/images/{file}", known.published)
            listed.append((f"val/images/{file}", index[wnid]))
    if len(listed) != known.count(split):
        raise ValueError(
            f"{opened.where}: {known.title} {split} has {len(listed)} images, expected "
            f"{known.count(split)}; delete it and get it again"
        )
    kept = listed[: limit or None]
    return classes, [name for name, _ in kept], [label for _, label in kept]
