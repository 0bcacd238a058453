"""The archive of CIFAR-10 (JPEG): verified, unpacked whole or not at all, checked before use."""

import hashlib
import tarfile

import pytest

from weince_lib.vision.datasets import cifar10_jpeg


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A small archive of the same layout, with its own hashes."""
    source = tmp_path / "source"
    for split, count in (("train", 3), ("test", 2)):
        for i in range(count):
            path = source / split / "cat" / f"{i:04d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(10 + i))
    path = tmp_path / "images.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        for split in ("train", "test"):
            made.add(source / split, split)
    names = "\n".join(cifar10_jpeg.listing(source))
    monkeypatch.setattr(cifar10_jpeg, "LISTING_SHA256", hashlib.sha256(names.encode()).hexdigest())
    monkeypatch.setattr(
        cifar10_jpeg, "ARCHIVE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest()
    )
    return path


def test_an_archive_is_unpacked_once_and_passes_the_check(archive, tmp_path):
    folder = cifar10_jpeg.unpack(archive, tmp_path / "data")
    cifar10_jpeg.check(folder)
    archive.unlink()
    assert cifar10_jpeg.unpack(archive, tmp_path / "data") == folder


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.tar\.gz"):
        cifar10_jpeg.unpack(tmp_path / "none.tar.gz", tmp_path / "data")


def test_another_archive_is_refused_with_both_hashes(archive, tmp_path):
    archive.write_bytes(archive.read_bytes() + b"x")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=found) as refused:
        cifar10_jpeg.unpack(archive, tmp_path / "data")
    assert cifar10_jpeg.ARCHIVE_SHA256 in str(refused.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_folder_that_is_not_whole_is_refused_with_the_command(archive, tmp_path, damage):
    folder = cifar10_jpeg.unpack(archive, tmp_path / "data")
    path = folder / "train" / "cat" / "0001.jpg"
    path.unlink() if damage == "missing" else path.write_bytes(b"short")
    with pytest.raises(ValueError, match="weince data unpack"):
        cifar10_jpeg.check(folder)
    with pytest.raises(ValueError):
        cifar10_jpeg.unpack(archive, tmp_path / "data")


def test_a_missing_folder_is_refused_with_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match="weince data unpack"):
        cifar10_jpeg.check(tmp_path / "cifar10-jpeg")
