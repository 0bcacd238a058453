"""Whole batches have the distribution of torchvision's random transforms, one image at a time.

For each transform torchvision's own random module makes many views of one image, and ours makes as
many of a batch that repeats it. Numbers read from the views are compared by a two-sample test
(Kolmogorov-Smirnov) and by their mean and spread. Each test is made at ``LEVEL``: with about 60 of
them a fresh seed would raise a false alarm 6 % of the time; the seeds are fixed.
"""

from __future__ import annotations

import colorsys
import functools

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision import transforms as tv
from torchvision.transforms.functional import to_pil_image

from weince_lib.vision import TwoViewAugment
from weince_lib.vision import augment as augment_module
from weince_lib.vision.augment import apply_by_order, apply_parameters, sample_parameters
from weince_lib.vision.image_ops import color_jitter

LEVEL = 1e-3
N = 1200
OFF = {
    "crop_scale": (1.0, 1.0),
    "crop_ratio": (1.0, 1.0),
    "flip_probability": 0.0,
    "jitter_probability": 0.0,
    "grayscale_probability": 0.0,
}
STILL = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
PAPER_JITTER = (0.8, 0.8, 0.8, 0.2)
#: Ours with all else off, and torchvision's, by transform (method: the paper's augmentation).
TRANSFORMS = {
    "crop": ({"crop_scale": (0.08, 1.0), "crop_ratio": (3 / 4, 4 / 3)}, tv.RandomResizedCrop(12)),
    "flip": ({"flip_probability": 0.5}, tv.RandomHorizontalFlip()),
    "brightness": (
        STILL | {"jitter_probability": 1.0, "brightness": 0.8},
        tv.ColorJitter(brightness=0.8),
    ),
    "contrast": (
        STILL | {"jitter_probability": 1.0, "contrast": 0.8},
        tv.ColorJitter(contrast=0.8),
    ),
    "saturation": (
        STILL | {"jitter_probability": 1.0, "saturation": 0.8},
        tv.ColorJitter(saturation=0.8),
    ),
    "hue": (STILL | {"jitter_probability": 1.0, "hue": 0.2}, tv.ColorJitter(hue=0.2)),
    "jitter": ({"jitter_probability": 0.8}, tv.RandomApply([tv.ColorJitter(*PAPER_JITTER)], 0.8)),
    "grayscale": ({"grayscale_probability": 0.2}, tv.RandomGrayscale(0.2)),
}


def picture() -> torch.Tensor:
    """One image of 12 x 12 without symmetry: two smooth slopes of colour and some noise."""
    generator = torch.Generator().manual_seed(4)
    y, x = torch.meshgrid(torch.linspace(0, 1, 12), torch.linspace(0, 1, 12), indexing="ij")
    smooth = torch.stack([0.25 + 0.5 * x, 0.7 - 0.4 * y, 0.2 + 0.3 * x * y])
    image = smooth + 0.1 * torch.rand(3, 12, 12, generator=generator)
    return (255 * image).round() / 255


def hue(views: np.ndarray) -> np.ndarray:
    """Hue of each view's mean colour, in turns from red, between -1/2 and 1/2."""
    turns = [colorsys.rgb_to_hsv(*colour)[0] for colour in views.mean(axis=(2, 3))]
    return (np.array(turns) + 0.5) % 1.0 - 0.5


STATISTICS = {
    "red": lambda v: v[:, 0].mean(axis=(1, 2)),
    "blue": lambda v: v[:, 2].mean(axis=(1, 2)),
    "spread": lambda v: v.std(axis=(1, 2, 3)),
    "left less right": lambda v: (v[..., :6] - v[..., 6:]).mean(axis=(1, 2, 3)),
    "corner": lambda v: v[:, 1, 0, 0],
    "colourfulness": lambda v: (v.max(axis=1) - v.min(axis=1)).mean(axis=(1, 2)),
    "hue": hue,
}


@functools.lru_cache
def theirs(name: str, *, pil: bool = False) -> np.ndarray:
    """N views by one of torchvision's transforms, or by all four in their order."""
    image = to_pil_image(picture()) if pil else picture()
    if name == "all":
        transform = tv.Compose([TRANSFORMS[n][1] for n in ("crop", "flip", "jitter", "grayscale")])
    else:
        transform = TRANSFORMS[name][1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(17)
        views = [transform(image) for _ in range(N)]
    if not isinstance(views[0], torch.Tensor):
        views = [tv.functional.to_tensor(view) for view in views]
    return torch.stack(views).double().numpy()


def ours(settings: dict) -> np.ndarray:
    augment = TwoViewAugment(**settings)
    view, _ = augment(picture().expand(N, -1, -1, -1), torch.Generator().manual_seed(23))
    return view.double().numpy()


def disagreements(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """p-values below the level: two-sample test, means (Welch) and spreads (Brown-Forsythe)."""
    found = {}
    for name, statistic in STATISTICS.items():
        # Rounding alone must not tell the samples apart.
        x, y = (np.round(statistic(views), 4) for views in (a, b))
        if np.ptp(np.concatenate([x, y])) < 1e-3:
            continue
        found[name] = stats.ks_2samp(x, y, method="asymp").pvalue
        found[f"mean of {name}"] = stats.ttest_ind(x, y, equal_var=False).pvalue
        found[f"spread of {name}"] = stats.levene(x, y, center="median").pvalue
    assert found
    return {name: p for name, p in found.items() if p < LEVEL}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_transform_has_torchvisions_distribution(name: str) -> None:
    settings, _ = TRANSFORMS[name]
    assert disagreements(ours(OFF | settings), theirs(name)) == {}


def test_the_whole_pipeline_has_torchvisions_distribution() -> None:
    assert disagreements(ours({}), theirs("all")) == {}


@pytest.mark.parametrize("size", [(6, 7), (50, 49)])
@pytest.mark.parametrize("channels", [1, 3])
def test_views_by_order_are_those_made_at_once(
    channels: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(3)
    images = torch.randint(0, 256, (150, channels, *size), dtype=torch.uint8, generator=generator)
    p = sample_parameters(TwoViewAugment(), 150, *size, generator)
    pixels = images / 255.0
    at_once = apply_parameters(pixels, p, size)
    for piece in (1, 10**9):  # images one by one, and a whole order at a time
        monkeypatch.setattr(augment_module, "PIECE_PIXELS", piece)
        torch.testing.assert_close(apply_by_order(images, p, size), at_once, atol=4e-6, rtol=0)
    before = pixels.clone()
    jittered = color_jitter(pixels, p.factors, p.order, p.jittered)
    assert torch.equal(jittered[~p.jittered], pixels[~p.jittered])
    assert torch.equal(pixels, before)


def test_jitter_asks_for_no_value() -> None:
    """Tensors on the meta device have none: whatever reads or copies one fails."""
    p = sample_parameters(TwoViewAugment(), 5, 6, 6, torch.Generator().manual_seed(0))
    own = (value.to("meta") for value in (p.factors, p.order, p.jittered))
    view = color_jitter(torch.empty(5, 3, 6, 6, device="meta"), *own)
    assert view.shape == (5, 3, 6, 6)


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
