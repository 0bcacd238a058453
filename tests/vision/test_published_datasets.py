"""The paper's data sets: each loader on files in the true format, and one clear error each."""

import os
import pickle
import re
from urllib.error import URLError

import numpy as np
import published_files as made
import pytest
import torch

from weince_lib.vision.datasets import load, loading, pretraining_split, splits, title

PAPER = ("cifar10", "cifar100", "stl10", "imagenet32", "tiny-imagenet")


@pytest.fixture
def offline(monkeypatch):
    """Let every download fail, and say what was asked for."""
    asked = []

    def refuse(url, *_args, **given):
        asked.append(url)
        raise URLError("no route to host")

    for name in ("download_and_extract_archive", "download_url"):
        monkeypatch.setattr(f"torchvision.datasets.utils.{name}", refuse)
    return asked


@pytest.fixture
def make(monkeypatch, tmp_path, offline):
    """Make one of the sets below tmp_path; return images and labels by split."""

    def make(name):
        if name.startswith("cifar"):
            return made.make_cifar(monkeypatch, tmp_path, name)
        if name == "imagenet32":
            return made.make_imagenet32(monkeypatch, tmp_path)
        return made.make_stl10(monkeypatch, tmp_path)

    return make


def spec(name):
    return loading.DATA_SETS[name].published()


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "imagenet32", "stl10"])
def test_every_split_is_what_was_written(make, tmp_path, offline, name):
    for split, (images, labels) in make(name).items():
        found = load(name, split, root=tmp_path)
        assert found.name == name
        assert found.images.dtype == torch.uint8
        assert np.array_equal(found.images.numpy(), images)
        assert np.array_equal(found.labels.numpy(), labels)
        assert len(found.classes) == (0 if split == "unlabeled" else spec(name).classes)
        part = load(name, split, root=tmp_path, limit=5)
        assert np.array_equal(part.images.numpy(), images[:5])
        assert np.array_equal(part.labels.numpy(), labels[:5])
    assert offline == []


def test_cifar_classes_are_the_files_names(make, tmp_path):
    make("cifar100")
    assert load("cifar100", "test", root=tmp_path).classes[99] == "class 99"


@pytest.mark.parametrize("name", ["cifar10", "imagenet32"])
def test_a_limit_reads_no_more_files_than_it_needs(make, tmp_path, name):
    images, _ = make(name)["train"]
    (tmp_path / spec(name).folder / spec(name).files["train"][-1]).write_bytes(b"damaged")
    n = len(images) // 2
    assert len(load(name, "train", root=tmp_path, limit=n)) == n
    with pytest.raises(ValueError, match="is not the published file"):
        load(name, "train", root=tmp_path)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "folder"])
def test_tiny_imagenet(monkeypatch, tmp_path, offline, zipped):
    truth = made.make_tiny_imagenet(monkeypatch, tmp_path, zipped=zipped)
    train = load("tiny-imagenet", "train", root=tmp_path)
    assert train.classes == made.WNIDS
    assert train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    names = [f"train/{w}/images/{w}_{k}.JPEG" for k in range(2) for w in made.WNIDS]
    assert np.array_equal(train.images.numpy(), np.stack([truth[name] for name in names]))
    test = load("tiny-imagenet", "test", root=tmp_path)
    assert test.labels.tolist() == [0, 1, 2, 0, 1]
    names = [f"val/images/val_{k}.JPEG" for k in range(5)]
    assert np.array_equal(test.images.numpy(), np.stack([truth[name] for name in names]))
    assert load("tiny-imagenet", "train", root=tmp_path, limit=4).labels.tolist() == [0, 1, 2, 0]
    assert offline == []


def test_stl10_alone_has_another_split_to_train_with():
    assert {name: pretraining_split(name) for name in PAPER} == dict.fromkeys(PAPER, "train") | {
        "stl10": "unlabeled"
    }
    assert splits("stl10") == ("train", "test", "unlabeled")
    with pytest.raises(ValueError, match="unknown split 'unlabeled'; known: train, test"):
        load("cifar10", "unlabeled")
    with pytest.raises(ValueError, match="unknown data set 'mnist'; known: digits, digit-pairs"):
        pretraining_split("mnist")


