"""SimCLR's two random views of every image, on whole batches of tensors (paper, appendix F.2).

Random resized crop, horizontal flip, colour jitter, grayscale; no blur and no normalisation
(Chen et al. 2020, arXiv:2002.05709, appendix A, less the blur). Each image has random parameters of
its own, from the distribution of torchvision's per-image transforms; drawing them
(:func:`sample_parameters`) is apart from applying them (:func:`apply_parameters`). Pixels are
float32 in [0, 1] throughout, where torchvision on PIL images rounds to 8 bits after each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from torch import Tensor

from .image_ops import (
    GREY_JITTER,
    JITTER,
    color_jitter,
    crop_and_resize,
    grayscale,
    luma,
    to_unit_range,
)

#: On a CPU a view is made of so many pixels at a time: what lies between the steps stays in cache.
PIECE_PIXELS = 2**17
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


#: Images, one view's parameters and the view's height and width, to the view.
Apply = Callable[[Tensor, ViewParameters, tuple[int, int]], Tensor]


@dataclass(frozen=True)
class TwoViewAugment:
    """Two random views of each image: ``view0, view1 = augment(images, generator)``.

    The defaults are the paper's: torchvision's crop and SimCLR's colour jitter of strength 1.

    Attributes:
        crop_scale: least and greatest share of the image's area that a crop covers.
        crop_ratio: least and greatest width / height of a crop.
        flip_probability: of mirroring left to right.
        brightness: factor is uniform in 1 -+ this, but never negative.
        contrast: likewise.
        saturation: likewise; no effect on grey images.
        hue: shift is uniform in -+ this, in turns, at most 0.5; no effect on grey images.
        jitter_probability: of the colour jitter, all four operations together.
        grayscale_probability: of removing the colour, after the jitter.
        output_size: side in pixels of the square views; 0 keeps the images' own height and width.

    Raises:
        ValueError: for a setting outside its range.
    """

    crop_scale: tuple[float, float] = (0.08, 1.0)
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip_probability: float = 0.5
    brightness: float = 0.8
    contrast: float = 0.8
    saturation: float = 0.8
    hue: float = 0.2
    jitter_probability: float = 0.8
    grayscale_probability: float = 0.2
    output_size: int = 0

    def __post_init__(self) -> None:
        low, high = self.crop_scale
        if not 0.0 < low <= high <= 1.0:
            raise ValueError(
                f"crop_scale must be 0 < least <= greatest <= 1, got {self.crop_scale}"
            )
        low, high = self.crop_ratio
        if not 0.0 < low <= high < math.inf:
            raise ValueError(f"crop_ratio must be 0 < least <= greatest, got {self.crop_ratio}")
        for name in ("flip_probability", "jitter_probability", "grayscale_probability"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        for name in ("brightness", "contrast", "saturation"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, got {getattr(self, name)}"
                )
        if not 0.0 <= self.hue <= 0.5:
            raise ValueError(f"hue must lie in [0, 0.5], got {self.hue}")
        if self.output_size < 0:
            raise ValueError(f"output_size must be 0 or a number of pixels, got {self.output_size}")

    def __call__(
        self,
        images: Tensor,
        generator: torch.Generator,
        *,
        part: int = 0,
        parts: int = 1,
        apply: Apply | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Draw and make both views.

        Args:
            images: ``uint8``, or floating point in [0, 1]; shape ``(n, 1 or 3, H, W)``.
            generator: source of all random numbers. The same state gives the same views to the
                bit; how many numbers are drawn depends on the size of the batch alone. With one on
                the images' own device nothing is copied there.
            part: which of several equal parts of a batch the images are. Numbers are drawn for the
                whole batch: processes with generators in the same state make together what one
                process would make, and their generators stay in the same state.
            parts: of the batch.
            apply: in place of :func:`apply_parameters` (on a CPU :func:`apply_by_order`), such as
                its compiled form.

        Returns:
            Two float32 tensors in [0, 1], shape ``(n, C, H, W)``, or with ``output_size`` for H
            and W; on the device of ``images``.

        Raises:
            ValueError: for another shape or dtype, or (looked for on the CPU only, where it is
                free) floating-point pixels outside [0, 1].
        """
        _check(images)
        first = self.view(images, generator, part=part, parts=parts, apply=apply)
        return first, self.view(images, generator, part=part, parts=parts, apply=apply)

    @torch.no_grad()
    def view(
        self,
        images: Tensor,
        generator: torch.Generator,
        *,
        part: int = 0,
        parts: int = 1,
        apply: Apply | None = None,
    ) -> Tensor:
        """One of the two views; the arguments are those of the object itself."""
        n, _, height, width = images.shape
        size = (self.output_size, self.output_size) if self.output_size else (height, width)
        drawn = sample_parameters(self, parts * n, height, width, generator)
        own = drawn.rows(slice(part * n, (part + 1) * n))
        if apply is None and images.device.type == "cpu":
            return apply_by_order(images, own, size)
        return (apply or apply_parameters)(to_unit_range(images), own, size)


