"""The random parameters of a view: crop boxes, flips, colour jitter, grayscale."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from torch import Tensor

#: Draws of area and aspect ratio before the central crop is taken, as in torchvision.
ATTEMPTS = 10


@dataclass(frozen=True, eq=False)
class ViewParameters:
    """Random parameters of one view of a batch of n images.

    Attributes:
        boxes: ``(top, left, height, width)``, ``int64``, shape ``(n, 4)``.
        flipped: mirrored left to right, boolean, shape ``(n,)``.
        jittered: colour-jittered, boolean, shape ``(n,)``.
        factors: of brightness, contrast and saturation, and the hue shift, shape ``(n, 4)``.
        order: permutations of these four operations, shape ``(n, 4)``.
        grey: made grey, boolean, shape ``(n,)``.
    """

    boxes: Tensor
    flipped: Tensor
    jittered: Tensor
    factors: Tensor
    order: Tensor
    grey: Tensor

    def rows(self, chosen: slice | Tensor) -> ViewParameters:
        """Those of some of the images."""
        return ViewParameters(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})


def sample_boxes(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Draw crop boxes as torchvision's ``RandomResizedCrop.get_params`` does.

    Area uniform in ``scale``, log aspect ratio uniform in ``ratio``, sides rounded to whole pixels;
    the first of :data:`ATTEMPTS` draws that fits is placed uniformly. If none fits, the box is the
    largest central one with an aspect ratio in range.

    Args:
        n: number of boxes.
        height: of the images, in pixels.
        width: of the images, in pixels.
        scale: least and greatest share of the image's area.
        ratio: least and greatest width / height.
        generator: source of all random numbers.

    Returns:
        ``(top, left, height, width)`` of each box, ``int64``, shape ``(n, 4)``.
    """
    drawn_numbers = uniform(4, n, ATTEMPTS, generator=generator)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * drawn_numbers[0])
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = (low + (high - low) * drawn_numbers[1]).exp()
    w, h = (area * aspect).sqrt().round().long(), (area / aspect).sqrt().round().long()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    # clamp: u < 1, but u * k can round up to k in float32
    top = torch.minimum((drawn_numbers[2] * (height - h + 1)).long(), height - h)
    left = torch.minimum((drawn_numbers[3] * (width - w + 1)).long(), width - w)
    first = fits.int().argmax(dim=1)  # the first of equal maxima
    drawn = torch.stack([top, left, h, w], dim=2)[torch.arange(n, device=fits.device), first]

    w0 = min(width, round(height * ratio[1]))
    h0 = min(height, round(width / ratio[0]))
    central = constant(((height - h0) // 2, (width - w0) // 2, h0, w0), fits.device)
    return torch.where(fits.any(dim=1, keepdim=True), drawn, central)


def uniform(*shape: int, generator: torch.Generator) -> Tensor:
    """Numbers in [0, 1) on the generator's device."""
    return torch.rand(shape, generator=generator, device=generator.device)


@lru_cache(maxsize=64)
def constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers as a tensor that is copied to the device once, not at every batch."""
    return torch.tensor(values, device=device)
