"""Image operations with parameters of its own for every image of a batch; nothing random.

Each agrees with torchvision's operation of the same name on one float image. Images are float in
[0, 1], shape ``(n, C, H, W)``, C = 1 (grey) or 3 (RGB). On grey images saturation and hue mean
nothing and leave them as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

#: Weights of R, G and B in the luma (ITU-R 601-2, with torchvision's four digits).
LUMA = (0.2989, 0.587, 0.114)


def to_unit_range(images: Tensor) -> Tensor:
    """Images as float32 in [0, 1]: uint8 divided by 255, others as they are.

    The paper's evaluation transform does nothing else.
    """
    return images.float().div_(255.0) if images.dtype == torch.uint8 else images.float()


def interpolation_matrix(start: Tensor, length: Tensor, size: int, out_size: int) -> Tensor:
    """Weights that resample pixels ``start .. start + length - 1`` of a line to ``out_size``.

    Bilinear (triangle kernel) with pixel centres at half-integers. Taps outside the interval are
    left out and the rest rescaled to sum 1, which is the clamping at the border that
    ``F.interpolate(mode="bilinear", align_corners=False)`` does on the cropped line. Where the
    line shrinks the kernel widens with it, as with ``antialias=True``.

    Args:
        start: first pixel of each interval, shape ``(n,)``.
        length: number of pixels of each interval, at least 1, shape ``(n,)``.
        size: pixels of the whole line.
        out_size: pixels of the result.

    Returns:
        Row-stochastic matrices, float32, shape ``(n, out_size, size)``.
    """
    step = (length / out_size)[:, None, None]
    target = torch.arange(out_size, device=start.device)[None, :, None]
    # Pixel centres relative to the interval's start, in pixels of the source.
    source = torch.arange(size, device=start.device)[None, None, :] - start[:, None, None] + 0.5
    inside = (source > 0) & (source < length[:, None, None])
    distance = (source - (target + 0.5) * step).abs_().div_(step.clamp_min(1.0))
    weight = distance.neg_().add_(1.0).clamp_min_(0.0).mul_(inside)
    return weight.div_(weight.sum(dim=2, keepdim=True))


#: Views of so many pixels a side and more are sampled at points, smaller ones made by two matrix
#: products, whose work grows with the third power of the side. At 96 pixels points take a
#: quarter of the products' time. They cannot shrink, and below 48 would change older runs' bits.
SAMPLED_FROM = 48


def crop_and_resize(
    images: Tensor, boxes: Tensor, out_size: tuple[int, int], flipped: Tensor
) -> Tensor:
    """Crop each image to its box, scale the crop to ``out_size`` bilinearly, and mirror some.

    The kernel is separable, so both axes are one matrix product each; that suits small images.
    Large ones whose crops are not shrunk, so that four pixels make one, are sampled at points.

    Args:
        images: float, shape ``(n, C, H, W)``.
        boxes: ``(top, left, height, width)`` inside the image, shape ``(n, 4)``.
        out_size: height and width of the result.
        flipped: images to mirror left to right, boolean, shape ``(n,)``.

    Returns:
        Shape ``(n, C, *out_size)``.
    """
    n, channels, height, width = images.shape
    enlarges = out_size[0] >= height and out_size[1] >= width
    # Under autocast the products would run in half precision and cost grey levels.
    with torch.autocast(images.device.type, enabled=False):
        if enlarges and min(out_size) >= SAMPLED_FROM:
            return _sample_points(images, boxes, out_size, flipped)
        top, left, h, w = boxes.unbind(dim=1)
        rows = interpolation_matrix(top, h, height, out_size[0]).to(images.dtype)
        columns = interpolation_matrix(left, w, width, out_size[1]).to(images.dtype)
        columns = torch.where(flipped[:, None, None], columns.flip(1), columns)
        wide = images.reshape(n, channels * height, width) @ columns.mT
        return rows[:, None] @ wide.reshape(n, channels, height, out_size[1])


def _sample_points(
    images: Tensor, boxes: Tensor, out_size: tuple[int, int], flipped: Tensor
) -> Tensor:
    """:func:`crop_and_resize` where no crop is shrunk."""
    axes = []
    for start, length, size, out in zip(
        boxes[:, :2].mT, boxes[:, 2:].mT, images.shape[2:], out_size, strict=True
    ):
        centre = torch.arange(out, device=images.device, dtype=images.dtype) + 0.5
        place = centre * (length / out)[:, None]
        # Between the centres of the crop's outermost pixels: what lies outside is not looked at.
        place = torch.minimum(place.clamp_min_(0.5), length[:, None] - 0.5) + start[:, None]
        axes.append(place * (2.0 / size) - 1.0)
    vertical, horizontal = axes
    horizontal = torch.where(flipped[:, None], horizontal.flip(1), horizontal)
    shape = (len(images), *out_size)
    grid = torch.stack(
        [horizontal[:, None, :].expand(shape), vertical[:, :, None].expand(shape)], dim=3
    )
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def luma(images: Tensor) -> Tensor:
    """Grey value of RGB images, ``(n, 3, H, W)`` to ``(n, 1, H, W)``; grey images as they are."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, dim=1)
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def grayscale(images: Tensor, grey: Tensor) -> Tensor:
    """Replace by its luma each image that ``grey``, boolean of shape ``(n,)``, marks."""
    return images if images.shape[1] == 1 else torch.where(_per_image(grey), luma(images), images)


