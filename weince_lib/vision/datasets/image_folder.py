"""Images in torchvision's ``ImageFolder`` layout: ``FOLDER/{train,test}/CLASS/*.jpg``."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch

from .image_set import ImageSet


def load(
    folder: Path | str, split: str, *, name: str = "", limit: int = 0, image_size: int = 0
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

    Raises:
        FileNotFoundError: for a folder that is missing or holds no image.
        ValueError: for images of unequal size (the first that differs from the very first is
            named), a file that is no readable image, or a test class that has no training folder.
    """
    if image_size < 0:
        raise ValueError(f"image_size must be 0 (as it is) or a number of pixels, got {image_size}")
    classes, paths, labels = _list_images(Path(folder), split)
    if limit:
        paths, labels = paths[:limit], labels[:limit]
    first = _read_image(paths[0], image_size)
    images = np.empty((len(paths), *first.shape), dtype=np.uint8)
    for row, path in enumerate(paths):
        image = first if row == 0 else _read_image(path, image_size)
        if image.shape != first.shape:
            raise ValueError(
                f"images of unequal size: {path} is {_size(image)} but {paths[0]} is "
                f"{_size(first)} (width x height); pass image_size to bring all to one size"
            )
        images[row] = image
    return ImageSet(
        name=name or f"imagefolder:{folder}",
        images=torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(),
        labels=torch.tensor(labels, dtype=torch.int64),
        classes=tuple(classes),
    )


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
    by_class = ([sample for sample in samples if sample[1] == label] for label in index.values())
    dealt = [sample for turn in zip_longest(*by_class) for sample in turn if sample is not None]
    return classes, [path for path, _ in dealt], [label for _, label in dealt]


def _read_image(path: str, image_size: int) -> np.ndarray:
    """One image as RGB, ``uint8`` of shape ``(H, W, 3)``."""
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except (OSError, SyntaxError) as error:  # SyntaxError: Pillow's word for a broken PNG
        raise ValueError(f"cannot read image {path}: {error}; replace or delete it") from error
    if image_size:
        image = ImageOps.fit(image, (image_size, image_size), Image.Resampling.BILINEAR)
    return np.asarray(image)


def _size(image: np.ndarray) -> str:
    return f"{image.shape[1]} x {image.shape[0]}"
