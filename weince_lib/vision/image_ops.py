"""Image operations with parameters of its own for every image of a batch; nothing random.

Each agrees with torchvision's operation of the same name on one float image. Images are float in
[0, 1], shape ``(n, C, H, W)``, C = 1 (grey) or 3 (RGB). On grey images saturation and hue mean
nothing and leave them as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Weights of R, G and B in the luma (ITU-R 601-2, with torchvision's four digits).
LUMA = (0.2989, 0.587, 0.114)


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


def crop_and_resize(images: Tensor, boxes: Tensor, out_size: tuple[int, int]) -> Tensor:
    """Crop each image to its box and scale the crop to ``out_size``, bilinearly.

    The kernel is separable, so both axes are one matrix product each; that suits the small images
    of this project (the work grows with the third power of the side).

    Args:
        images: float, shape ``(n, C, H, W)``.
        boxes: ``(top, left, height, width)`` inside the image, shape ``(n, 4)``.
        out_size: height and width of the result.

    Returns:
        Shape ``(n, C, *out_size)``.
    """
    n, channels, height, width = images.shape
    top, left, h, w = boxes.unbind(dim=1)
    rows = interpolation_matrix(top, h, height, out_size[0]).to(images.dtype)
    columns = interpolation_matrix(left, w, width, out_size[1]).to(images.dtype)
    # Under autocast the products would run in half precision and cost grey levels.
    with torch.autocast(images.device.type, enabled=False):
        wide = images.reshape(n, channels * height, width) @ columns.mT
        return rows[:, None] @ wide.reshape(n, channels, height, out_size[1])


def horizontal_flip(images: Tensor, flipped: Tensor) -> Tensor:
    """Mirror left to right the images that ``flipped``, boolean of shape ``(n,)``, marks."""
    return torch.where(_per_image(flipped), images.flip(3), images)


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

    Where the parameters lie on the CPU, each operation works on the images whose turn it is, which
    is the least arithmetic. Where they lie on an accelerator, every operation works on every image
    and the result is chosen: more arithmetic, but no shape depends on a draw, so that neither the
    host waits for the device nor anything is copied.

    Args:
        images: float in [0, 1], shape ``(n, 1 or 3, H, W)``.
        factors: brightness, contrast and saturation factor and hue shift, shape ``(n, 4)``.
        order: operation of each turn, shape ``(n, 4)``, each row a permutation of 0..3.
        jittered: images to change, boolean, shape ``(n,)``.

    Returns:
        New images of the same shape.
    """
    apply = _jitter_groups if order.device.type == "cpu" else jitter_at_once
    return apply(images, factors, order, jittered)


def _jitter_groups(images: Tensor, factors: Tensor, order: Tensor, jittered: Tensor) -> Tensor:
    operations = GREY_JITTER if images.shape[1] == 1 else range(len(JITTER))
    images = images.clone()
    for turn in range(len(JITTER)):
        for operation in operations:
            chosen = ((order[:, turn] == operation) & jittered).nonzero()[:, 0]
            if len(chosen):
                factor = factors[chosen, operation].to(images.device)
                chosen = chosen.to(images.device)
                images.index_copy_(0, chosen, JITTER[operation](images[chosen], factor))
    return images


def jitter_at_once(images: Tensor, factors: Tensor, order: Tensor, jittered: Tensor) -> Tensor:
    """:func:`color_jitter` in steps whose shapes depend on no draw, for an accelerator.

    Brightness, contrast and saturation are one formula, a distance scaled from black, from the
    mean luma or from each pixel's luma; so a turn is this formula once and the hue once.
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
