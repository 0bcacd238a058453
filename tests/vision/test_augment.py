"""The two-view augmentation: distribution of its parameters, determinism, range, errors."""

import itertools

import pytest
import torch
import torchvision.transforms.v2.functional as tv
from scipy import stats
from torchvision.transforms import InterpolationMode, RandomResizedCrop

from weince_lib.vision import augment as augment_module
from weince_lib.vision import augmentation, image_ops
from weince_lib.vision.augment import (
    TwoViewAugment,
    apply_by_order,
    apply_parameters,
    sample_boxes,
    sample_parameters,
)

#: Seeded, so that a test either always passes or never does.
LEVEL = 1e-3
PAPER_SCALE, PAPER_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def reference_boxes(n, height, width, scale, ratio):
    image = torch.empty(1, height, width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        boxes = [RandomResizedCrop.get_params(image, list(scale), list(ratio)) for _ in range(n)]
    return torch.tensor(boxes)


def test_crop_boxes_have_torchvisions_joint_distribution():
    # Four by four pixels leave few boxes, so that whole boxes can be counted and compared.
    ours = sample_boxes(6000, 4, 4, PAPER_SCALE, PAPER_RATIO, generator(5))
    theirs = reference_boxes(6000, 4, 4, PAPER_SCALE, PAPER_RATIO)
    boxes, place = torch.cat([ours, theirs]).unique(dim=0, return_inverse=True)
    table = torch.stack([half.bincount(minlength=len(boxes)) for half in place.split(6000)])
    table = table[:, table.sum(dim=0) >= 20]
    assert table.shape[1] > 20
    assert stats.chi2_contingency(table.numpy()).pvalue > LEVEL


@pytest.mark.parametrize(("height", "width"), [(4, 64), (64, 4), (7, 7)])
def test_central_crop_when_no_draw_fits(height, width):
    # No box of 90 % of a 4 x 64 image is as compact as the paper's ratios ask, and none of a square
    # image is twice as wide as high: all ten draws fail.
    ratio = (2.0, 2.0) if height == width else PAPER_RATIO
    ours = sample_boxes(5, height, width, (0.9, 1.0), ratio, generator())
    theirs = reference_boxes(5, height, width, (0.9, 1.0), ratio)
    assert torch.equal(ours, theirs)


def test_parameters_have_the_stated_distribution():
    n = 20_000
    p = sample_parameters(TwoViewAugment(), n, 28, 28, generator(2))
    probabilities = {"flipped": 0.5, "jittered": 0.8, "grey": 0.2}
    for name, probability in probabilities.items():
        successes = int(getattr(p, name).sum())
        assert stats.binomtest(successes, n, probability).pvalue > LEVEL, name
    for place, (low, high) in enumerate([(0.2, 1.8)] * 3 + [(-0.2, 0.2)]):
        test = stats.kstest(p.factors[:, place].numpy(), stats.uniform(low, high - low).cdf)
        assert test.pvalue > LEVEL, place
    digits = p.order @ torch.tensor([64, 16, 4, 1])
    expected = {a * 64 + b * 16 + c * 4 + d for a, b, c, d in itertools.permutations(range(4))}
    orders, counts = digits.unique(return_counts=True)
    assert set(orders.tolist()) == expected
    assert stats.chisquare(counts.numpy()).pvalue > LEVEL
    # Parameters of one image say nothing about each other.
    columns = [p.flipped, p.jittered, p.grey, p.boxes[:, 2], *p.factors.T, p.order[:, 0]]
    correlation = torch.corrcoef(torch.stack([column.double() for column in columns]))
    assert float((correlation - torch.eye(len(columns))).abs().max()) < 4.5 / n**0.5


def test_strong_jitter_never_gets_a_negative_factor():
    augment = TwoViewAugment(brightness=1.5, contrast=1.5, saturation=1.5)
    factors = sample_parameters(augment, 5000, 8, 8, generator()).factors[:, :3]
    assert float(factors.min()) >= 0.0
    assert float(factors.max()) > 2.4


@pytest.mark.parametrize("size", [16, 64])  # by matrices, and sampled at points
@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_equals_torchvisions_transforms_in_sequence(channels, size):
    images = torch.rand(30, channels, size, size, generator=generator(1))
    p = sample_parameters(TwoViewAugment(), 30, size, size, generator(4))
    operations = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)
    expected = []
    for k, image in enumerate(images):
        view = tv.resized_crop(image, *p.boxes[k].tolist(), [size, size], antialias=True)
        if p.flipped[k]:
            view = tv.horizontal_flip(view)
        if p.jittered[k]:
            for place in p.order[k].tolist():
                view = operations[place](view, float(p.factors[k, place]))
        if p.grey[k]:
            view = tv.rgb_to_grayscale(view, channels)
        expected.append(view)
    for apply in (apply_parameters, apply_by_order):
        found = apply(images, p, (size, size))
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=0)


def test_white_stays_within_the_range():
    # The rounded weights of a shrunk pixel may sum to more than 1.
    white = torch.full((256, 3, 28, 28), 255, dtype=torch.uint8)
    augment = TwoViewAugment(jitter_probability=0.0, grayscale_probability=0.0, output_size=9)
    view, _ = augment(white, generator())
    assert view.shape == (256, 3, 9, 9) and view.dtype == torch.float32
    assert float(view.max()) == 1.0
    torch.testing.assert_close(view, torch.ones_like(view), atol=1e-6, rtol=0)


