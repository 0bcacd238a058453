"""Image sets, digits, Fashion-MNIST: contents, hashes, where files are looked for, errors."""

import gzip
import hashlib
import struct
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torchvision.datasets import FashionMNIST

from weince_lib.experiments import run_vision, vision_config
from weince_lib.vision import TwoViewAugment
from weince_lib.vision.datasets import (
    DATA_SETS,
    DataSet,
    Finding,
    ImageSet,
    Shape,
    augmentation,
    check,
    content_of,
    fashion_mnist,
    holdings,
    load,
    title,
)

needs_debian_files = pytest.mark.skipif(
    not fashion_mnist.DEBIAN_FOLDER.is_dir(),
    reason="Debian package dataset-fashion-mnist is not installed",
)
DIGITS_HASHES = {
    "train": "99d17e26fe8a6c2f47c7dce137374175c2088d49562c63b1d5649b2f0f3a6393",
    "test": "c2c58778e1645fb2bfb0933c2fa65871d78ead56593e59c642a2b6b88a4ced47",
}


# --- ImageSet -------------------------------------------------------------------------------------


def small_set(n=6, name="small"):
    images = torch.arange(n * 2 * 3, dtype=torch.uint8).reshape(n, 1, 2, 3)
    return ImageSet(name, images, torch.arange(n) % 3, ("a", "b", "c"))


def test_content_hash_is_sha256_of_dtypes_shapes_and_bytes():
    images = bytes(range(12))
    labels = struct.pack("<2q", 0, 1)
    content = b"uint8 (2, 1, 2, 3)\n" + images + b"int64 (2,)\n" + labels
    assert small_set(2).content_hash() == hashlib.sha256(content).hexdigest()


def test_content_hash_tells_contents_apart():
    base = small_set()
    assert base.content_hash() == small_set(name="other").content_hash()
    pixel, label = base.images.clone(), base.labels.clone()
    pixel[3, 0, 1, 1] += 1
    label[3] = 1
    others = [
        ImageSet("small", pixel, base.labels, base.classes),
        ImageSet("small", base.images, label, base.classes),
        ImageSet("small", base.images.reshape(6, 1, 3, 2), base.labels, base.classes),
        base.subset([1, 0, 2, 3, 4, 5]),
        base.limit(5),
    ]
    hashes = {other.content_hash() for other in others} | {base.content_hash()}
    assert len(hashes) == len(others) + 1
    # The layout in memory is no part of the content.
    strided = base.images.flip(3).flip(3).permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    assert not strided.is_contiguous()
    again = ImageSet("small", strided, base.labels, base.classes)
    assert again.content_hash() == base.content_hash()


def test_subset_and_limit():
    images = small_set()
    chosen = images.subset(torch.tensor([4, 1]))
    assert torch.equal(chosen.images, torch.stack([images.images[4], images.images[1]]))
    assert chosen.labels.tolist() == [1, 1]
    assert chosen.classes == images.classes
    assert torch.equal(images.limit(2).images, images.images[:2])
    assert len(images.limit(0)) == len(images.limit(99)) == 6
    assert len(images.subset([])) == 0
    with pytest.raises(ValueError, match="-1"):
        images.limit(-1)
    with pytest.raises(ValueError, match=r"torch.bool"):
        images.subset(images.labels == 1)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), r"uint8.*torch.float32"),
        (torch.zeros(2, 4, 4).byte(), torch.zeros(2).long(), r"\(2, 4, 4\)"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.zeros(3).long(), r"\(2,\)"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.zeros(2).int(), r"torch.int32"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.tensor([0, 3]), "3"),
        (torch.zeros(2, 1, 4, 4).byte(), torch.tensor([-1, 1]), "-1"),
    ],
)
def test_image_set_checks_its_tensors(images, labels, message):
    with pytest.raises(ValueError, match=message):
        ImageSet("bad", images, labels, ("a", "b", "c"))


# --- load -----------------------------------------------------------------------------------------


def test_unknown_names():
    for name in ("mnist", "imagefolder", "imagefolder:"):
        with pytest.raises(
            ValueError, match=rf"'{name}'.*digits, digit-pairs, .*, imagefolder:PATH"
        ):
            load(name, "train")
    with pytest.raises(ValueError, match=r"'validation'.*train, test"):
        load("digits", "validation")
    with pytest.raises(ValueError, match="image_size=32"):
        load("digits", "train", image_size=32)
    with pytest.raises(ValueError, match=r"limit.*-5"):
        load("digits", "train", limit=-5)


