"""How a run is carried out, and where its batches come from: speed, never what is computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

#: Share of an accelerator's free memory that images may take; the rest is for the training.
IMAGE_MEMORY = 0.5


@dataclass(frozen=True)
class Execution:
    """Settings that change speed and rounding, and so do not belong to a run's config.

    Attributes:
        compile: run model and augmentation through ``torch.compile``: fewer and larger kernels,
            after a minute of compiling. Off by default; it needs a compiler on the machine.
        channels_last: keep weights and activations in the layout that tensor cores take, where
            :func:`channels_last_is_safe`. ``None``: on a CUDA device only; on a CPU the plain
            layout repeats older runs of the same machine and build to the bit.
        resident: keep all images on the device. ``None``: if they take no more than half of its
            free memory; otherwise worker processes read the batches ahead.
        workers: of that reading.
        save_minutes: age of the last checkpoint at which one is written within an epoch.

    Raises:
        ValueError: for a negative number of workers, or minutes that are not positive.
    """

    compile: bool = False
    channels_last: bool | None = None
    resident: bool | None = None
    workers: int = 2
    save_minutes: float = 10.0

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ValueError(f"workers must be 0 or more, got {self.workers}")
        if not self.save_minutes > 0:
            raise ValueError(f"save_minutes must be positive, got {self.save_minutes}")

    def layout(self, device: torch.device, model: nn.Module) -> torch.memory_format:
        """The memory format of weights and views; plain, with a warning, where it is not safe."""
        last = device.type == "cuda" if self.channels_last is None else self.channels_last
        if last and device.type == "cpu" and not channels_last_is_safe(model):
            warnings.warn(
                "channels_last=True is not used: on a CPU torch may corrupt memory with it in a "
                f"strided 1x1 convolution of fewer than {SAFE_CHANNELS} input channels, and this "
                "model has one; use a wider model, or channels_last=False, which this run has now",
                stacklevel=2,
            )
            last = False
        return torch.channels_last if last else torch.contiguous_format

    def keeps_resident(self, images: Tensor, device: torch.device) -> bool:
        """Whether all images go to the device."""
        if self.resident is not None:
            return self.resident
        return images.device == device or images.nbytes <= IMAGE_MEMORY * free_memory(device)


def free_memory(device: torch.device) -> float:
    """Free bytes of an accelerator; without a limit for the CPU, where images lie already."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    return float("inf")


class _Rows(Dataset[Tensor]):
    """Whole batches by their indices."""

    def __init__(self, images: Tensor) -> None:
        self.images = images

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.images[rows]


class Batches:
    """The batches of an epoch on the device, from images ``(n, C, H, W)`` anywhere."""

    def __init__(self, images: Tensor, device: torch.device, execution: Execution) -> None:
        self.device, self.workers = device, execution.workers
        self.resident = execution.keeps_resident(images, device)
        self.images = images.to(device) if self.resident else images

    def epoch(self, rows: Sequence[Tensor]) -> Iterator[Tensor]:
        """The images of each batch, given the indices of each on the device of the generator."""
        if self.resident:
            for chosen in rows:
                yield self.images[chosen.to(self.device)]
            return
        pinned = self.device.type == "cuda"
        loader = DataLoader(
            _Rows(self.images),
            sampler=[chosen.cpu() for chosen in rows],
            batch_size=None,
            num_workers=self.workers,
            pin_memory=pinned,
            generator=torch.Generator(),  # else a seed for the workers comes from the global one
        )
        for batch in loader:
            yield batch.to(self.device, non_blocking=pinned)


#: A strided 1x1 convolution of fewer input channels than this is not safe with channels last.
#: Sixteen float32 numbers fill a register of AVX-512; with AVX2 eight would do.
SAFE_CHANNELS = 16


def channels_last_is_safe(model: nn.Module) -> bool:
    """Whether a model can be trained on a CPU with ``channels_last``.

    Not with a strided 1x1 convolution, such as a residual shortcut, of fewer than 16 input
    channels. For its weight gradient oneDNN, which torch calls, writes behind a buffer: it moves on
    by a whole block of channels (8 with AVX2, 16 with AVX-512) per pixel. The process crashes,
    hangs, or gets wrong gradients (https://github.com/uxlfoundation/oneDNN/issues/6035; torch
    2.14.1 with oneDNN 3.12.0). Other convolutions and the plain layout take other code. The rule
    asks for 16 channels on every processor, so that it does not depend on the machine.
    """
    return not any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and max(layer.stride) > 1
        and layer.in_channels < SAFE_CHANNELS
        for layer in model.modules()
    )
