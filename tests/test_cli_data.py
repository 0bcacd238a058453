"""``weince data``: what it prints and its exit codes."""

import pytest
from click.testing import CliRunner
from PIL import Image

from weince_lib.cli import main
from weince_lib.vision.datasets import fashion_mnist


def weince(*arguments):
    return CliRunner().invoke(main, ["data", *arguments])


@pytest.fixture(autouse=True)
def own_home(monkeypatch, tmp_path):
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path))
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", tmp_path / "debian")


def test_list_has_a_line_for_every_set(tmp_path):
    result = weince("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["digits", "there"],
        ["digit-pairs", "there"],
        ["fashion-mnist", "missing"],
        ["cifar10", "missing"],
        ["cifar100", "missing"],
        ["stl10", "missing"],
        ["imagenet32", "missing"],
        ["tiny-imagenet", "missing"],
    ]
    assert lines[3].endswith(str(tmp_path / "cifar-10-batches-py"))


def test_check_of_a_whole_set():
    result = weince("check", "digits")
    assert result.exit_code == 0
    assert "1,352 images of 1x8x8" in result.stdout


def test_check_goes_on_after_a_bad_set_and_fails(tmp_path):
    for split in ("train", "test"):
        folder = tmp_path / "cifar10-jpeg" / split / "cat"
        folder.mkdir(parents=True)
        for k in range(5):
            Image.new("RGB", (4, 4), (k, 0, 0)).save(folder / f"{k}.jpg")
    result = weince("check", "imagenet32", f"imagefolder:{tmp_path / 'cifar10-jpeg'}")
    assert result.exit_code == 1
    assert "BAD  " + str(tmp_path / "imagenet32" / "val_data") in result.stdout
    assert "06c02b8b4c8de8b3a36b07859a49de6f" in result.stdout
    assert "CIFAR-10 (JPEG)" in result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_unknown_name_is_one_line_with_the_known_ones():
    result = weince("check", "mnist")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "'mnist'" in result.stderr and "fashion-mnist" in result.stderr
    assert len(result.stderr.splitlines()) == 1
