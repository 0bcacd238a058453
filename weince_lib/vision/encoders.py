"""Image encoders with one interface, ``encoder(images) -> (n, encoder.feature_dim)``, and SimCLR.

``resnet-small`` is ours: three stages of one residual block each, for images of 8x8 to 32x32 pixels
on two cores. ``resnet18`` and ``resnet50`` are torchvision's with the paper's two stems, and
``vit-small`` is timm's.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .image_ops import to_unit_range

#: Names that :func:`build_encoder` knows.
ENCODERS = ("resnet-small", "resnet18", "resnet50", "vit-small")
#: Up to this side length the paper's encoders take a 3x3 stride-1 stem and no max-pool.
SMALL_IMAGE = 32


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch normalisation and a shortcut (He et al. 2016)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(n, channels_in, H, W)`` to ``(n, channels_out, H / stride, W / stride)``."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


#: Above this side length the small ResNet's stem halves the image.
TINY_IMAGE = 16


class SmallResNet(nn.Module):
    """Residual network for small images; stages of ``width``, ``2 width`` and ``4 width``.

    Args:
        channels: image channels, 1 (grey) or 3.
        width: channels of the first stage. 16 trains on two cores in minutes.
        image_size: side length in pixels; above 16 the stem has stride 2, which makes a step on
            28x28 pixels three times as fast, and leaves 4x4 positions to the last stage.
    """

    def __init__(self, channels: int, width: int = 16, image_size: int = TINY_IMAGE) -> None:
        super().__init__()
        self.feature_dim = 4 * width
        stride = 2 if image_size > TINY_IMAGE else 1
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stages = nn.Sequential(
            ResidualBlock(width, width, 1),
            ResidualBlock(width, 2 * width, 2),
            ResidualBlock(2 * width, 4 * width, 2),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Map images ``(n, channels, H, W)`` to features ``(n, feature_dim)``."""
        return self.stages(self.stem(images)).mean(dim=(2, 3))


class TorchvisionResNet(nn.Module):
    """A torchvision ResNet without its classifier, with the stem the paper uses for the size.

    Args:
        name: ``"resnet18"`` (512 features) or ``"resnet50"`` (2,048).
        channels: image channels.
        image_size: side length in pixels; up to 32 the stem is 3x3, stride 1, no max-pool.
    """

    def __init__(self, name: str, channels: int, image_size: int) -> None:
        super().__init__()
        from torchvision import models

        network = models.get_model(name, weights=None)
        self.feature_dim = cast(int, network.fc.in_features)
        network.fc = nn.Identity()
        small = image_size <= SMALL_IMAGE
        if small:
            network.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
            network.maxpool = nn.Identity()
        elif channels != network.conv1.in_channels:
            network.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Map images ``(n, channels, H, W)`` to features ``(n, feature_dim)``."""
        return self.network(images)


#: ViT's patches are at most so many pixels wide (the "/16" of ViT-S/16) ...
LARGEST_PATCH = 16
#: ... and an image has at least so many of them along a side.
LEAST_GRID = 8


def patch_size(image_size: int) -> int:
    """Side of ViT-Small's square patches, in pixels.

    The largest divisor of ``image_size`` that is at most 16 and leaves at least 8 patches along a
    side (or 1): 4 at 32 pixels, 8 at 64, 12 at 96, and ViT-S/16's 16 at 224. The rule is this
    project's choice: the paper does not say how it fits ViT-Small to the 64 of Tiny-ImageNet.
    """
    sizes = range(min(LARGEST_PATCH, image_size // LEAST_GRID), 0, -1)
    return next((size for size in sizes if image_size % size == 0), 1)


class SmallViT(nn.Module):
    """ViT-Small without its classifier (Dosovitskiy et al. 2021; Touvron et al. 2021).

    Width 384, 12 layers, 6 heads, from timm; the features are the class token after the last layer
    normalisation. Patches: see :func:`patch_size`. Images must have the size it was built for.
    """

    def __init__(self, channels: int, image_size: int) -> None:
        super().__init__()
        import timm

        self.network = timm.create_model(
            "vit_small_patch16_224",
            pretrained=False,
            img_size=image_size,
            patch_size=patch_size(image_size),
            in_chans=channels,
            num_classes=0,
        )
        self.feature_dim = cast(int, self.network.num_features)

    def forward(self, images: Tensor) -> Tensor:
        """Map images ``(n, channels, image_size, image_size)`` to ``(n, feature_dim)``."""
        return self.network(images)


def build_encoder(name: str, *, channels: int, image_size: int, width: int = 16) -> nn.Module:
    """Build an encoder with an integer ``feature_dim`` and weights from torch's global generator.

    Args:
        name: one of :data:`ENCODERS`.
        channels: image channels.
        image_size: side length in pixels; decides the stem of the ResNets and the patches of
            ``vit-small``.
        width: of ``resnet-small``; the others have their own.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
        ModuleNotFoundError: for ``vit-small`` without timm.
    """
    if name == "resnet-small":
        return SmallResNet(channels, width, image_size)
    if name == "vit-small":
        return SmallViT(channels, image_size)
    if name in ENCODERS:
        return TorchvisionResNet(name, channels, image_size)
    raise ValueError(f"unknown encoder {name!r}; known: {', '.join(ENCODERS)}")


class SimCLR(nn.Module):
    """Encoder ``h = f(x)`` and projection ``z = g(h)``; the loss sees ``z``, evaluation ``h``.

    Chen et al. 2020; paper, appendix F.2. The head is Linear(h, h) -> ReLU ->
    Linear(h, projection_dim), both without bias, as in the codebase the paper builds on.

    Args:
        encoder: a module with an integer ``feature_dim``.
        projection_dim: size of ``z``; 64 in the paper.
    """

    def __init__(self, encoder: nn.Module, projection_dim: int = 64) -> None:
        super().__init__()
        size = cast(int, encoder.feature_dim)
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(size, size, bias=False),
            nn.ReLU(),
            nn.Linear(size, projection_dim, bias=False),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Project images ``(n, C, H, W)`` in [0, 1] to ``z``, shape ``(n, projection_dim)``."""
        return self.projector(self.encoder(images))


def build_simclr(
    encoder: str, *, channels: int, image_size: int, width: int, projection_dim: int, seed: int
) -> SimCLR:
    """A SimCLR model whose initial weights depend on ``seed`` alone, for paired comparisons.

    Torch's global generator is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SimCLR(
            build_encoder(encoder, channels=channels, image_size=image_size, width=width),
            projection_dim,
        )


@torch.no_grad()
def extract_features(encoder: nn.Module, images: Tensor, *, batch_size: int = 512) -> Tensor:
    """Frozen features h of uint8 images, encoder in evaluation mode.

    Args:
        encoder: the trained encoder; its training flag is restored afterwards.
        images: uint8, shape ``(n, C, H, W)``.
        batch_size: images per forward pass; bounds memory, not the result.

    Returns:
        Features on the CPU, shape ``(n, feature_dim)``, float32.
    """
    device = next(encoder.parameters()).device
    was_training = encoder.training
    encoder.eval()
    try:
        parts = [
            encoder(to_unit_range(part.to(device))).float().cpu()
            for part in images.split(batch_size)
        ]
    finally:
        encoder.train(was_training)
    return torch.cat(parts)