def test_another_data_set_is_one_entry(monkeypatch, tmp_path):
    """A function that reads it and an entry: loading, listing, checking and a run know it."""

    def read(known, split, home, limit):
        labels = np.arange(64 if split == "train" else 16) % 2
        noise = np.random.default_rng(len(labels)).integers(0, 128, (len(labels), 1, 8, 8))
        return (
            (noise + 127 * labels[:, None, None, None]).astype(np.uint8),
            labels,
            ("dark", "light"),
        )

    augment = TwoViewAugment(flip_probability=0.0)
    entry = DataSet("dark and light", Shape(64, 64, 16, 1, 8, 2), read, augment)
    monkeypatch.setitem(DATA_SETS, "lights", entry)
    assert load("lights", "train", limit=3).labels.tolist() == [0, 1, 0]
    assert (title("lights"), augmentation("lights")) == ("dark and light", augment)
    assert content_of("lights", "train") == ""
    assert [h.state for h in holdings() if h.name == "lights"] == ["there"]
    assert check("lights")[0] == Finding(True, "train: 64 images of 1x8x8, 2 classes of 32")

    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("WEINCE_HOME", str(tmp_path))
    small = {"width": 4, "epochs": 1, "batch_size": 16, "split_seeds": (1,), "loss": "infonce"}
    config = vision_config("quick", dataset="lights", probe_epochs=2, probe_seeds=(1,), **small)
    record = run_vision(config, profile="quick")
    assert record.labels["dataset"] == "lights"
    assert {m.split for m in record.metrics if m.name == "knn_accuracy"} == {"validation", "test"}


# --- digits ---------------------------------------------------------------------------------------


def test_digits_are_every_fourth_of_each_class():
    source = load_digits()
    seen = dict.fromkeys(range(10), 0)
    rows = {"train": [], "test": []}
    for row, label in enumerate(source.target.tolist()):
        seen[label] += 1
        rows["test" if seen[label] % 4 == 0 else "train"].append(row)
    for split, expected in rows.items():
        digits = load("digits", split)
        assert digits.labels.tolist() == source.target[expected].tolist()
        levels = digits.images[:, 0].double() * 16 / 255
        assert float((levels - torch.tensor(source.images[expected])).abs().max()) <= 0.5 * 16 / 255
        assert digits.classes == tuple("0123456789")
    assert (len(rows["train"]), len(rows["test"])) == (1352, 445)


def test_digits_fill_the_grey_range_and_stay_the_same():
    train, test = load("digits", "train"), load("digits", "test")
    assert train.images.shape[1:] == (1, 8, 8)
    assert len(train.images.unique()) == 17
    assert (int(train.images.min()), int(train.images.max())) == (0, 255)
    # The split is part of every result: it must not change with a version of scikit-learn.
    assert train.content_hash() == DIGITS_HASHES["train"]
    assert test.content_hash() == DIGITS_HASHES["test"]
    assert torch.equal(load("digits", "train", limit=100).images, train.images[:100])


# --- pairs of digits: a hundred balanced classes --------------------------------------------------


def halves(images):
    return [images[..., :8].reshape(len(images), -1), images[..., 8:].reshape(len(images), -1)]


def test_halves_are_digits_of_the_same_split_and_make_the_class():
    for split in ("train", "test"):
        single, pairs = load("digits", split), load("digit-pairs", split)
        label_of = {
            tuple(image.tolist()): int(label)
            for image, label in zip(
                single.images.reshape(len(single), -1), single.labels, strict=True
            )
        }
        assert len(label_of) == len(single)
        tens, units = ([label_of[tuple(x.tolist())] for x in half] for half in halves(pairs.images))
        assert [10 * t + u for t, u in zip(tens, units, strict=True)] == pairs.labels.tolist()


def test_the_same_every_time_and_balanced_when_limited():
    assert load("digit-pairs", "train").content_hash().startswith("2e94ebec88f20f5a")
    assert load("digit-pairs", "test").content_hash().startswith("ff12e1d1774e7a42")
    assert load("digit-pairs", "train", limit=300).labels.bincount().tolist() == [3] * 100


# --- Fashion-MNIST --------------------------------------------------------------------------------


def idx(array):
    """An array of bytes in IDX format: 0, 0, type 8, dimensions, sizes (big-endian), data."""
    return (
        bytes((0, 0, 8, array.ndim))
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def write_idx_folder(folder, compress=False, n=5):
    """The four files with a few random images each; returns the arrays by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = {}
    for images, labels in fashion_mnist.FILES.values():
        arrays[images] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[labels] = rng.integers(0, 10, n, dtype=np.uint8)
    for name, array in arrays.items():
        content = idx(array)
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return arrays


@pytest.fixture
def no_published_files(monkeypatch, tmp_path):
    """A machine without Debian's files, in an empty project, off the network."""

    def offline(*_args, **_kwargs):
        raise URLError("no route to host")

    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "debian")
    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", offline)
    monkeypatch.delenv("WEINCE_DATA", raising=False)
    monkeypatch.setenv("WEINCE_HOME", str(tmp_path))


