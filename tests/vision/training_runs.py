"""Small training runs, for the tests of the training loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from weince_lib.losses import InfoNCELoss, WEINCELoss
from weince_lib.vision import (
    Execution,
    SimCLR,
    TrainingSettings,
    TwoViewAugment,
    build_simclr,
    train,
)

#: 27 images in batches of 8: three steps an epoch, and three images left over.
COUNT, BATCH, STEPS, EPOCHS = 27, 8, 3, 4
FINGERPRINT = {"loss": "weince", "temperature": 0.5, "seed": 5}
LOSSES: dict[str, Callable[[], nn.Module]] = {"infonce": InfoNCELoss, "weince": WEINCELoss}

Views = tuple[Tensor, Tensor]
Augment = Callable[[Tensor, torch.Generator], Views]


def numbered_images(count: int = COUNT) -> Tensor:
    """Random images; the first pixel holds the image's number."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=generator)
    images[:, 0, 0, 0] = torch.arange(count)
    return images


def small_model(width: int = 4) -> SimCLR:
    return build_simclr(
        "resnet-small", channels=1, image_size=8, width=width, projection_dim=8, seed=3
    )


def settings(**changes: Any) -> TrainingSettings:
    own = {"epochs": EPOCHS, "batch_size": BATCH, "learning_rate": 1e-2, "seed": 5}
    return TrainingSettings(**own | changes)


def noisy(batch: Tensor, generator: torch.Generator) -> Views:
    x = batch.float() / 255
    return tuple(x + 0.1 * torch.randn(x.shape, generator=generator) for _ in range(2))


def run(
    name: str = "infonce",
    *,
    augment: Augment | None = None,
    loss: nn.Module | None = None,
    checkpoint: Path | None = None,
    fingerprint: dict[str, Any] | None = FINGERPRINT,
    execution: Execution | None = None,
    width: int = 4,
    wide: bool = False,
    **changes: Any,
) -> tuple[SimCLR, list[dict[str, float]]]:
    """Train a fresh small model and return it with its history."""
    model = small_model(width)
    if wide:  # float64, in which a sum in another order shows less than anything that is wrong
        model.double().register_forward_pre_hook(lambda _, images: (images[0].double(),))
    history = train(
        model,
        loss or LOSSES[name](),
        numbered_images(),
        augment or TwoViewAugment(),
        settings(**changes),
        checkpoint=checkpoint,
        fingerprint=fingerprint,
        execution=execution,
    )
    return model, history


def assert_identical(one: Any, two: Any) -> None:
    """Equal to the bit, through dictionaries and lists."""
    assert type(one) is type(two)
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_identical(one[key], two[key])
    elif isinstance(one, list):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_identical(a, b)
    elif dataclasses.is_dataclass(one):
        assert_identical(vars(one), vars(two))
    elif isinstance(one, Tensor):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)
    else:
        assert one == two
