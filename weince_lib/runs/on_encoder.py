"""What measurements on a frozen image encoder share: encoder, images, and one record for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field

from ..diagnostics import ScoreBank, two_view_bank
from ..records import store
from ..records.store import Metric, Record
from ..vision import ImageSet, SimCLR, augmentation
from .config import AUTO, ConfigError, VisionConfig, labels, parse
from .encoders import frozen_model, is_current, measured_on
from .vision import check_current, files_now, load_images, training_images


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

    def canonical(self) -> dict[str, Any]:
        """JSON values for the record's key; ``images`` only where it is not the default.

        Records that are older than that setting keep their keys.
        """
        content = self.model_dump(mode="json") | {"encoder_run": self.encoder_run.canonical()}
        if self.images == "training":
            del content["images"]
        return content

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The same with other settings; ``"auto"`` leaves one as it is.

        Raises:
            ConfigError: one line naming the value and what is allowed.
        """
        own = self.model_dump() | {"encoder_run": self.encoder_run}
        return parse(type(self), own | {n: v for n, v in settings.items() if v != AUTO})


def measured_once(
    experiment: str,
    config: OnEncoder,
    measure: Callable[[], tuple[list[Metric], Mapping[str, Any]]],
    *,
    profile: str,
    standard: bool = True,
) -> Record:
    """Measure something on a run's encoder, or return the record that is there.

    A record counts if it was made on the encoder and of the images that the run has now. The
    hashes of both go into its details.

    Args:
        experiment: what the record is filed under.
        config: which encoder, and what is measured on it.
        measure: gives metrics and details.
        profile: decides which table it is collected into.
        standard: whether it is the profile's own measurement; another one is in no table.

    Raises:
        StaleRecordError: for a record of other images.
    """
    run = config.encoder_run

    def found() -> Record | None:
        done = store.find(experiment, config.canonical())
        return check_current(done, run) if done is not None and is_current(done, run) else None

    def with_hashes() -> tuple[list[Metric], Mapping[str, Any]]:
        data = {"data": files_now(run)}
        metrics, details = measure()
        return metrics, data | dict(details) | measured_on(run)

    own = labels(run, profile) | ({} if standard else {"profile": "custom"})
    return store.once(experiment, config.canonical(), with_hashes, labels=own, found=found)


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
