"""One training step by itself, to be timed on a CPU or a CUDA device."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..training.steps import GuardedOptimizer, runs_ahead
from ..vision import Execution, augmentation, build_simclr
from ..vision.training import adam, train_step
from .config import VisionConfig

Seconds = float


class TrainingStep:
    """A model of a config with one batch of images, to take training steps with.

    Args:
        config: encoder, loss, batch size and precision.
        images: uint8, at least one batch.
        device: where to train.
        execution: how.
    """

    def __init__(
        self,
        config: VisionConfig,
        images: Tensor,
        device: torch.device,
        execution: Execution | None = None,
    ) -> None:
        execution = execution or Execution()
        self.config, self.device = config, device
        self.images = images[: config.batch_size].to(device)
        self.model = build_simclr(
            config.encoder,
            channels=images.shape[1],
            image_size=images.shape[-1],
            width=config.width,
            projection_dim=config.projection_dim,
            seed=config.seed,
        ).to(device)
        self.layout = execution.layout(device, self.model)
        self.model.to(memory_format=self.layout).train()
        self.forward: nn.Module = self.model
        if execution.compile:
            self.forward = torch.compile(self.model)  # type: ignore[assignment]
        self.loss = config.build_loss()
        fused = runs_ahead(device)
        optimizer = adam(self.model, config.learning_rate, config.weight_decay, fused=fused)
        self.optimizer = GuardedOptimizer(optimizer, device)
        self.augment = augmentation(config.dataset)
        self.generator = torch.Generator(device).manual_seed(config.seed)

    def __call__(self) -> None:
        """Take one step."""
        train_step(
            self.images,
            self.generator,
            self.augment,
            self.forward,
            self.loss,
            self.optimizer,
            precision=self.config.precision,
            layout=self.layout,
        )


def timed(what: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> Seconds:
    """Seconds that a call takes, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    what()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start
