"""The paper's data sets: files in the true format, downloads, and one clear error each."""

import functools
import http.server
import os
import pickle
import tarfile
import threading
from urllib.error import URLError

import numpy as np
import published_files as made
import pytest
import torch
from torchvision import datasets as torchvisions

from weince_lib.vision.datasets import DATA_SETS, load, pretraining_split, title

FILES = ("cifar10", "cifar100", "stl10", "imagenet32")


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
    """Make one of the sets of files below tmp_path; return images and labels by split."""
    return lambda name: made.make(monkeypatch, tmp_path, name)


def published(name):
    return DATA_SETS[name].published


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_split_is_what_was_written(make, tmp_path, offline, name):
    for split, (images, labels) in make(name).items():
        found = load(name, split, root=tmp_path)
        assert found.name == name
        assert found.images.dtype == torch.uint8
        assert np.array_equal(found.images.numpy(), images)
        assert np.array_equal(found.labels.numpy(), labels)
        assert len(found.classes) == (0 if split == "unlabeled" else DATA_SETS[name].shape.classes)
        part = load(name, split, root=tmp_path, limit=5)
        assert np.array_equal(part.images.numpy(), images[:5])
        assert np.array_equal(part.labels.numpy(), labels[:5])
    last = {"cifar100": "class 99", "imagenet32": "1000", "stl10": "truck", "cifar10": "class 9"}
    assert load(name, "test", root=tmp_path, limit=1).classes[-1] == last[name]
    assert offline == []


@pytest.mark.parametrize("name", ["cifar10", "imagenet32"])
def test_a_limit_reads_no_more_files_than_it_needs(make, tmp_path, name):
    images, _ = make(name)["train"]
    (tmp_path / published(name).folder / [*published(name).files["train"]][-1]).write_bytes(b"bad")
    n = len(images) // 2
    assert len(load(name, "train", root=tmp_path, limit=n)) == n
    with pytest.raises(ValueError, match="published"):
        load(name, "train", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("cifar10", torchvisions.CIFAR10),
        ("cifar100", torchvisions.CIFAR100),
        ("stl10", torchvisions.STL10),
    ],
)
def test_files_addresses_and_hashes_are_torchvisions(name, known):
    ours = published(name)
    assert (ours.folder, ours.url) == (known.base_folder, known.url)
    assert (ours.archive, ours.archive_md5) == (known.filename, known.tgz_md5)
    theirs = dict([*known.train_list, *known.test_list])
    if name != "stl10":
        theirs[known.meta["filename"]] = known.meta["md5"]
    assert {k: v for files in ours.files.values() for k, v in files.items()} == theirs


def test_titles_and_splits():
    assert [name for name in DATA_SETS if pretraining_split(name) != "train"] == ["stl10"]
    with pytest.raises(ValueError, match="'unlabeled'"):
        load("cifar10", "unlabeled")
    # Lossy copies are not the data set itself, and no table may mistake them for it.
    assert title("cifar10") == "CIFAR-10"
    assert title("imagefolder:/somewhere/cifar10-jpeg") == "CIFAR-10 (JPEG)"
    assert title("imagefolder:data/birds") == "birds (image folder)"


def test_tiny_imagenet(monkeypatch, tmp_path, offline):
    with pytest.raises(FileNotFoundError, match=r"tiny-imagenet-200.zip.*no route"):
        load("tiny-imagenet", "test", root=tmp_path)
    truth = made.make_tiny_imagenet(monkeypatch, tmp_path)
    images = {
        "train": [f"train/{w}/images/{w}_{k}.JPEG" for k in range(2) for w in made.WNIDS],
        "test": [f"val/images/val_{k}.JPEG" for k in range(5)],
    }
    for split, names in images.items():
        found = load("tiny-imagenet", split, root=tmp_path)
        assert found.classes == made.WNIDS
        assert found.labels.tolist() == [0, 1, 2, 0, 1, 2][: len(names)]
        assert np.array_equal(found.images.numpy(), np.stack([truth[name] for name in names]))
    assert load("tiny-imagenet", "train", root=tmp_path, limit=4).labels.tolist() == [0, 1, 2, 0]
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"half a zip")
    with pytest.raises(ValueError, match=r"200.zip.*MD5"):
        load("tiny-imagenet", "train", root=tmp_path)


# --- missing and damaged files --------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_missing_files_are_named_with_their_hash_and_place(make, tmp_path, offline, name):
    make(name)
    known = published(name)
    file, md5 = [*known.files["test"].items()][-1]
    (tmp_path / known.folder / file).unlink()
    with pytest.raises(FileNotFoundError) as error:
        load(name, "test", root=tmp_path)
    message = str(error.value)
    assert "\n" not in message
    for word in (str(tmp_path / known.folder), file, md5):
        assert word in message
    if not known.url:
        assert offline == []  # its publisher asks for an agreement
        assert "https://image-net.org/download-images" in message
    else:
        assert offline == [known.url]
        for word in ("no route to host", known.archive, known.archive_md5):
            assert word in message
    load(name, "train", root=tmp_path)  # the other split's files are whole


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("cifar10", "test_batch"),
        ("cifar10", "batches.meta"),
        ("imagenet32", "val_data"),
        ("stl10", "test_y.bin"),
    ],
)
def test_a_changed_file_is_named_with_both_hashes_and_runs_no_code(make, tmp_path, name, file):
    make(name)
    path = tmp_path / published(name).folder / file
    path.write_bytes(pickle.dumps({"data": Trap(tmp_path / "ran")}))
    with pytest.raises(ValueError) as error:
        load(name, "test", root=tmp_path)
    for word in (str(path), made.md5(path.read_bytes()), published(name).files["test"][file]):
        assert word in str(error.value)
    assert not (tmp_path / "ran").exists()


# --- downloads: from a server on this machine, through torchvision, to the data folder ------------


@pytest.fixture
def site(tmp_path):
    """A server on this machine, and the folder it offers."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_given):
            pass

    folder = tmp_path / "site"
    folder.mkdir()
    serve = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


@pytest.fixture
def offered(monkeypatch, site):
    """The archive of a small CIFAR-10 on the server: its content and its path."""
    address, folder = site
    truth = made.make(monkeypatch, folder, "cifar10")
    path = folder / published("cifar10").archive
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / published("cifar10").folder, published("cifar10").folder)
    made.publish(
        monkeypatch,
        "cifar10",
        url=f"{address}/{path.name}",
        archive_md5=made.md5(path.read_bytes()),
    )
    return truth, path


def test_a_set_is_downloaded_to_the_data_folder_and_unpacked(monkeypatch, tmp_path, offered):
    truth, path = offered
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "home"))
    assert np.array_equal(load("cifar10", "test").images.numpy(), truth["test"][0])
    path.unlink()
    assert np.array_equal(load("cifar10", "train").images.numpy(), truth["train"][0])


def test_a_damaged_download_is_one_error_with_the_expected_hash(tmp_path, offered):
    _, path = offered
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileNotFoundError) as error:
        load("cifar10", "test", root=tmp_path / "home")
    assert published("cifar10").archive_md5 in str(error.value)
    assert "\n" not in str(error.value)


def test_tiny_imagenet_is_downloaded_and_stays_zipped(monkeypatch, tmp_path, site):
    address, folder = site
    made.make_tiny_imagenet(monkeypatch, folder)
    archive = published("tiny-imagenet").archive
    made.publish(monkeypatch, "tiny-imagenet", url=f"{address}/{archive}")
    assert len(load("tiny-imagenet", "test", root=tmp_path / "home")) == 5
    assert [p.name for p in (tmp_path / "home").iterdir()] == [archive]