def test_titles():
    assert [title(name) for name in PAPER] == [
        "CIFAR-10",
        "CIFAR-100",
        "STL-10",
        "ImageNet-32",
        "Tiny-ImageNet",
    ]
    # Lossy copies are not the data set itself, and no table may mistake them for it.
    assert title("imagefolder:/somewhere/cifar10-jpeg") == "CIFAR-10 (JPEG)"
    assert title("imagefolder:data/birds") == "birds (image folder)"


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "imagenet32", "stl10"])
def test_every_file_has_a_published_hash(name):
    needed = {file for split in splits(name) for file in spec(name).needed(split)}
    assert needed == set(spec(name).md5)
    assert all(re.fullmatch(r"[0-9a-f]{32}", md5) for md5 in spec(name).md5.values())


# --- missing and damaged files --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "stl10", "imagenet32"])
def test_missing_files_are_named_with_their_hash_and_place(make, tmp_path, offline, name):
    make(name)
    known = spec(name)
    file = known.files["test"][0]
    (tmp_path / known.folder / file).unlink()
    with pytest.raises(FileNotFoundError) as error:
        load(name, "test", root=tmp_path)
    message = str(error.value)
    assert "\n" not in message
    assert f"{tmp_path / known.folder} lacks {file} (MD5 {known.md5[file]})" in message
    if known.archive is None:
        assert offline == []  # its publisher asks for an agreement
        assert "https://image-net.org/download-images" in message
    else:
        assert offline == [known.archive.url]
        assert "no route to host" in message
        assert f"put {known.archive.file} (MD5 {known.archive.md5}) into {tmp_path}" in message
    load(name, "train", root=tmp_path)  # the other split's files are whole


@pytest.mark.parametrize("name", ["cifar10", "stl10", "imagenet32"])
def test_a_changed_file_is_named_with_both_hashes(make, tmp_path, name):
    make(name)
    known = spec(name)
    file = known.files["test"][-1]
    path = tmp_path / known.folder / file
    content = path.read_bytes()
    damaged = content[:-1] + bytes([content[-1] ^ 1])
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="is not the published file") as error:
        load(name, "test", root=tmp_path)
    for word in (str(path), made.md5(damaged), f"expected {known.md5[file]}", "get it again"):
        assert word in str(error.value)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize(
    ("name", "file"),
    [("cifar10", "test_batch"), ("cifar10", "batches.meta"), ("imagenet32", "val_data")],
)
def test_code_in_a_pickle_that_is_not_the_published_one_is_not_run(make, tmp_path, name, file):
    make(name)
    (tmp_path / spec(name).folder / file).write_bytes(
        pickle.dumps({"data": Trap(tmp_path / "ran")})
    )
    with pytest.raises(ValueError, match="is not the published file"):
        load(name, "test", root=tmp_path)
    assert not (tmp_path / "ran").exists()


def test_wrong_tiny_imagenet(monkeypatch, tmp_path, offline):
    with pytest.raises(FileNotFoundError, match=r"no route to host.* put tiny-imagenet-200.zip"):
        load("tiny-imagenet", "test", root=tmp_path)
    made.make_tiny_imagenet(monkeypatch, tmp_path, zipped=False)
    folder = tmp_path / "tiny-imagenet-200"
    annotations = folder / "val" / "val_annotations.txt"
    text = annotations.read_text()
    annotations.write_text(text.replace(made.WNIDS[1], "n00000000", 1))
    with pytest.raises(ValueError, match=r"line 2: 'n00000000' is no class of wnids\.txt"):
        load("tiny-imagenet", "test", root=tmp_path)
    annotations.write_text(text.splitlines(keepends=True)[0])
    with pytest.raises(ValueError, match="test has 1 images, expected 5"):
        load("tiny-imagenet", "test", root=tmp_path)
    annotations.write_text(text)
    (folder / "val" / "images" / "val_2.JPEG").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks val/images/val_2.JPEG; get .*MD5 [0-9a-f]"):
        load("tiny-imagenet", "test", root=tmp_path)
    annotations.unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks val/val_annotations.txt"):
        load("tiny-imagenet", "test", root=tmp_path)
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"half a zip")
    with pytest.raises(ValueError, match=r"200.zip is not the published file: its MD5 .* expected"):
        load("tiny-imagenet", "train", root=tmp_path)
