"""Images in files: torchvision's ``ImageFolder`` layout, and how any files are decoded and kept.

Decoding 50,000 small files takes most of a minute on a busy core, reading their bytes a few
seconds. So the decoded array is kept under a hash of those bytes: a changed, added or missing file
is another key, and a copy of the same files elsewhere is the same one.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import numpy as np

from ... import files
from .data_set import SPLITS, Arrays

T = TypeVar("T")
#: Fewer files than this are decoded anew each time.
CACHE_FROM = 1000


def read(folder: Path, split: str, cache: Path, limit: int, image_size: int) -> Arrays:
    """Read one split of an image folder, ``FOLDER/{train,test}/CLASS/*.jpg``, as RGB.

    The classes are the sub-folders of ``train``, sorted by name, for both splits: a class without
    test images keeps its label. Images are dealt out one of each class at a time (the first of
    every class, then the second of every class, ...), each class in the order of its file names.
    ``cache`` and ``image_size`` are those of :func:`decode`.

    Raises:
        FileNotFoundError: for a folder that is missing or holds no image.
        ValueError: for images of unequal size (the first that differs from the very first is
            named), a file that is no readable image, or a test class that has no training folder.
    """
    classes, paths, labels = _list_images(folder, split, limit)
    images = decode(paths, lambda path: Path(path).read_bytes(), cache, image_size)
    return images, np.array(labels, dtype=np.int64), tuple(classes)


def content_of(folder: Path, split: str, limit: int) -> str:
    """:func:`files_hash` of what :func:`read` reads; empty if neither split is there.

    Raises:
        FileNotFoundError, ValueError: as :func:`read`.
    """
    if not any((folder / part).is_dir() for part in SPLITS):
        return ""
    _, paths, labels = _list_images(folder, split, limit)
    return files_hash([Path(path) for path in paths], labels)


def _list_images(folder: Path, split: str, limit: int) -> tuple[list[str], list[str], list[int]]:
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
    dealt = deal([s for s in samples if s[1] == label] for label in index.values())[: limit or None]
    return classes, [path for path, _ in dealt], [label for _, label in dealt]


def decode(
    names: Sequence[str],
    read: Callable[[str], bytes],
    cache: Path,
    image_size: int = 0,
) -> np.ndarray:
    """Decode image files as RGB.

    Args:
        names: of the files, for ``read`` and for messages.
        read: gives a file's bytes.
        cache: folder in which the decoded array is kept, if there are at least
            :data:`CACHE_FROM` files.
        image_size: scale the shorter side to so many pixels (bilinear, antialiased) and crop the
            centre square; 0 leaves images as they are.

    Returns:
        ``uint8``, shape ``(n, 3, H, W)``.

    Raises:
        ValueError: for images of unequal size (the first that differs from the very first is
            named), or a file that is no readable image.
    """
    if image_size < 0:
        raise ValueError(f"image_size must be 0 (as it is) or a number of pixels, got {image_size}")
    if len(names) < CACHE_FROM:
        return _decode_all(names, read, image_size)
    path = cache / f"images-{_key(names, read, image_size)}.npy"
    try:
        images: np.ndarray = np.load(path, allow_pickle=False)
        if images.dtype == np.uint8 and images.ndim == 4 and images.shape[:2] == (len(names), 3):
            return images
    except (OSError, ValueError, EOFError):
        pass  # none is kept, or it is damaged
    images = _decode_all(names, read, image_size)
    try:
        with files.replacing(path) as aside:
            np.save(aside, images, allow_pickle=False)
    except OSError as error:
        warnings.warn(
            f"{path} cannot be written ({error}); the images will be decoded again next time",
            stacklevel=3,
        )
    return images


def deal(by_class: Iterable[Sequence[T]]) -> list[T]:
    """Deal out one of each class at a time: all first ones, then all second ones, and so on."""
    return [item for turn in zip_longest(*by_class) for item in turn if item is not None]


def _key(names: Sequence[str], read: Callable[[str], bytes], image_size: int) -> str:
    """Hash of what the decoded array depends on: bytes of the files, size, and decoder."""
    import PIL
    from PIL import features

    decoders = [features.version(name) for name in ("jpg", "libjpeg_turbo", "zlib", "webp")]
    digest = hashlib.sha256(f"1 {image_size} {PIL.__version__} {decoders}\n".encode())
    for name in names:
        content = read(name)
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()[:32]


def files_hash(paths: Sequence[Path], labels: Sequence[int]) -> str:
    """SHA-256 (hex) of image files and their labels, in order; nothing is decoded.

    Neither names nor places count, nor the library that decodes. Within one process files are read
    again only if the place, size or time of change of one is another.
    """
    listing = hashlib.sha256()
    for path, label in zip(paths, labels, strict=True):
        s = path.stat()
        stamp = f"{path}\0{label} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns}\n"
        listing.update(stamp.encode(errors="surrogateescape"))
    key = listing.hexdigest()
    if key not in _hashed:
        digest = hashlib.sha256()
        for path, label in zip(paths, labels, strict=True):
            content = path.read_bytes()
            digest.update(f"{label} {len(content)}\n".encode())
            digest.update(content)
        _hashed[key] = digest.hexdigest()
    return _hashed[key]


#: Hashes of files that this process has read, by a hash of their listing.
_hashed: dict[str, str] = {}


def _decode_all(names: Sequence[str], read: Callable[[str], bytes], image_size: int) -> np.ndarray:
    first = _decode_one(names[0], read, image_size)
    images = np.empty((len(names), *first.shape), dtype=np.uint8)
    for row, name in enumerate(names):
        image = first if row == 0 else _decode_one(name, read, image_size)
        if image.shape != first.shape:
            (height, width, _), (h, w, _) = first.shape, image.shape
            raise ValueError(
                f"images of unequal size: {name} is {w} x {h} but {names[0]} is "
                f"{width} x {height} (width x height); pass image_size to bring all to one size"
            )
        images[row] = image
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _decode_one(name: str, read: Callable[[str], bytes], image_size: int) -> np.ndarray:
    """One image as RGB, ``uint8`` of shape ``(H, W, 3)``."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(read(name))) as file:
            image = file.convert("RGB")
    except (OSError, SyntaxError) as error:  # SyntaxError: Pillow's word for a broken PNG
        why = "no known image format" if isinstance(error, UnidentifiedImageError) else error
        raise ValueError(f"cannot read image {name}: {why}; replace or delete it") from error
    if image_size:
        image = ImageOps.fit(image, (image_size, image_size), Image.Resampling.BILINEAR)
    return np.asarray(image)
