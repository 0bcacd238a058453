"""Batched image operations against torchvision's, image by image, with fixed parameters."""

import pytest
import torch
import torch.nn.functional as F
import torchvision.transforms.v2.functional as tv
from torchvision.transforms import InterpolationMode

from weince_lib.vision import image_ops

CLOSE = {"atol": 1e-5, "rtol": 0}


def random_images(n, channels, height, width, seed=0):
    images = torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(seed))
    # Saturated and colourless pixels are where hue and clipping could go wrong.
    images[:, :, 0] = 0.0
    images[:, :, -1] = 1.0
    images[:, :, 1] = images[:, :1, 1]
    return images


def random_boxes(n, height, width, seed=1):
    generator = torch.Generator().manual_seed(seed)

    def whole(high):
        return int(torch.randint(high, (), generator=generator))

    rows = [[0, 0, height, width], [0, 0, 1, 1], [height - 1, width - 1, 1, 1]]
    while len(rows) < n:
        h, w = 1 + whole(height), 1 + whole(width)
        rows.append([whole(height - h + 1), whole(width - w + 1), h, w])
    return torch.tensor(rows[:n])


def one_by_one(operation, images, *parameters):
    rows = zip(images, *(p.tolist() for p in parameters), strict=True)
    return torch.stack([operation(image, *values) for image, *values in rows])


def unflipped(n):
    return torch.zeros(n, dtype=torch.bool)


@pytest.mark.parametrize(
    ("channels", "height", "width"),
    [(1, 28, 28), (3, 32, 32), (3, 9, 14), (3, 96, 96), (1, 48, 60)],
)
def test_crop_and_resize_equals_interpolated_crop(channels, height, width):
    images, boxes = random_images(40, channels, height, width), random_boxes(40, height, width)
    expected = torch.stack(
        [
            F.interpolate(
                image[None, :, top : top + h, left : left + w],
                size=(height, width),
                mode="bilinear",
                align_corners=False,
            )[0]
            for image, (top, left, h, w) in zip(images, boxes.tolist(), strict=True)
        ]
    )
    found = image_ops.crop_and_resize(images, boxes, (height, width), unflipped(len(images)))
    # Points of a wide line lie on a grid in [-1, 1]: a float's last bits are some 1e-5 of a pixel.
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize(("out_size", "antialias"), [((32, 32), False), ((12, 7), True)])
def test_crop_and_resize_equals_torchvision(out_size, antialias):
    # Up to the image's own size antialiasing changes nothing; below it the kernel has to widen.
    images, boxes = random_images(40, 3, 20, 24), random_boxes(40, 20, 24)
    expected = torch.stack(
        [
            tv.resized_crop(image, *box, list(out_size), InterpolationMode.BILINEAR, antialias)
            for image, box in zip(images, boxes.tolist(), strict=True)
        ]
    )
    found = image_ops.crop_and_resize(images, boxes, out_size, unflipped(len(images)))
    assert found.shape == (40, 3, *out_size)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_the_whole_image_at_its_own_size_is_unchanged():
    images = random_images(3, 3, 8, 11)
    boxes = torch.tensor([[0, 0, 8, 11]]).expand(3, 4)
    torch.testing.assert_close(
        image_ops.crop_and_resize(images, boxes, (8, 11), unflipped(len(images))), images, **CLOSE
    )


def test_crop_keeps_float32_under_autocast():
    images, boxes = random_images(8, 1, 16, 16), random_boxes(8, 16, 16)
    plain = image_ops.crop_and_resize(images, boxes, (16, 16), unflipped(len(images)))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(
            image_ops.crop_and_resize(images, boxes, (16, 16), unflipped(len(images))), plain
        )


@pytest.mark.parametrize(("channels", "size"), [(1, 7), (3, 7), (3, 50)])
def test_flip_equals_torchvision(channels, size):
    images, boxes = random_images(6, channels, 5, size), random_boxes(6, 5, size)
    flipped = torch.tensor([True, False, True, True, False, False])
    plain = image_ops.crop_and_resize(images, boxes, (size, size), unflipped(6))
    expected = one_by_one(
        lambda image, yes: tv.horizontal_flip(image) if yes else image, plain, flipped
    )
    found = image_ops.crop_and_resize(images, boxes, (size, size), flipped)
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("brightness", 0.0, 2.0),
        ("contrast", 0.0, 2.0),
        ("saturation", 0.0, 2.0),
        ("hue", -0.5, 0.5),
    ],
)
def test_adjustments_equal_torchvision(channels, name, low, high):
    images = random_images(21, channels, 6, 9)
    factors = torch.linspace(low, high, 21)
    expected = one_by_one(getattr(tv, f"adjust_{name}"), images, factors)
    before = images.clone()
    found = getattr(image_ops, f"adjust_{name}")(images, factors)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert torch.equal(images, before)


def test_hue_turns_the_primaries():
    # Closed form: a third of a turn takes red to green, green to blue and blue to red.
    red, green, blue = (torch.eye(3)[k].reshape(1, 3, 1, 1) for k in range(3))
    third = torch.tensor([1 / 3])
    for before, after in ((red, green), (green, blue), (blue, red)):
        torch.testing.assert_close(image_ops.adjust_hue(before, third), after, **CLOSE)
        torch.testing.assert_close(image_ops.adjust_hue(after, -third), before, **CLOSE)


def test_grayscale_equals_torchvision():
    images = random_images(4, 3, 5, 5)
    grey = torch.tensor([True, False, True, False])
    expected = one_by_one(
        lambda image, yes: tv.rgb_to_grayscale(image, 3) if yes else image, images, grey
    )
    torch.testing.assert_close(image_ops.grayscale(images, grey), expected, **CLOSE)


@pytest.mark.parametrize("channels", [1, 3])
def test_color_jitter_takes_each_image_through_its_own_order(channels):
    # All 24 orders, each with and without jitter, against torchvision's operations one by one.
    orders = torch.cartesian_prod(*[torch.arange(4)] * 4)
    orders = orders[(orders.sort(dim=1).values == torch.arange(4)).all(dim=1)].repeat(2, 1)
    jittered = torch.arange(48) < 24
    images = random_images(48, channels, 6, 6)
    low, high = torch.tensor([0.2, 0.2, 0.2, -0.2]), torch.tensor([1.8, 1.8, 1.8, 0.2])
    uniform = torch.rand(48, 4, generator=torch.Generator().manual_seed(3))
    factors = low + (high - low) * uniform

    def jitter(image, factor, order, yes):
        operations = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)
        for k in order if yes else ():
            image = operations[k](image, factor[k])
        return image

    before = images.clone()
    expected = one_by_one(jitter, images, factors, orders, jittered)
    found = image_ops.color_jitter(images, factors, orders, jittered)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert torch.equal(images, before)
    assert not torch.allclose(found[:24], images[:24], atol=0.01)
