"""SimCLR: the head, reproducible weights, frozen features."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from weince_lib.vision import ENCODERS, SimCLR, build_simclr, extract_features, to_unit_range


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


# The head ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "size"), [("resnet-small", 16), ("resnet18", 512)])
@pytest.mark.parametrize("projection_dim", [8, 64])
def test_head_has_two_layers_without_bias(name: str, size: int, projection_dim: int) -> None:
    with torch.device("meta"):
        model = build(name, projection_dim=projection_dim)
        z = model(torch.empty(3, 1, 8, 8))
    shapes = {name: list(p.shape) for name, p in model.projector.named_parameters()}
    assert shapes == {"0.weight": [size, size], "2.weight": [projection_dim, size]}
    assert z.shape == (3, projection_dim)


def test_default_projection_is_the_papers() -> None:
    assert SimCLR(build().encoder)(to_unit_range(pixels(2))).shape == (2, 64)


def test_head_is_linear_relu_linear(warm: SimCLR) -> None:
    warm.eval()
    x = to_unit_range(pixels(5))
    with torch.no_grad():
        h = warm.encoder(x).double()
        first, last = (p.double() for p in warm.projector.parameters())
        expected = (h @ first.T).clamp_min(0.0) @ last.T
        torch.testing.assert_close(warm(x).double(), expected, rtol=1e-5, atol=1e-6)


# Seeds ---------------------------------------------------------------------------------------


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


def test_the_global_generator_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    build()
    assert torch.equal(torch.get_rng_state(), before)


# Frozen features -----------------------------------------------------------------------------


def test_to_unit_range_divides_by_255_and_keeps_its_input() -> None:
    x = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert to_unit_range(x).tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert to_unit_range(x).dtype == torch.float32
    assert x.tolist() == [0, 51, 255]


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


def test_features_leave_the_encoder_as_it_was(warm: SimCLR) -> None:
    before = {key: value.clone() for key, value in warm.encoder.state_dict().items()}
    extract_features(warm.encoder, pixels(6))
    after = warm.encoder.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert all(p.grad is None for p in warm.encoder.parameters())


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


def test_training_flag_is_restored_after_an_error(warm: SimCLR) -> None:
    with pytest.raises(RuntimeError, match="channels"):
        extract_features(warm.encoder, pixels(2).expand(2, 3, 8, 8))
    assert warm.encoder.training


class Counting(nn.Module):
    """Records the batches it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x.flatten(1) * self.scale


def test_batch_size_bounds_a_forward_pass_and_no_image_is_dropped() -> None:
    encoder = Counting()
    x = pixels(7)
    features = extract_features(encoder, x, batch_size=3)
    assert encoder.sizes == [3, 3, 1]
    assert torch.equal(features, x.flatten(1).float() / 255)