def adjust_brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Multiply each image by its factor, clipped to [0, 1]; ``factor`` has shape ``(n,)``."""
    return (images * _per_image(factor)).clamp_(0.0, 1.0)


def adjust_contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Scale by a factor the distance of each image from its mean luma (0: flat, 1: unchanged)."""
    return _blend(images, luma(images).mean(dim=(1, 2, 3), keepdim=True), factor)


def adjust_saturation(images: Tensor, factor: Tensor) -> Tensor:
    """Scale by a factor the distance of each pixel from its luma (0: grey, 1: unchanged)."""
    return images if images.shape[1] == 1 else _blend(images, luma(images), factor)


def adjust_hue(images: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue of each image by its shift, in turns of the colour circle (-0.5 to 0.5).

    Hue is measured in sixths of a turn (red 0, green 2, blue 4). A channel whose own hue is at
    distance e from the pixel's is min + (max - min) * clip(2 - e, 0, 1): full within a sixth,
    empty from two sixths on. So only the hue is computed and shifted; max and min stay.
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = images.split(1, dim=1)
    high = torch.maximum(torch.maximum(red, green), blue)
    low = torch.minimum(torch.minimum(red, green), blue)
    chroma = high - low
    inverse = 1.0 / torch.where(chroma == 0, 1.0, chroma)
    hue = torch.where(
        high == red,
        (green - blue) * inverse,
        torch.where(high == green, (blue - red) * inverse + 2.0, (red - green) * inverse + 4.0),
    ).add_(_per_image(6.0 * shift))
    # Distance from the opposite hue, 3 - e, brought into [0, 3] by whole turns. In place: fresh
    # memory costs more than the arithmetic here.
    # 3, 5 and 7, made where the images are: a list would be copied there.
    distance = hue - torch.arange(3, 8, 2, dtype=hue.dtype, device=hue.device)[:, None, None]
    distance.sub_((distance / 6.0).round_(), alpha=6.0).abs_()
    return distance.sub_(1.0).clamp_(0.0, 1.0).mul_(chroma).add_(low)


def _per_image(factor: Tensor) -> Tensor:
    return factor[:, None, None, None]


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """``factor * images + (1 - factor) * other``, clipped to [0, 1]."""
    return ((images - other) * _per_image(factor)).add_(other).clamp_(0.0, 1.0)


#: The four operations of the colour jitter; an order is a permutation of these places.
JITTER: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_hue,
)
#: The places of those that change a grey image.
GREY_JITTER = (0, 1)


def color_jitter(images: Tensor, factors: Tensor, order: Tensor, jittered: Tensor) -> Tensor:
    """Apply the operations of :data:`JITTER` to each image in an order of its own.

    Every operation works on every image and the result is chosen: no shape depends on a draw.
    Brightness, contrast and saturation are one formula, a distance scaled from black, from the
    mean luma or from each pixel's luma; so a turn is this formula once and the hue once.

    Args:
        images: float in [0, 1], shape ``(n, 1 or 3, H, W)``.
        factors: brightness, contrast and saturation factor and hue shift, shape ``(n, 4)``.
        order: operation of each turn, shape ``(n, 4)``, each row a permutation of 0..3.
        jittered: images to change, boolean, shape ``(n,)``.

    Returns:
        New images of the same shape.
    """
    for turn in range(len(JITTER)):
        operation = order[:, turn]
        factor = factors.gather(1, operation[:, None])[:, 0]
        contrast, saturation, hue = (_per_image(operation == k) for k in (1, 2, 3))
        grey = luma(images)
        mean = torch.where(contrast, grey.mean(dim=(1, 2, 3), keepdim=True), 0.0)
        scaled = _blend(images, torch.where(saturation, grey, mean), factor)
        changed = torch.where(hue, adjust_hue(images, factor), scaled)
        images = torch.where(_per_image(jittered), changed, images)
    return images
