"""What all measurements on a frozen image encoder share: which encoder, on which images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ..diagnostics import ScoreBank, two_view_bank
from ..vision import ImageSet, SimCLR, augmentation
from .config import ConfigError, VisionConfig
from .encoders import frozen_model
from .vision import load_images, training_images


class OnEncoder(BaseModel):
    """Settings of a measurement on a run's frozen encoder.

    Attributes:
        encoder_run: the run whose encoder is frozen.
        images: which images are scored. ``"training"``: those of the contrastive training, drawn
            anew for every batch, so that two batches may share images. ``"unseen"``: images of the
            training split that the run did not train on, each of them in one batch at most.
        seed: of the draws and the augmentation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    encoder_run: VisionConfig
    images: Literal["training", "unseen"] = "training"
    seed: Annotated[int, Field(ge=0)] = 0

    @model_serializer(mode="wrap")
    def _without_default(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """``images`` only where it is not the default: older records keep their keys."""
        content: dict[str, Any] = usual(self)
        if self.images == "training":
            content.pop("images", None)
        return content

    def canonical(self) -> dict[str, Any]:
        """JSON values for the record's key."""
        return self.model_dump(mode="json")


def unseen_images(config: VisionConfig) -> ImageSet:
    """Images of the training split that a run's contrastive training left out.

    Raises:
        ConfigError: if the run trains on all of them.
    """
    whole = load_images(config, "train")
    if not 0 < config.train_limit < len(whole):
        raise ConfigError(
            f"{config.dataset}: the run trains on all {len(whole):,} images of the training split, "
            "so none is unseen; set train_limit below that number"
        )
    return whole.subset(torch.arange(config.train_limit, len(whole)))


def bank_of(
    config: OnEncoder, *, batches: int, batch_size: int, model: SimCLR | None = None
) -> ScoreBank:
    """Score batches of two augmented views with the encoder of a measurement.

    Args:
        config: which encoder, which images, which seed.
        batches: number of batches.
        batch_size: pairs per batch.
        model: in place of the run's last one.

    Raises:
        ConfigError: for unseen images where there are none.
        FileNotFoundError: if the encoder has not been trained yet.
    """
    run = config.encoder_run
    unseen = config.images == "unseen"
    images = unseen_images(run) if unseen else training_images(run)
    return two_view_bank(
        model or frozen_model(run, images),
        images.images,
        augmentation(run.dataset),
        batches=batches,
        batch_size=batch_size,
        seed=config.seed,
        disjoint=unseen,
    )