def sample_parameters(
    augment: TwoViewAugment, n: int, height: int, width: int, generator: torch.Generator
) -> ViewParameters:
    """Draw one view's parameters for ``n`` images of some size, on the generator's device."""
    boxes = sample_boxes(n, height, width, augment.crop_scale, augment.crop_ratio, generator)
    flip, jitter, grey = uniform(3, n, generator=generator)
    strengths = (augment.brightness, augment.contrast, augment.saturation)
    low = (*(max(0.0, 1.0 - strength) for strength in strengths), -augment.hue)
    high = (*(1.0 + strength for strength in strengths), augment.hue)
    least, greatest = (constant(ends, generator.device) for ends in (low, high))
    return ViewParameters(
        boxes=boxes,
        flipped=flip < augment.flip_probability,
        jittered=jitter < augment.jitter_probability,
        factors=least + (greatest - least) * uniform(n, 4, generator=generator),
        order=uniform(n, 4, generator=generator).argsort(dim=1),
        grey=grey < augment.grayscale_probability,
    )


def sample_boxes(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Draw crop boxes as torchvision's ``RandomResizedCrop.get_params`` does.

    Area uniform in ``scale``, log aspect ratio (width / height) uniform in ``ratio``, sides rounded
    to whole pixels; the first of :data:`ATTEMPTS` draws that fits is placed uniformly. If none
    fits, the box is the largest central one with an aspect ratio in range.

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


def apply_parameters(
    images: Tensor, parameters: ViewParameters, out_size: tuple[int, int]
) -> Tensor:
    """Make one view: crop and resize, flip, colour jitter, grayscale, in this order.

    Every step works on every image and no shape depends on a draw: on an accelerator the host
    does not wait, and nothing is copied.

    Args:
        images: float in [0, 1], shape ``(n, 1 or 3, H, W)``.
        parameters: on the same device, or on the CPU.
        out_size: height and width of the view.

    Returns:
        Float in [0, 1], shape ``(n, C, *out_size)``.
    """
    device = images.device
    boxes, flipped = parameters.boxes.to(device), parameters.flipped.to(device)
    view = crop_and_resize(images, boxes, out_size, flipped)
    view = color_jitter(view, parameters.factors, parameters.order, parameters.jittered)
    # A shrunk pixel's weights sum to 1 up to rounding: white may come out at 1 + 1e-7.
    return grayscale(view, parameters.grey.to(device)).clamp_(0.0, 1.0)


def apply_by_order(images: Tensor, parameters: ViewParameters, out_size: tuple[int, int]) -> Tensor:
    """:func:`apply_parameters` for a CPU: images that share an order of the jitter go together.

    That is the least arithmetic, and a few images at a time go through all steps in the cache.
    On one thread it takes about half of the other's time at 32 pixels a side and a fifth at 96. On
    an accelerator its loop would leave the device idle. ``images`` may also be ``uint8``.
    """
    n, channels, height, width = images.shape
    operations = GREY_JITTER if channels == 1 else tuple(range(len(JITTER)))
    # The turn of each operation, among those that count; -1 for an image that is left as it is.
    turns = parameters.order.argsort(dim=1)[:, list(operations)].argsort(dim=1).argsort(dim=1)
    turns = torch.where(parameters.jittered[:, None], turns, -1)
    orders, members = turns.unique(dim=0, return_inverse=True)
    by_grey = parameters.grey.int().argsort(stable=True)  # the grey ones of a piece are its last
    piece = max(1, PIECE_PIXELS // max(height * width, out_size[0] * out_size[1]))
    made = torch.empty(n, channels, *out_size)
    for number, own_turns in enumerate(orders.tolist()):
        steps = sorted(zip(own_turns, operations, strict=True)) if own_turns[0] >= 0 else ()
        for rows in by_grey[members[by_grey] == number].split(piece):
            own = parameters.rows(rows)
            view = crop_and_resize(to_unit_range(images[rows]), own.boxes, out_size, own.flipped)
            for _, operation in steps:
                view = JITTER[operation](view, own.factors[:, operation])
            coloured = len(rows) - int(own.grey.sum())
            view[coloured:] = luma(view[coloured:])
            made.index_copy_(0, rows, view.clamp_(0.0, 1.0))
    return made


def _check(images: Tensor) -> None:
    """Refuse what is not a batch of images."""
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"images must have shape (n, 1 or 3, H, W), got {tuple(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ValueError(f"images must be uint8 or floating point in [0, 1], got {images.dtype}")
    if images.is_floating_point() and images.device.type == "cpu" and images.numel():
        low, high = (float(value) for value in images.aminmax())
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(
                f"floating-point images must lie in [0, 1], got {low:g} to {high:g}; "
                "pass uint8, or divide by 255"
            )
