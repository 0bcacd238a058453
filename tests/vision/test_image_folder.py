"""Image folders: order, labels, sizes, the kept decoded images, and one clear error each."""

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

from weince_lib.vision.datasets import image_folder, load


def write_image(path, value, size=(6, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)


@pytest.fixture
def folder(tmp_path):
    """Three cats, one dog and two owls to train with; an owl and a cat to test with."""
    for k in range(3):
        write_image(tmp_path / "pets" / "train" / "cat" / f"{k}.png", (10 + k, 0, 0))
    write_image(tmp_path / "pets" / "train" / "dog" / "0.png", (0, 20, 0))
    for k in range(2):
        write_image(tmp_path / "pets" / "train" / "owl" / f"{k}.png", (0, 0, 30 + k))
    write_image(tmp_path / "pets" / "test" / "owl" / "0.png", (0, 0, 40))
    write_image(tmp_path / "pets" / "test" / "cat" / "0.png", 50, mode="L")
    (tmp_path / "pets" / "train" / "notes.txt").write_text("no class")
    (tmp_path / "pets" / "train" / "cat" / "notes.txt").write_text("no image")
    return tmp_path / "pets"


def test_image_folder_deals_out_one_of_each_class(folder):
    images = load(f"imagefolder:{folder}", "train")
    assert images.name == f"imagefolder:{folder}"
    assert images.classes == ("cat", "dog", "owl")
    assert images.images.shape == (6, 3, 4, 6)
    assert images.labels.tolist() == [0, 1, 2, 0, 2, 0]
    colours = [tuple(image[:, 0, 0].tolist()) for image in images.images]
    assert colours == [(10, 0, 0), (0, 20, 0), (0, 0, 30), (11, 0, 0), (0, 0, 31), (12, 0, 0)]
    assert torch.equal(images.images, images.images[:, :, :1, :1].expand(6, 3, 4, 6))


def test_image_folder_test_labels_follow_the_training_classes(folder):
    images = load("imagefolder:pets", "test", root=folder.parent)
    assert images.labels.tolist() == [0, 2]  # no dog to test with, and the owl still is class 2
    assert images.images[0].unique().tolist() == [50]  # grey became RGB


def test_limited_image_folder_reads_only_what_it_keeps(folder):
    (folder / "train" / "cat" / "2.png").write_bytes(b"not an image")
    assert load(f"imagefolder:{folder}", "train", limit=5).labels.tolist() == [0, 1, 2, 0, 2]
    with pytest.raises(ValueError, match=r"cat/2.png"):
        load(f"imagefolder:{folder}", "train")


def test_unequal_sizes_name_the_first_offender(folder):
    write_image(folder / "train" / "cat" / "1.png", (90, 0, 0), size=(8, 5))
    write_image(folder / "train" / "cat" / "2.png", (91, 0, 0), size=(9, 9))
    with pytest.raises(ValueError, match=r"cat/1.png.*image_size"):
        load(f"imagefolder:{folder}", "train")
    images = load(f"imagefolder:{folder}", "train", image_size=4)
    assert images.images.shape == (6, 3, 4, 4)
    assert images.images[3, :, 2, 2].tolist() == [90, 0, 0]


@pytest.mark.parametrize("shape", [(8, 24), (20, 10), (2, 6)])
def test_image_size_scales_and_takes_the_centre(folder, shape):
    noise = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "train" / "cat" / "0.png")
    expected = tv.center_crop(tv.resize(tv.to_image(Image.fromarray(noise)), 4), 4)
    images = load(f"imagefolder:{folder}", "train", limit=1, image_size=4)
    assert int((images.images[0].int() - expected.int()).abs().max()) <= 1  # rounding


def test_missing_and_empty_image_folders(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/train.*CLASS"):
        load(f"imagefolder:{tmp_path / 'nowhere'}", "train")
    (tmp_path / "empty" / "train").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"empty/train.*CLASS"):
        load(f"imagefolder:{tmp_path / 'empty'}", "train")
    (tmp_path / "empty" / "train" / "cat").mkdir()
    with pytest.raises(FileNotFoundError, match=r"empty/train"):
        load(f"imagefolder:{tmp_path / 'empty'}", "train")
    write_image(folder / "test" / "yak" / "0.png", (1, 2, 3))
    with pytest.raises(ValueError, match="yak"):
        load(f"imagefolder:{folder}", "test")


# --- decoded images are kept ----------------------------------------------------------------------


@pytest.fixture
def kept(folder, monkeypatch, tmp_path):
    """The folder of kept arrays, for sets of six files and more; one decoding a line in a list."""
    read, calls = image_folder._decode_all, []
    monkeypatch.setattr(image_folder, "CACHE_FROM", 6)
    monkeypatch.setattr(image_folder, "_decode_all", lambda *given: calls.append(1) or read(*given))
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "cache", calls


def test_large_folders_are_decoded_once_wherever_they_lie(folder, kept, tmp_path):
    cache, calls = kept
    first = load(f"imagefolder:{folder}", "train")
    folder.rename(tmp_path / "moved")
    again = load(f"imagefolder:{tmp_path / 'moved'}", "train")
    assert again.content_hash() == first.content_hash()
    assert again.classes == first.classes
    assert len(calls) == len(list(cache.iterdir())) == 1
    load(f"imagefolder:{tmp_path / 'moved'}", "test")  # two images are not worth it
    load(f"imagefolder:{tmp_path / 'moved'}", "train", limit=5)
    assert len(calls) == 3
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", ["other pixels", "other order", "one more", "other size"])
def test_another_content_is_decoded_anew(folder, kept, change):
    _, calls = kept
    before = load(f"imagefolder:{folder}", "train", image_size=4)
    cats = folder / "train" / "cat"
    if change == "other pixels":
        write_image(cats / "0.png", (99, 0, 0))
    elif change == "other order":
        (cats / "0.png").rename(cats / "3.png")
    elif change == "one more":
        write_image(cats / "3.png", (13, 0, 0))
    size = 2 if change == "other size" else 4
    after = load(f"imagefolder:{folder}", "train", image_size=size)
    assert len(calls) == 2
    assert after.content_hash() != before.content_hash()


@pytest.mark.parametrize("damage", [lambda c: c[:-7], lambda c: b"", lambda c: b"x" * len(c)])
def test_a_damaged_array_is_made_again(folder, kept, damage):
    cache, calls = kept
    before = load(f"imagefolder:{folder}", "train").content_hash()
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.write_bytes(damage(content))
    assert load(f"imagefolder:{folder}", "train").content_hash() == before
    assert file.read_bytes() == content
    assert len(calls) == 2


def test_a_folder_that_cannot_be_written_is_a_warning(folder, kept):
    cache, _ = kept
    cache.parent.mkdir()
    cache.write_text("in the way")
    with pytest.warns(UserWarning, match="cannot be written"):
        assert len(load(f"imagefolder:{folder}", "train")) == 6
