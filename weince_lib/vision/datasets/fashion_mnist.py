"""Fashion-MNIST: 60,000 + 10,000 grey images of 28 x 28 pixels in 10 classes.

Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747. The four files are in IDX format: two zero
bytes, a type (8: unsigned byte), the number of dimensions, each dimension as a big-endian 32-bit
integer, then the data.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from ... import paths
from .image_set import ImageSet

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

#: Where Debian's package ``dataset-fashion-mnist`` puts the files.
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")

#: Images and labels of each split, without ``.gz``.
FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}

#: SHA-256 of the files' content after decompression. The compressed files have no single hash:
#: Debian's hold the same bytes as the original ones behind another gzip header.
SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}

_UNSIGNED_BYTE = 8


def load(split: str, *, root: Path | str | None = None) -> ImageSet:
    """Find the files of a split, downloading them if they are nowhere, and read them.

    Looked in, in this order: Debian's folder, then ``root`` itself and torchvision's
    ``FashionMNIST/raw`` below it.

    Args:
        split: ``"train"`` or ``"test"``.
        root: torchvision's root; by default see :func:`weince_lib.paths.data`.

    Raises:
        FileNotFoundError: if the files are not there and cannot be downloaded.
        ValueError: for a file whose content is not the published one.
    """
    home = Path(root).expanduser().resolve() if root else paths.data()
    folder = place(home, split)
    if not all(find(folder, file) for file in FILES[split]):
        _download(home, split)
    return read_folder(folder, split)


def place(home: Path, *splits: str) -> Path:
    """The folder that has all files of some splits (default: of both), else where they would be.

    Looked in, in this order: Debian's folder, ``home`` itself, torchvision's folder below it.
    """
    needed = [file for split in splits or FILES for file in FILES[split]]
    raw = home / "FashionMNIST" / "raw"
    folders = (DEBIAN_FOLDER, home, raw)
    return next((f for f in folders if all(find(f, file) for file in needed)), raw)


def read_folder(
    folder: Path | str, split: str, *, sha256: Mapping[str, str] | None = SHA256
) -> ImageSet:
    """Read a split from a folder that holds its two IDX files, plain or ``.gz``.

    Args:
        folder: where the files lie.
        split: ``"train"`` or ``"test"``.
        sha256: expected hash of each file's decompressed content, by name without ``.gz``; the
            published data set's by default. ``None`` accepts other data in the same format.

    Raises:
        FileNotFoundError: naming the file that is missing.
        ValueError: for a file that is damaged, of another content, or not in IDX format; and for
            numbers of images and labels that differ.
    """
    arrays = []
    for file, ndim in zip(FILES[split], (3, 1), strict=True):
        path = find(Path(folder), file)
        if path is None:
            raise FileNotFoundError(f"{Path(folder) / file}[.gz] does not exist; put it there")
        content = _content(path)
        if sha256 is not None:
            _check_hash(path, content, sha256[file])
        arrays.append(_parse_idx(path, content, ndim))
    images, labels = arrays
    if len(images) != len(labels):
        raise ValueError(
            f"{folder}: {FILES[split][0]} has {len(images)} images but {FILES[split][1]} has "
            f"{len(labels)} labels; {_mend(folder)}"
        )
    return ImageSet(
        name="fashion-mnist",
        images=torch.from_numpy(images[:, None].copy()),
        labels=torch.from_numpy(labels.astype(np.int64)),
        classes=CLASSES,
    )


def find(folder: Path, file: str) -> Path | None:
    """Path of a file named without ``.gz``, plain or else compressed, or ``None``."""
    candidates = (folder / file, folder / f"{file}.gz")
    return next((path for path in candidates if path.is_file()), None)


def verify(path: Path, file: str) -> None:
    """Compare a file's decompressed content with the published one.

    Raises:
        ValueError: for a file that is damaged or of another content, with both hashes.
    """
    _check_hash(path, _content(path), SHA256[file])


def _content(path: Path) -> bytes:
    """Bytes of a file, decompressed if its name ends in ``.gz``."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path} is truncated or not a gzip file ({error}); {_mend(path.parent)}"
        ) from error


def _check_hash(path: Path, content: bytes, expected: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        what = "decompressed content" if path.suffix == ".gz" else "content"
        raise ValueError(
            f"{path} is not the published file: SHA-256 of its {what} is {found}, "
            f"expected {expected}; {_mend(path.parent)}"
        )


def _parse_idx(path: Path, content: bytes, ndim: int) -> np.ndarray:
    """Array of unsigned bytes held by an IDX file with ``ndim`` dimensions."""
    magic = bytes((0, 0, _UNSIGNED_BYTE, ndim))
    if content[:4] != magic:
        raise ValueError(
            f"{path} is not an IDX file of unsigned bytes with {ndim} dimension(s): it starts with "
            f"{content[:4].hex() or 'nothing'}, expected {magic.hex()}; {_mend(path.parent)}"
        )
    start = 4 + 4 * ndim
    shape = tuple(int(n) for n in np.frombuffer(content[4:start].ljust(4 * ndim, b"\0"), ">u4"))
    size = int(np.prod(shape, dtype=np.int64))
    if len(content) != start + size:
        raise ValueError(
            f"{path} has {len(content)} bytes, but its header announces {start + size} "
            f"(shape {shape}); {_mend(path.parent)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _mend(folder: Path | str) -> str:
    """What to do about a bad or missing file."""
    if Path(folder) == DEBIAN_FOLDER:
        return "reinstall the Debian package dataset-fashion-mnist"
    return "delete it and run again with network access to download it"


def _download(home: Path, split: str) -> None:
    """Have torchvision download the files to ``home/FashionMNIST/raw``."""
    from torchvision.datasets import FashionMNIST

    try:
        FashionMNIST(str(home), train=split == "train", download=True)
    except (OSError, RuntimeError) as error:  # what urllib and torchvision raise when offline
        raise FileNotFoundError(
            f"Fashion-MNIST is neither in {DEBIAN_FOLDER} nor in {home}, and the download failed "
            f"({_one_line(error)}). Install the Debian package dataset-fashion-mnist, or put "
            f"{', '.join(f'{file}.gz' for pair in FILES.values() for file in pair)} into "
            f"{home / 'FashionMNIST' / 'raw'}"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
