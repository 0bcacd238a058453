"""Fashion-MNIST: 60,000 + 10,000 grey images of 28 x 28 pixels in 10 classes.

Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747. The four files are in IDX format: two zero
bytes, a type (8: unsigned byte), the number of dimensions, each dimension as a big-endian 32-bit
integer, then the data.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from functools import partial
from pathlib import Path

import numpy as np

from .data_set import Arrays, DataSet, File, downloading

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


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Find the files of a split, plain or ``.gz``, downloading them if they are nowhere."""
    folder = place(home, split)
    if not all(find(folder, file) for file in FILES[split]):
        _download(home, split)
    # Content of a known hash; a header of 4 bytes and 4 more for each dimension, then the data.
    images, labels = (
        np.frombuffer(verify(find(folder, file) or folder / file, file), np.uint8, offset=start)
        for file, start in zip(FILES[split], (16, 8), strict=True)
    )
    return images.reshape(-1, 1, 28, 28).copy(), labels.astype(np.int64), CLASSES


def place(home: Path, *splits: str) -> Path:
    """The folder that has all files of some splits (default: of both), else where they would be.

    Looked in, in this order: Debian's folder, ``home`` itself, torchvision's folder below it.
    """
    needed = [file for split in splits or FILES for file in FILES[split]]
    raw = home / "FashionMNIST" / "raw"
    folders = (DEBIAN_FOLDER, home, raw)
    return next((f for f in folders if all(find(f, file) for file in needed)), raw)


def find(folder: Path, file: str) -> Path | None:
    """Path of a file named without ``.gz``, plain or else compressed, or ``None``."""
    candidates = (folder / file, folder / f"{file}.gz")
    return next((path for path in candidates if path.is_file()), None)


def files(known: DataSet, home: Path) -> tuple[str, list[File]]:
    """The folder that has the files or would have them, and the four files there."""
    folder = place(home)
    return str(folder), [
        File(path, f"SHA-256 of the decompressed content {sha256}", partial(verify, path, name))
        for name, sha256 in SHA256.items()
        for path in [find(folder, name) or folder / f"{name}.gz"]
    ]


def verify(path: Path, file: str) -> bytes:
    """A file's decompressed content; ``ValueError`` if it is not the published one."""
    mend = (
        "reinstall the Debian package dataset-fashion-mnist"
        if path.parent == DEBIAN_FOLDER
        else "delete it and run again with network access to download it"
    )
    content, what = path.read_bytes(), "content"
    if path.suffix == ".gz":
        what = "decompressed content"
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path} is truncated or not a gzip file ({error}); {mend}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise ValueError(
            f"{path} is not the published file: SHA-256 of its {what} is {found}, "
            f"expected {SHA256[file]}; {mend}"
        )
    return content


def _download(home: Path, split: str) -> None:
    """Have torchvision download the files to ``home/FashionMNIST/raw``."""
    from torchvision.datasets import FashionMNIST

    with downloading(
        f"Fashion-MNIST is neither in {DEBIAN_FOLDER} nor in {home}, and the download failed. "
        "Install the Debian package dataset-fashion-mnist, or put "
        f"{', '.join(f'{file}.gz' for file in SHA256)} into {home / 'FashionMNIST' / 'raw'}"
    ):
        FashionMNIST(str(home), train=split == "train", download=True)
