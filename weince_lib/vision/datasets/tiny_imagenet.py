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
from pathlib import Path

import torch

from ...errors import one_line
from .decoded import deal, decode, files_hash
from .image_set import ImageSet
from .published import Archive, File, Published, check_md5

_URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"

SPEC = Published(
    name="tiny-imagenet",
    title="Tiny-ImageNet",
    folder="tiny-imagenet-200",
    files={"train": (), "test": ()},
    md5={},
    counts={"train": 100_000, "test": 10_000},
    classes=200,
    source=_URL,
    archive=Archive("tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", _URL),
)

#: Where the classes are listed, and the validation images with theirs.
CLASSES = "wnids.txt"
ANNOTATIONS = "val/val_annotations.txt"


def place(published: Published, home: Path) -> Path | None:
    """The zip below ``home`` if it is there, else the unpacked folder, else ``None``."""
    assert published.archive is not None
    zipped, folder = home / published.archive.file, home / published.folder
    if zipped.is_file():
        return zipped
    return folder if folder.is_dir() else None


def ensure(published: Published, home: Path) -> Path:
    """The zip or the unpacked folder; the zip is downloaded to ``home`` if neither is there.

    Raises:
        FileNotFoundError: if it is not and cannot be had; says what to put where.
    """
    if where := place(published, home):
        return where
    from torchvision.datasets.utils import download_url

    archive = published.archive
    assert archive is not None
    part = f"{archive.file}.part"  # so that half a download is not taken for the zip
    try:
        download_url(archive.url, str(home), filename=part, md5=archive.md5)
        return (home / part).rename(home / archive.file)
    except (OSError, RuntimeError) as error:  # what urllib and torchvision raise when offline
        raise FileNotFoundError(
            f"{published.title}: neither {home / archive.file} nor {home / published.folder} is "
            f"there, and the download of {archive.url} failed ({one_line(error)}); put "
            f"{archive.file} (MD5 {archive.md5}) into {home}"
        ) from error


def listed_files(published: Published, home: Path) -> tuple[str, list[File]]:
    """Where the set lies or would lie, and what must be there."""
    where = place(published, home)
    if where == home / published.folder:
        return str(where), [File(where / file) for file in (CLASSES, ANNOTATIONS)]
    assert published.archive is not None
    zipped = home / published.archive.file
    return str(zipped), [File.with_md5(zipped, published.archive.md5)]


def read(published: Published, split: str, home: Path, limit: int = 0) -> ImageSet:
    """Read a split from what :func:`place` finds; the zip is downloaded if it finds nothing.

    Training images are dealt out one of each class at a time; validation images come in the order
    of their annotations.

    Args:
        published: :data:`SPEC`.
        split: ``"train"`` or ``"test"`` (the validation images).
        home: the data folder.
        limit: decode the first so many images; 0 decodes all. Decoded images are kept in
            ``home / "cache"``, see :mod:`.decoded`.

    Raises:
        FileNotFoundError: if neither zip nor folder can be had, or naming a file that it lacks.
        ValueError: for a zip that is not the published one, a number of images that is not, an
            annotation of an unknown class, or a file that is no readable image.
    """
    where = ensure(published, home)
    if where.suffix == ".zip":
        assert published.archive is not None
        check_md5(where, published.archive.md5)
    with _opened(where, published.folder) as (names, content):
        classes, listed = _listed(published, split, where, names, content)
        if limit:
            listed = listed[:limit]
        images = decode([name for name, _ in listed], content, cache=home / "cache")
    return ImageSet(
        name=published.name,
        images=torch.from_numpy(images),
        labels=torch.tensor([label for _, label in listed], dtype=torch.int64),
        classes=tuple(classes),
    )


def content_of(published: Published, split: str, home: Path, limit: int = 0) -> str:
    """SHA-256 of the files and labels of an unpacked folder, see :func:`.decoded.files_hash`.

    Returns:
        The hash; empty if there is no folder, or a zip, whose hash is compared at each reading.

    Raises:
        FileNotFoundError, ValueError: as :func:`read`.
    """
    where = place(published, home)
    if where is None or where.suffix == ".zip":
        return ""
    with _opened(where, published.folder) as (names, content):
        _, listed = _listed(published, split, where, names, content)
    listed = listed[:limit] if limit else listed
    return files_hash([where / name for name, _ in listed], [label for _, label in listed])


def _listed(
    published: Published,
    split: str,
    where: Path,
    names: set[str],
    content: Callable[[str], bytes],
) -> tuple[list[str], list[tuple[str, int]]]:
    """The classes, and name and label of every image of a split."""
    if CLASSES not in names:
        raise FileNotFoundError(f"{where} lacks {CLASSES}; {_mend(published)}")
    classes = content(CLASSES).decode().split()
    if len(classes) != published.classes:
        raise ValueError(
            f"{where}: {CLASSES} lists {len(classes)} classes, expected {published.classes}"
        )
    listed = (
        _training(names, classes)
        if split == "train"
        else _annotated(where, names, content, classes, published)
    )
    if len(listed) != published.counts[split]:
        raise ValueError(
            f"{where}: {published.title} {split} has {len(listed)} images, expected "
            f"{published.counts[split]}; delete it and get it again"
        )
    return classes, listed


@contextmanager
def _opened(where: Path, folder: str) -> Iterator[tuple[set[str], Callable[[str], bytes]]]:
    """Names of all files, relative to the set's folder, and a function that reads one."""
    if where.suffix != ".zip":
        names = {p.relative_to(where).as_posix() for p in where.rglob("*") if p.is_file()}
        yield names, lambda name: (where / name).read_bytes()
        return
    with zipfile.ZipFile(where) as archive:
        inside = (name for name in archive.namelist() if name.startswith(f"{folder}/"))
        names = {name.removeprefix(f"{folder}/") for name in inside}
        yield names, lambda name: archive.read(f"{folder}/{name}")


def _training(names: set[str], classes: list[str]) -> list[tuple[str, int]]:
    """Name and label of every training image, dealt out by class."""
    index = {name: label for label, name in enumerate(classes)}
    by_class: list[list[tuple[str, int]]] = [[] for _ in classes]
    for name in sorted(names):
        part, _, rest = name.partition("/")
        wnid = rest.partition("/")[0]
        if part == "train" and wnid in index and name.endswith(".JPEG"):
            by_class[index[wnid]].append((name, index[wnid]))
    return deal(by_class)


def _annotated(
    where: Path,
    names: set[str],
    content: Callable[[str], bytes],
    classes: list[str],
    published: Published,
) -> list[tuple[str, int]]:
    """Name and label of every validation image: tab-separated file, class, and box in a line."""
    if ANNOTATIONS not in names:
        raise FileNotFoundError(f"{where} lacks {ANNOTATIONS}; {_mend(published)}")
    index = {name: label for label, name in enumerate(classes)}
    listed = []
    for number, line in enumerate(content(ANNOTATIONS).decode().splitlines(), 1):
        file, *rest = line.split("\t")
        name = f"val/images/{file}"
        if not rest or rest[0] not in index:
            found = repr(rest[0]) if rest else "nothing"
            raise ValueError(
                f"{where}: {ANNOTATIONS}, line {number}: {found} is no class of {CLASSES}"
            )
        if name not in names:
            raise FileNotFoundError(f"{where} lacks {name}; {_mend(published)}")
        listed.append((name, index[rest[0]]))
    return listed


def _mend(published: Published) -> str:
    assert published.archive is not None
    return f"get {published.archive.file} (MD5 {published.archive.md5}) from {published.source}"
