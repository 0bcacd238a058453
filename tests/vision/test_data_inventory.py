"""Where data lies, what is there, and whether it is whole."""

import gzip
import hashlib

import published_files as made
import pytest
from PIL import Image

from weince_lib.vision.datasets import DATA_SETS, check, fashion_mnist, holdings


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    """An empty data folder, without Debian's files, off the network."""

    def refuse(*_args, **_given):
        raise AssertionError("nothing may be downloaded here")

    for name in ("download_and_extract_archive", "download_url"):
        monkeypatch.setattr(f"torchvision.datasets.utils.{name}", refuse)
    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", refuse)
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "debian")
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path))


def states():
    return {held.name: held.state for held in holdings()}


def test_holdings_tell_whole_from_incomplete(monkeypatch, tmp_path):
    made.make(monkeypatch, tmp_path, "cifar10")
    made.make(monkeypatch, tmp_path, "imagenet32")
    made.make_tiny_imagenet(monkeypatch, tmp_path)
    (tmp_path / "imagenet32" / "train_data_batch_7").unlink()
    found = states()
    assert found["cifar10"] == found["tiny-imagenet"] == "there"
    assert found["imagenet32"] == "incomplete"
    cifar10 = next(held for held in holdings() if held.name == "cifar10")
    folder = tmp_path / "cifar-10-batches-py"
    assert cifar10.where == str(folder)
    assert cifar10.bytes == sum(path.stat().st_size for path in folder.iterdir())


def test_whole_sets_are_found_whole(monkeypatch, tmp_path):
    made.make(monkeypatch, tmp_path, "stl10", per_class=5)
    findings = check("stl10")
    assert all(finding.ok for finding in findings)
    assert [finding.text for finding in findings[-3:]] == [
        "train: 50 images of 3x96x96, 10 classes of 5",
        "test: 50 images of 3x96x96, 10 classes of 5",
        "unlabeled: 7 images of 3x96x96, unlabelled",
    ]
    md5 = DATA_SETS["stl10"].published.files["test"]["test_X.bin"]
    assert f"{tmp_path / 'stl10_binary' / 'test_X.bin'}: MD5 {md5}" in [f.text for f in findings]
    assert [finding.ok for finding in check("digits")] == [True, True]


def test_every_bad_file_is_named_with_the_expected_hash(monkeypatch, tmp_path):
    made.make(monkeypatch, tmp_path, "cifar10")
    folder = tmp_path / "cifar-10-batches-py"
    (folder / "data_batch_3").unlink()
    (folder / "test_batch").write_bytes(b"damaged")
    bad = [finding.text for finding in check("cifar10") if not finding.ok]
    files = DATA_SETS["cifar10"].published.files
    md5 = files["train"] | files["test"]
    assert len(bad) == 2
    for text, name in zip(bad, ("data_batch_3", "test_batch"), strict=True):
        assert str(folder / name) in text and md5[name] in text


def test_classes_of_unequal_size_are_no_cifar(monkeypatch, tmp_path):
    made.make(monkeypatch, tmp_path, "cifar10")  # random labels
    *files, train, test = check("cifar10")
    assert all(finding.ok for finding in files)
    assert not train.ok and "expected 2 of each" in train.text
    assert not test.ok


def test_missing_everywhere_is_found_missing_and_not_downloaded():
    for name in ("fashion-mnist", "cifar100", "imagenet32", "tiny-imagenet"):
        findings = check(name)
        assert findings
        assert not any(finding.ok for finding in findings)


def test_fashion_mnist_is_compared_by_its_decompressed_content(tmp_path):
    sha256 = fashion_mnist.SHA256["t10k-labels-idx1-ubyte"]
    assert sha256 in check("fashion-mnist")[-1].text
    for name in fashion_mnist.SHA256:
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"other"))
    *_, last = check("fashion-mnist")
    assert not last.ok
    assert sha256 in last.text
    assert hashlib.sha256(b"other").hexdigest() in last.text


def test_image_folders_are_counted_and_broken_images_named(tmp_path):
    folder = tmp_path / "pets"
    for split in ("train", "test"):
        for name, n in (("cat", 5), ("dog", 6)):
            (folder / split / name).mkdir(parents=True)
            for k in range(n):
                Image.new("RGB", (4, 4), (k, 0, 0)).save(folder / split / name / f"{k}.png")
    (folder / "test" / "dog" / "2.png").write_bytes(b"")
    train, test = check(f"imagefolder:{folder}")
    assert train.ok and "11 images of 3x4x4" in train.text
    assert not test.ok
    assert str(folder / "test" / "dog" / "2.png") in test.text
    (folder / "train" / "cat" / "4.png").unlink()
    train, _ = check(f"imagefolder:{folder}")
    assert not train.ok and "'cat'" in train.text
