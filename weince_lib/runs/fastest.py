"""Which form of the training step this machine carries out fastest.

A processor with bfloat16 instructions trains the small ResNet almost twice as fast in bfloat16;
one without them takes several times as long. Whether the memory format ``channels_last`` helps
depends on the processor too. So a run whose config says ``precision="fastest"`` times one training
step in each form and takes the fastest. The choice is kept, so that all runs on one machine go the
same way, and it is written into every record.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from .. import files, paths
from ..records.provenance import cpu_name
from ..training.processes import World
from ..training.steps import GuardedOptimizer, runs_ahead
from ..vision import Execution, augmentation, build_encoder, build_simclr
from ..vision.execution import channels_last_is_safe
from ..vision.training import adam, train_step
from .config import VisionConfig

Precision = Literal["float32", "bfloat16"]
#: Steps of each form: the first allocates memory and does not count, the least of the others does.
STEPS = 4


@dataclass(frozen=True)
class StepForm:
    """How the steps of a run are carried out.

    Attributes:
        precision: of the encoder.
        channels_last: memory format of weights and images; ``None`` leaves it to the device.
        milliseconds: processor time of one step by form; empty where nothing was timed.
        machine: processor, number of threads and version of torch that it was timed with.
    """

    precision: Precision
    channels_last: bool | None
    milliseconds: dict[str, float] = dataclasses.field(default_factory=dict)
    machine: str = ""

    def apply(self, execution: Execution | None) -> Execution:
        """The given execution in this form; a layout that it asks for itself is kept."""
        execution = execution or Execution()
        if execution.channels_last is not None or self.channels_last is None:
            return execution
        return dataclasses.replace(execution, channels_last=self.channels_last)


def step_form(
    config: VisionConfig,
    images: Tensor,
    device: torch.device,
    folder: Path,
    world: World | None = None,
) -> StepForm:
    """The form of a run's steps; the same again when the run is continued.

    Args:
        config: of the run. A precision of its own is kept; ``"fastest"`` is chosen here.
        images: of its training, uint8; the first batch is timed.
        device: where it trains. On a CUDA device nothing is timed: bfloat16 where the device has
            it, and the device's own memory format.
        folder: of the run. A choice that it holds was made when the run began, and is kept.
        world: processes that train together. The first chooses for all.

    Warns:
        UserWarning: once, if the fastest form on this CPU is not bfloat16.
    """
    if config.precision != "fastest":
        return StepForm(config.precision, None)
    if device.type == "cuda":
        half = torch.cuda.is_bf16_supported(including_emulation=False)
        return StepForm("bfloat16" if half else "float32", None, machine=_machine(device))
    world = world or World()
    kept = folder / "step-form.json"
    if world.first and not kept.exists():
        _write(kept, _chosen_here(config, images, device))
    world.wait()
    return _read(kept)


def _chosen_here(config: VisionConfig, images: Tensor, device: torch.device) -> StepForm:
    """This machine's choice for encoders and batches of one size, timed once and kept."""
    size = {
        "machine": _machine(device),
        "encoder": config.encoder,
        "width": config.width,
        "batch": config.batch_size,
        "image": list(images.shape[1:]),
    }
    name = hashlib.sha256(json.dumps(size, sort_keys=True).encode()).hexdigest()[:16]
    path = paths.runs() / "step-forms" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(path.with_suffix(".lock")):
        if not path.exists():
            _write(path, _timed(config, images, device))
    return _read(path)


def _timed(config: VisionConfig, images: Tensor, device: torch.device) -> StepForm:
    """Time a step of each form, one form after the other, and take the fastest."""
    forms: tuple[tuple[Precision, bool], ...] = tuple(
        itertools.product(("float32", "bfloat16"), layouts(config))
    )
    milliseconds: dict[str, float] = {}
    for precision, last in forms:
        chosen = config.model_copy(update={"precision": precision})
        step = TrainingStep(chosen, images, device, Execution(channels_last=last))
        # Processor time: other work on the machine disturbs it little.
        spent = [timed(step, device, time.process_time) for _ in range(STEPS)]
        milliseconds[_name(precision, last)] = round(1000 * min(spent[1:]), 1)
    fastest = min(forms, key=lambda form: milliseconds[_name(*form)])
    if fastest[0] != "bfloat16":
        half = min(milliseconds[_name("bfloat16", last)] for last in layouts(config))
        warnings.warn(
            f"bfloat16 is not the fastest on this processor ({half:.0f} ms a step against "
            f"{milliseconds[_name(*fastest)]:.0f} ms in float32): training in float32",
            stacklevel=2,
        )
    return StepForm(*fastest, milliseconds, _machine(device))


def layouts(config: VisionConfig) -> tuple[bool, ...]:
    """Memory formats to try on a CPU: plain, and ``channels_last`` where it is safe.

    See :func:`weince_lib.vision.execution.channels_last_is_safe`.
    """
    with torch.device("meta"):  # layers without memory; their shapes are all that counts
        encoder = build_encoder(config.encoder, channels=3, image_size=32, width=config.width)
    return (False, True) if channels_last_is_safe(encoder) else (False,)


def _name(precision: str, last: bool) -> str:
    return precision + (" channels_last" if last else "")


def _machine(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    threads = torch.get_num_threads()
    return f"{cpu_name()}, {threads} thread{'s' * (threads > 1)}, torch {torch.__version__}"


def _write(path: Path, form: StepForm) -> None:
    files.write_text(path, json.dumps(dataclasses.asdict(form), indent=1) + "\n")


def _read(path: Path) -> StepForm:
    return StepForm(**json.loads(path.read_text(encoding="utf-8")))


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


def timed(what: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    """Seconds that a call takes, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    what()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start