def test_the_generator_decides_everything():
    images = torch.rand(16, 3, 12, 12, generator=generator(9))
    augment = TwoViewAugment()
    source = generator(7)
    first = augment(images, source)
    state = source.get_state()
    second = augment(images, source)
    torch.manual_seed(123)  # the global generator has no say
    again = generator(7)
    assert all(map(torch.equal, first, augment(images, again)))
    resumed = generator().set_state(state)
    assert all(map(torch.equal, second, augment(images, resumed)))
    assert not torch.equal(first[0], second[0])


def test_views_and_images_differ_from_each_other():
    same = torch.rand(1, 3, 16, 16, generator=generator()).expand(32, -1, -1, -1)
    view0, view1 = TwoViewAugment()(same, generator())
    assert not torch.isclose(view0, view1).flatten(1).all(dim=1).any()
    assert len(view0.unique(dim=0)) == 32


def test_everything_off_is_the_identity():
    off = TwoViewAugment(
        crop_scale=(1.0, 1.0),
        crop_ratio=(1.0, 1.0),
        flip_probability=0.0,
        jitter_probability=0.0,
        grayscale_probability=0.0,
    )
    images = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8, generator=generator())
    for view in off(images, generator()):
        torch.testing.assert_close(view, images / 255, atol=1e-6, rtol=0)


def test_presets():
    assert (
        augmentation("fashion-mnist") == TwoViewAugment() == augmentation("imagefolder:some/path")
    )
    digits = augmentation("digits")
    p = sample_parameters(digits, 2000, 8, 8, generator())
    assert not bool(p.flipped.any())
    assert int((p.boxes[:, 2] * p.boxes[:, 3]).min()) >= 24  # 0.4 of 64, sides rounded
    with pytest.raises(ValueError, match=r"'cifar'.*digits, digit-pairs"):
        augmentation("cifar")
    for name in ("cifar10", "cifar100", "stl10", "imagenet32", "tiny-imagenet"):
        assert augmentation(name) == TwoViewAugment()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 8, 8), r"shape \(n, 1 or 3, H, W\), got \(3, 8, 8\)"),
        (torch.zeros(2, 4, 8, 8), r"got \(2, 4, 8, 8\)"),
        (torch.zeros(2, 1, 8, 8, dtype=torch.int64), "got torch.int64"),
        (torch.full((2, 1, 8, 8), 255.0), r"\[0, 1\].*255.*uint8"),
        (torch.full((2, 1, 8, 8), float("nan")), "nan"),
    ],
)
def test_bad_images(images, message):
    with pytest.raises(ValueError, match=message):
        TwoViewAugment()(images, generator())


@pytest.mark.parametrize(
    "setting",
    [
        {"crop_scale": (0.0, 1.0)},
        {"crop_scale": (0.5, 0.4)},
        {"crop_scale": (0.5, 1.5)},
        {"crop_ratio": (-1.0, 1.0)},
        {"flip_probability": 1.5},
        {"jitter_probability": -0.1},
        {"grayscale_probability": float("nan")},
        {"brightness": -0.1},
        {"contrast": float("inf")},
        {"hue": 0.6},
        {"output_size": -1},
    ],
)
def test_bad_settings(setting):
    (name, _), *_ = setting.items()
    with pytest.raises(ValueError, match=name):
        TwoViewAugment(**setting)


def test_views_by_order_are_those_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(0, 256, (150, 3, 6, 7), dtype=torch.uint8, generator=generator)
    p = sample_parameters(TwoViewAugment(), 150, 6, 7, generator)
    at_once = apply_parameters(images / 255.0, p, (6, 7))
    for piece in (1, 10**9):  # images one by one, and a whole order at a time
        monkeypatch.setattr(augment_module, "PIECE_PIXELS", piece)
        torch.testing.assert_close(apply_by_order(images, p, (6, 7)), at_once, atol=4e-6, rtol=0)


def test_parts_of_a_batch_are_the_whole() -> None:
    images = torch.rand(12, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    augment, whole_generator = TwoViewAugment(), torch.Generator().manual_seed(2)
    whole = augment(images, whole_generator)
    for part in range(3):
        generator = torch.Generator().manual_seed(2)
        own = slice(4 * part, 4 * part + 4)
        found = augment(images[own], generator, part=part, parts=3)
        for view, expected in zip(found, whole, strict=True):
            torch.testing.assert_close(view, expected[own], atol=1e-6, rtol=0)
        assert torch.equal(generator.get_state(), whole_generator.get_state())


# Image operations, one by one ----------------------------------------------------------------

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
    ("out_size", "antialias"), [((32, 32), False), ((12, 7), True), ((50, 48), False)]
)
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
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)


def test_crop_keeps_float32_under_autocast():
    images, boxes = random_images(8, 1, 16, 16), random_boxes(8, 16, 16)
    plain = image_ops.crop_and_resize(images, boxes, (16, 16), unflipped(len(images)))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(
            image_ops.crop_and_resize(images, boxes, (16, 16), unflipped(len(images))), plain
        )


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
