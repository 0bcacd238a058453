"""Encoders: one interface, feature sizes, the paper's two stems; SimCLR and frozen features."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torchvision import models

from weince_lib.vision import (
    ENCODERS,
    SimCLR,
    build_encoder,
    build_simclr,
    extract_features,
    to_unit_range,
)
from weince_lib.vision.encoders import ResidualBlock, SmallResNet, patch_size


def images(n: int, channels: int, size: int) -> Tensor:
    return torch.rand(n, channels, size, size, generator=torch.Generator().manual_seed(size))


def output_shapes(network: nn.Module, modules: list[nn.Module], x: Tensor) -> list[list[int]]:
    """Shapes, without the batch, that come out of some modules of a network."""
    seen: dict[nn.Module, list[int]] = {}
    hooks = [
        m.register_forward_hook(lambda m, _, out: seen.update({m: list(out.shape[1:])}))
        for m in modules
    ]
    with torch.no_grad():
        network(x)
    for hook in hooks:
        hook.remove()
    return [seen[m] for m in modules]


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 28, 96])
def test_every_encoder_has_the_same_interface(name: str, channels: int, size: int) -> None:
    with torch.device("meta"):  # shapes without the arithmetic
        encoder = build_encoder(name, channels=channels, image_size=size, width=4)
        features = encoder(torch.empty(3, channels, size, size))
    assert type(encoder.feature_dim) is int
    dims = {"resnet-small": 16, "resnet18": 512, "resnet50": 2048, "vit-small": 384}
    assert encoder.feature_dim == dims[name]
    assert features.shape == (3, encoder.feature_dim)


def test_unknown_encoder_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"'resnet81'.*resnet18"):
        build_encoder("resnet81", channels=1, image_size=8)


# The small network ---------------------------------------------------------------------------


def test_small_network_has_three_stages_that_halve_and_double() -> None:
    encoder = SmallResNet(channels=1, width=5)
    shapes = output_shapes(encoder, [encoder.stem, *encoder.stages], images(2, 1, 28))
    assert shapes == [[5, 28, 28], [5, 28, 28], [10, 14, 14], [20, 7, 7]]
    assert encoder.feature_dim == 20


def test_features_are_the_mean_over_positions() -> None:
    encoder = SmallResNet(channels=3, width=4)
    maps: list[Tensor] = []
    encoder.stages.register_forward_hook(lambda *call: maps.append(call[-1]))
    features = encoder(images(2, 3, 12))
    for image in range(2):
        for channel in range(16):
            cells = maps[0][image, channel].flatten().tolist()
            assert features[image, channel].item() == pytest.approx(sum(cells) / 9, rel=1e-5)


def test_residual_block_is_two_normalised_convolutions() -> None:
    x = images(3, 2, 5)
    block = ResidualBlock(2, 4, stride=2)

    def normalised(y: Tensor) -> Tensor:
        centred = y - y.mean(dim=(0, 2, 3), keepdim=True)
        return centred / (centred.square().mean(dim=(0, 2, 3), keepdim=True) + 1e-5).sqrt()

    def convolved(y: Tensor, weight: Tensor, stride: int) -> Tensor:
        return nn.functional.conv2d(y, weight, stride=stride, padding=weight.shape[-1] // 2)

    y = normalised(convolved(x, block.conv1.weight, 2)).relu()
    y = normalised(convolved(y, block.conv2.weight, 1))
    skip = normalised(convolved(x, block.shortcut[0].weight, 2))
    torch.testing.assert_close(block(x), (y + skip).relu())


# ResNet-18 and ResNet-50 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "sides"),
    [
        (8, 3, 1, [8, 4, 2, 1]),
        (32, 3, 1, [32, 16, 8, 4]),
        (33, 7, 2, [9, 5, 3, 2]),
        (64, 7, 2, [16, 8, 4, 2]),
    ],
)
@pytest.mark.parametrize(
    ("name", "depths", "channels"),
    [
        ("resnet18", (64, 128, 256, 512), 1),
        ("resnet18", (64, 128, 256, 512), 3),
        ("resnet50", (256, 512, 1024, 2048), 3),
    ],
)
def test_resnet_stem_follows_the_image_size(
    size: int,
    kernel: int,
    stride: int,
    sides: list[int],
    name: str,
    depths: tuple[int, ...],
    channels: int,
) -> None:
    with torch.device("meta"):
        network = build_encoder(name, channels=channels, image_size=size).network
        x = torch.empty(2, channels, size, size)
    conv = network.conv1
    assert conv.kernel_size == (kernel, kernel)
    assert conv.stride == (stride, stride)
    assert conv.weight.shape[:2] == (64, channels)
    assert conv.bias is None
    layers = [network.layer1, network.layer2, network.layer3, network.layer4]
    expected = [[d, s, s] for d, s in zip(depths, sides, strict=True)]
    assert output_shapes(network, layers, x) == expected


def test_resnet18_gives_torchvisions_features_below_the_classifier() -> None:
    reference = models.resnet18(weights=None).eval()
    weights = {k: v for k, v in reference.state_dict().items() if not k.startswith("fc.")}
    encoder = build_encoder("resnet18", channels=3, image_size=64).eval()
    encoder.network.load_state_dict(weights)
    pooled: list[Tensor] = []
    reference.avgpool.register_forward_hook(lambda *call: pooled.append(call[-1].flatten(1)))
    with torch.no_grad():
        reference(images(2, 3, 64))
        assert torch.equal(encoder(images(2, 3, 64)), pooled[0])


# ViT-Small -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "patch"), [(8, 1), (28, 2), (31, 1), (32, 4), (64, 8), (96, 12), (224, 16)]
)
def test_vit_patches_leave_a_grid_of_at_least_eight(size: int, patch: int) -> None:
    assert patch_size(size) == patch
    with torch.device("meta"):
        network = build_encoder("vit-small", channels=3, image_size=size).network
    assert network.patch_embed.grid_size == (size // patch, size // patch)


def test_vit_small_has_its_published_size() -> None:
    # Touvron et al. 2021, Table 1: DeiT-S has 22 million parameters, width 384, 12 layers, 6 heads.
    with torch.device("meta"):
        network = build_encoder("vit-small", channels=3, image_size=224).network
    classifier = 384 * 1000 + 1000
    assert sum(p.numel() for p in network.parameters()) + classifier == 22_050_664
    assert len(network.blocks) == 12
    assert network.blocks[0].attn.num_heads == 6


def test_vit_features_are_the_normalised_class_token() -> None:
    encoder = build_encoder("vit-small", channels=1, image_size=8).eval()
    tokens: list[Tensor] = []
    encoder.network.norm.register_forward_hook(lambda *call: tokens.append(call[-1]))
    with torch.no_grad():
        features = encoder(images(2, 1, 8))
    assert tokens[0].shape == (2, 1 + 64, 384)
    assert torch.equal(features, tokens[0][:, 0])
    torch.testing.assert_close(features.mean(dim=1), torch.zeros(2), atol=1e-5, rtol=0)


# SimCLR: the head, seeds, frozen features ----------------------------------------------------


def build(name: str = "resnet-small", *, seed: int = 7, projection_dim: int = 8) -> SimCLR:
    return build_simclr(
        name, channels=1, image_size=8, width=4, projection_dim=projection_dim, seed=seed
    )


def pixels(n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 1, 8, 8), dtype=torch.uint8, generator=generator)


@pytest.fixture
def warm() -> SimCLR:
    """A model whose running statistics are not their initial 0 and 1."""
    model = build()
    with torch.no_grad():
        for seed in range(3):
            model(to_unit_range(pixels(16, seed)))
    return model


def test_head_is_linear_relu_linear(warm: SimCLR) -> None:
    warm.eval()
    x = to_unit_range(pixels(5))
    with torch.no_grad():
        h = warm.encoder(x).double()
        first, last = (p.double() for p in warm.projector.parameters())
        expected = (h @ first.T).clamp_min(0.0) @ last.T
        torch.testing.assert_close(warm(x).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ENCODERS)
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = build(name).state_dict()
        torch.manual_seed(2)
        two = build(name).state_dict()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    other = build(name, seed=8).state_dict()
    weights = [key for key in one if key.endswith("weight") and one[key].ndim > 1]
    assert len(weights) > 2
    assert not any(torch.equal(one[key], other[key]) for key in weights)


def test_features_are_the_encoders_output_in_evaluation_mode(warm: SimCLR) -> None:
    x = pixels(6)
    features = extract_features(warm.encoder, x)
    assert features.shape == (6, warm.encoder.feature_dim)
    assert features.dtype == torch.float32
    assert not features.requires_grad
    with torch.no_grad():
        assert torch.equal(features, copy.deepcopy(warm.encoder).eval()(x.float() / 255))
        by_batch = copy.deepcopy(warm.encoder).train()(x.float() / 255)
    assert not torch.allclose(features, by_batch, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_features_do_not_depend_on_the_batch_size(warm: SimCLR, batch_size: int) -> None:
    x = pixels(7)
    features = extract_features(warm.encoder, x, batch_size=batch_size)
    torch.testing.assert_close(features, extract_features(warm.encoder, x))
    # ... nor on which images share a batch, and their order is kept.
    turned = extract_features(warm.encoder, x.flip(0), batch_size=batch_size)
    torch.testing.assert_close(turned.flip(0), features)


@pytest.mark.parametrize("training", [True, False])
def test_training_flag_is_restored(warm: SimCLR, training: bool) -> None:
    warm.encoder.train(training)
    extract_features(warm.encoder, pixels(2))
    assert {m.training for m in warm.encoder.modules()} == {training}
