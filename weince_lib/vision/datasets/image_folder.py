"""Images in torchvision's ``ImageFolder`` layout: ``FOLDER/{train,test}/CLASS/*.jpg``."""

from __future__ import annotations

from pathlib import Path

import torch

from .decoded import deal, decode, files_hash
from .image_set import ImageSet


def load(
    folder: Path | str,
    split: str,
    *,
    name: str = "",
    limit: int = 0,
    image_size: int = 0,
    cache: Path | None = None,
) -> ImageSet:
    """Read one split of an image folder as RGB.

    The classes are the sub-folders of ``train``, sorted by name, for both splits: a class without
    test images keeps its label. Images are dealt out one of each class at a time (the first of
    every class, then the second of every class, ...), each class in the order of its file names.

    Args:
        folder: holds ``train`` and ``test``.
        split: ``"train"`` or ``"test"``.
        name: name of the set; ``"imagefolder:FOLDER"`` by default.
        limit: read the first so many images; 0 reads all.
        image_size: scale the shorter side to so many pixels (bilinear, antialiased) and crop the
            centre square; 0 leaves images as they are.
        cache: folder that keeps the decoded images of large sets, see :mod:`.decoded`; ``None``
            keeps nothing.

    Raises:
        FileNotFoundError: for a folder that is missing or holds no image.
        ValueError: for images of unequal size (the first that differs from the very first is
            named), a file that is no readable image, or a test class that has no training folder.
    """
    classes, paths, labels = _list_images(Path(folder), split)
    if limit:
        paths, labels = paths[:limit], labels[:limit]
    images = decode(paths, lambda path: Path(path).read_bytes(), image_size=image_size, cache=cache)
    return ImageSet(
        name=name or f"imagefolder:{folder}",
        images=torch.from_numpy(images),
        labels=torch.tensor(labels, dtype=torch.int64),
        classes=tuple(classes),
    )


def content_of(folder: Path | str, split: str, *, limit: int = 0) -> str:
    """SHA-256 of the files and labels of what :func:`load` reads, see :func:`.decoded.files_hash`.

    Raises:
        FileNotFoundError, ValueError: as :func:`load`.
    """
    _, paths, labels = _list_images(Path(folder), split)
    if limit:
        paths, labels = paths[:limit], labels[:limit]
    return files_hash([Path(path) for path in paths], labels)


def _list_images(folder: Path, split: str) -> tuple[list[str], list[str], list[int]]:
    """Class names, and path and label of every image in the order described above."""
    from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, make_dataset

    layout = f"expected {folder}/train/CLASS/*.jpg and {folder}/test/CLASS/*.jpg"
    for part in ("train", split):
        if not (folder / part).is_dir():
            raise FileNotFoundError(f"image folder {folder / part} does not exist; {layout}")
    try:
        classes, index = find_classes(folder / "train")
        present, _ = find_classes(folder / split)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} ({layout})") from error
    if unknown := sorted(set(present) - set(classes)):
        raise ValueError(f"{folder / split} has classes that train has not: {', '.join(unknown)}")
    samples = make_dataset(folder / split, index, extensions=IMG_EXTENSIONS, allow_empty=True)
    if not samples:
        raise FileNotFoundError(
            f"image folder {folder / split} holds no image ({', '.join(IMG_EXTENSIONS)}); {layout}"
        )
    dealt = deal([s for s in samples if s[1] == label] for label in index.values())
    return classes, [path for path, _ in dealt], [label for _, label in dealt]
