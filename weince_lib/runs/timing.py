"""What a training step costs, and how much of it is the loss; on a CPU or a CUDA device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..training.steps import GuardedOptimizer, runs_ahead
from ..vision import Execution, augmentation, build_simclr
from ..vision.training import adam, train_step
from .config import VisionConfig

Seconds = float
#: First steps, which allocate memory, choose algorithms and compile, and do not count; as many as
#: are timed, if these are fewer.
WARM_UP = 10


@dataclass(frozen=True)
class StepTimes:
    """Medians over steps, in seconds.

    Attributes:
        step: a whole training step: both views made, forward, loss, backward, optimiser.
        stage: the loss alone, forward and backward, on the embeddings of a step.
    """

    step: Seconds
    stage: Seconds


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

    @torch.no_grad()
    def embeddings(self) -> tuple[Tensor, Tensor]:
        """Embeddings of two views, as the loss gets them in a step."""
        on = self.config.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=on):
            views = self.augment(self.images, self.generator)
            z0, z1 = (
                self.forward(view.to(memory_format=self.layout)).requires_grad_() for view in views
            )
        return z0, z1


def time_steps(
    configs: Mapping[str, VisionConfig],
    images: Tensor,
    device: torch.device,
    *,
    steps: int = 100,
    execution: Execution | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, StepTimes]:
    """Time training steps of several configs in turn, so that a busy machine slows all alike.

    Args:
        configs: what to compare, by name.
        images: uint8, at least one batch.
        device: where to train.
        steps: timed steps of each.
        execution: how to train.
        clock: seconds; ``time.process_time`` counts the processor's instead of the wall's. The
            device is waited for before each reading.
    """
    made = {name: TrainingStep(c, images, device, execution) for name, c in configs.items()}
    z = {name: step.embeddings() for name, step in made.items()}

    def stage(name: str) -> None:
        loss, (z0, z1) = made[name].loss, z[name]
        z0.grad = z1.grad = None
        loss(z0, z1).backward()

    whole: dict[str, list[float]] = {name: [] for name in made}
    alone: dict[str, list[float]] = {name: [] for name in made}
    warm_up = min(WARM_UP, steps)
    for turn in range(warm_up + steps):
        for name, step in made.items():
            times = timed(step, device, clock), timed(partial(stage, name), device, clock)
            if turn >= warm_up:
                whole[name].append(times[0])
                alone[name].append(times[1])
    return {
        name: StepTimes(statistics.median(whole[name]), statistics.median(alone[name]))
        for name in made
    }


def timed(what: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> Seconds:
    """Seconds that a call takes, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    what()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start


def copies_to_device(what: Callable[[], object]) -> int:
    """Copies from the host to a CUDA device during a call, by torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        what()
        torch.cuda.synchronize()
    return sum("Memcpy HtoD" in event.name for event in profile.events() or ())
