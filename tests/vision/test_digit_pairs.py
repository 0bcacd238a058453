"""Digit pairs: a hundred balanced classes, no digit in both splits, classes that halves name."""

import torch

from weince_lib.vision import augmentation, load


def halves(images):
    return [images[..., :8].reshape(len(images), -1), images[..., 8:].reshape(len(images), -1)]


def test_hundred_balanced_classes_all_images_different():
    for split, count in (("train", 100), ("test", 40)):
        found = load("digit-pairs", split)
        assert found.images.shape == (100 * count, 1, 8, 16)
        assert found.labels.bincount().tolist() == [count] * 100
        assert len(torch.unique(found.images.reshape(len(found), -1), dim=0)) == len(found)
        assert found.classes[7] == "07" and found.classes[70] == "70"


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


def test_no_digit_is_in_both_splits():
    train, test = (load("digit-pairs", split).images for split in ("train", "test"))
    seen = {tuple(x.tolist()) for half in halves(train) for x in half}
    assert not seen & {tuple(x.tolist()) for half in halves(test) for x in half}


def test_the_same_every_time_and_balanced_when_limited():
    assert load("digit-pairs", "train").content_hash().startswith("2e94ebec88f20f5a")
    assert load("digit-pairs", "test").content_hash().startswith("ff12e1d1774e7a42")
    assert load("digit-pairs", "train", limit=300).labels.bincount().tolist() == [3] * 100


def test_views_keep_shape_and_orientation():
    augment = augmentation("digit-pairs")
    images = load("digit-pairs", "train", limit=64).images
    view0, view1 = augment(images, torch.Generator().manual_seed(0))
    assert view0.shape == view1.shape == images.shape
    assert augment.flip_probability == 0 and augment.crop_scale[0] >= 0.6