def publish(monkeypatch, arrays):
    """Take these arrays for the published ones."""
    for name, array in arrays.items():
        monkeypatch.setitem(fashion_mnist.SHA256, name, hashlib.sha256(idx(array)).hexdigest())


def assert_holds(images, arrays, split):
    image_file, label_file = fashion_mnist.FILES[split]
    assert images.images.dtype == torch.uint8
    assert np.array_equal(images.images[:, 0].numpy(), arrays[image_file])
    assert np.array_equal(images.labels.numpy(), arrays[label_file])


@pytest.mark.parametrize("place", ["debian", "root", "raw", "environment", "project root"])
def test_fashion_mnist_is_found(no_published_files, monkeypatch, tmp_path, place):
    folder, root = {
        "debian": (tmp_path / "debian", None),
        "root": (tmp_path / "here", tmp_path / "here"),
        "raw": (tmp_path / "here" / "FashionMNIST" / "raw", tmp_path / "here"),
        "environment": (tmp_path / "there" / "FashionMNIST" / "raw", None),
        "project root": (tmp_path / "data" / "FashionMNIST" / "raw", None),
    }[place]
    if place == "environment":
        monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "there"))
    arrays = write_idx_folder(folder, compress=place == "debian")
    publish(monkeypatch, arrays)
    assert_holds(load("fashion-mnist", "train", root=root), arrays, "train")
    found = load("fashion-mnist", "test", root=root, limit=2)
    assert np.array_equal(found.images[:, 0].numpy(), arrays["t10k-images-idx3-ubyte"][:2])


def test_fashion_mnist_is_downloaded_to_torchvisions_root(
    no_published_files, monkeypatch, tmp_path
):
    arrays = {}

    def download(url, download_root, filename, md5):
        assert md5 in dict(map(reversed, FashionMNIST.resources))
        arrays.update(write_idx_folder(Path(download_root)))

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", download)
    publish(monkeypatch, write_idx_folder(tmp_path / "scratch"))
    found = load("fashion-mnist", "test", root=tmp_path / "new")
    assert_holds(found, arrays, "test")
    assert (tmp_path / "new" / "FashionMNIST" / "raw" / "t10k-images-idx3-ubyte").is_file()


def test_offline_is_one_error_that_says_what_to_put_where(no_published_files, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        load("fashion-mnist", "train", root=tmp_path / "root")
    message = str(error.value)
    assert "\n" not in message
    place = str(tmp_path / "root" / "FashionMNIST" / "raw")
    for word in ("no route to host", "dataset-fashion-mnist", "train-images-idx3-ubyte.gz", place):
        assert word in message


@pytest.mark.parametrize("compress", [False, True])
def test_another_content_is_refused(no_published_files, monkeypatch, tmp_path, compress):
    arrays = write_idx_folder(tmp_path / "data", compress)
    publish(monkeypatch, arrays)
    array = arrays["train-labels-idx1-ubyte"].copy()
    array[0] = (array[0] + 1) % 10
    name = "train-labels-idx1-ubyte" + (".gz" if compress else "")
    (tmp_path / "data" / name).write_bytes(gzip.compress(idx(array)) if compress else idx(array))
    with pytest.raises(ValueError) as error:
        load("fashion-mnist", "train")
    message = str(error.value)
    assert str(tmp_path / "data" / name) in message
    assert hashlib.sha256(idx(array)).hexdigest() in message
    assert fashion_mnist.SHA256["train-labels-idx1-ubyte"] in message
    load("fashion-mnist", "test")  # the other split's files are whole


def test_damaged_files_and_how_to_get_them_again(no_published_files, tmp_path):
    write_idx_folder(tmp_path / "debian")
    with pytest.raises(ValueError, match=r"reinstall.*dataset-fashion-mnist"):
        load("fashion-mnist", "train")
    (tmp_path / "debian" / "train-images-idx3-ubyte").unlink()
    content = idx(write_idx_folder(tmp_path / "data", compress=True)["train-images-idx3-ubyte"])
    path = tmp_path / "data" / "train-images-idx3-ubyte.gz"
    for damaged in (gzip.compress(content)[:-20], content):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz"):
            load("fashion-mnist", "train")


@needs_debian_files
@pytest.mark.parametrize(("split", "per_class"), [("train", 6000), ("test", 1000)])
def test_the_published_files(split, per_class):
    # Hashes are checked on loading; the published counts are 6,000 and 1,000 of each class.
    images = load("fashion-mnist", split)
    assert images.images.shape == (10 * per_class, 1, 28, 28)
    assert images.labels.bincount().tolist() == [per_class] * 10
    assert images.classes == tuple(FashionMNIST.classes)
    first = load("fashion-mnist", split, limit=100)
    assert torch.equal(first.images, images.images[:100])
