"""What the input of training costs: augmentation, step time, and on a GPU memory and copies.

    python -m tests.benchmarks.augmentation [--images 256] [--seconds 20] [--steps 20] [--cpu-time]

The same images are augmented twice: by torchvision's transforms one image at a time, on PIL images
as the authors' loaders do, and by ours on the whole batch. Rounds alternate, so that a busy machine
slows both alike; medians are reported. Then training steps of the cpu profile with InfoNCE and
WEINCE are timed in turn (``--steps 0`` leaves them out). On a CUDA device: the same for ResNet-50
at batch 256 on 32 x 32 pixels, with peak memory and the copies from the host during an epoch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torchvision import transforms as tv
from torchvision.transforms.functional import to_pil_image

from tests.benchmarks.timing import clock_of, in_turn, parser_of
from weince_lib.experiments import VisionConfig, vision_config
from weince_lib.runs.fastest import TrainingStep, timed
from weince_lib.vision import TrainingSettings, TwoViewAugment, build_simclr, train


def torchvision_pipeline(size: int) -> tv.Compose:
    """The paper's views (appendix F.2) of one PIL image."""
    return tv.Compose(
        [
            tv.RandomResizedCrop(size),
            tv.RandomHorizontalFlip(),
            tv.RandomApply([tv.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
            tv.RandomGrayscale(0.2),
            tv.ToTensor(),
        ]
    )


def augmentation_section(count: int, seconds: float, clock: Callable[[], float]) -> None:
    """Print both pipelines' time for two views of a batch, and their ratio."""
    generator = torch.Generator().manual_seed(0)
    for channels, size in ((3, 32), (1, 28), (3, 96)):
        images = torch.randint(
            0, 256, (count, channels, size, size), dtype=torch.uint8, generator=generator
        )
        pictures = [to_pil_image(image) for image in images]
        pipeline, ours = torchvision_pipeline(size), TwoViewAugment()

        def one_by_one(pictures: list = pictures, pipeline: tv.Compose = pipeline) -> list[Tensor]:
            return [torch.stack([pipeline(picture) for picture in pictures]) for _ in range(2)]

        def at_once(images: Tensor = images, ours: TwoViewAugment = ours) -> object:
            return ours(images, generator)

        medians = in_turn({"theirs": one_by_one, "ours": at_once}, clock, seconds=seconds)
        print(
            f"{count} images of {channels}x{size}x{size}, two views: torchvision "
            f"{1e3 * medians['theirs']:.1f} ms, whole batch {1e3 * medians['ours']:.1f} ms, "
            f"{medians['theirs'] / medians['ours']:.2f} times as fast",
            flush=True,
        )


def step_section(
    config: dict[str, VisionConfig],
    shape: tuple[int, int, int],
    device: torch.device,
    steps: int,
    clock: Callable[[], float],
) -> None:
    """Print step and loss stage of each config, and the excess over the first."""
    some = next(iter(config.values()))
    images = torch.randint(0, 256, (some.batch_size, *shape), dtype=torch.uint8)
    made = {name: TrainingStep(each, images, device) for name, each in config.items()}
    stages = {name: loss_stage(step) for name, step in made.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
    for _ in range(min(10, steps) + steps):  # the first ones allocate memory and do not count
        for name, step in made.items():
            times[name].append((timed(step, device, clock), timed(stages[name], device, clock)))
    medians = {
        name: [statistics.median(part) for part in zip(*taken[-steps:], strict=True)]
        for name, taken in times.items()
    }
    first = next(iter(medians.values()))[0]
    for name, (whole, stage) in medians.items():
        print(
            f"{some.encoder} {some.precision}, batch {some.batch_size}, {name}: step "
            f"{1e3 * whole:.2f} ms ({100 * (whole / first - 1):+.2f} %), loss stage "
            f"{1e3 * stage:.2f} ms ({100 * stage / whole:.2f} % of the step)",
            flush=True,
        )


def loss_stage(step: TrainingStep) -> Callable[[], None]:
    """The loss alone, forward and backward, on embeddings as it gets them in a step."""
    on = step.config.precision == "bfloat16"
    with torch.no_grad(), torch.autocast(step.device.type, torch.bfloat16, enabled=on):
        z0, z1 = (
            step.forward(view).detach().requires_grad_()
            for view in step.augment(step.images, step.generator)
        )

    def stage() -> None:
        z0.grad = z1.grad = None
        step.loss(z0, z1).backward()

    return stage


def copies_to_device(what: Callable[[], object]) -> int:
    """Copies from the host to a CUDA device during a call, by torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        what()
        torch.cuda.synchronize()
    return sum("Memcpy HtoD" in event.name for event in profile.events() or ())


def cuda_section(steps: int) -> None:
    """Print ResNet-50's peak memory and step, and the copies from the host during an epoch."""
    device = torch.device("cuda", 0)
    losses = {
        name: vision_config("gpu", loss=name).model_copy(update={"encoder": "resnet50"})
        for name in ("infonce", "weince")
    }
    images = torch.randint(0, 256, (2560, 3, 32, 32), dtype=torch.uint8)
    for name, config in losses.items():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step = TrainingStep(config, images, device)
        for _ in range(3):
            step()
        peak = torch.cuda.max_memory_allocated() / 2**30
        print(f"{torch.cuda.get_device_name()}: ResNet-50, batch 256, {name}: {peak:.2f} GiB peak")
        del step
    step_section(losses, (3, 32, 32), device, steps, time.perf_counter)

    def epochs(count: int) -> Callable[[], object]:
        config = vision_config("gpu", loss="weince")
        model = build_simclr(
            "resnet18", channels=3, image_size=32, width=0, projection_dim=64, seed=7
        )
        settings = TrainingSettings(epochs=count, precision="bfloat16")
        return lambda: train(
            model, config.build_loss(), images, TwoViewAugment(), settings, device=device
        )

    epochs(1)()  # constants are copied once per process
    one, three = copies_to_device(epochs(1)), copies_to_device(epochs(3))
    print(f"copies from the host: {one} in a run of one epoch, {three} in a run of three; ", end="")
    print(f"{(three - one) / 2:g} an epoch of 10 steps")


def main() -> None:
    """Command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20.0, help="per image size")
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each loss")
    parser.add_argument("--precision", default="float32", help="of the cpu profile's steps")
    options = parser.parse_args()
    clock = clock_of(options)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    augmentation_section(options.images, options.seconds, clock)
    if options.steps:
        losses = {
            name: vision_config("cpu", loss=name, precision=options.precision)
            for name in ("infonce", "weince")
        }
        step_section(losses, (1, 28, 28), torch.device("cpu"), options.steps, clock)
    if torch.cuda.is_available():
        cuda_section(max(options.steps, 20))


if __name__ == "__main__":
    main()
