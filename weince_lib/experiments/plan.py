"""What a study will cost before anything starts: runs, hours from a measured step, disk."""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from ..evaluation import RECALL_KS, knn_evaluate, linear_probe
from ..vision import TrainingSettings, augmentation, extract_features, train
from ..vision.datasets import ImageSet
from . import paths
from .config import ConfigError, VisionConfig
from .grid import Study
from .sweep import State, states
from .vision import build_model, features_bytes


@dataclass(frozen=True)
class Shape:
    """The published size of a data set.

    Attributes:
        pretraining: images of contrastive training.
        labelled: labelled training images, for probe and neighbours.
        test: test images.
        channels: of an image.
        side: length in pixels.
        classes: number of classes.
    """

    pretraining: int
    labelled: int
    test: int
    channels: int
    side: int
    classes: int


#: By data set. Known beforehand, so that a plan needs no data.
SHAPES = {
    "digits": Shape(1_352, 1_352, 445, 1, 8, 10),
    "fashion-mnist": Shape(60_000, 60_000, 10_000, 1, 28, 10),
    "cifar10": Shape(50_000, 50_000, 10_000, 3, 32, 10),
    "cifar100": Shape(50_000, 50_000, 10_000, 3, 32, 100),
    "stl10": Shape(100_000, 5_000, 8_000, 3, 96, 10),
    "imagenet32": Shape(1_281_167, 1_281_167, 50_000, 3, 32, 1_000),
    "tiny-imagenet": Shape(100_000, 100_000, 10_000, 3, 64, 200),
}
#: A measurement doubles its batch up to the study's, or until a step takes so many seconds.
STEP_LONG_ENOUGH = 2.0
#: Bytes of a record with its history; measured ones are smaller.
RECORD_BYTES = 60_000


@dataclass(frozen=True)
class Measured:
    """What a run's parts take on one device.

    Attributes:
        step_seconds: one training step at the study's batch size.
        evaluation_seconds: features, probes and neighbours of one run.
        pairs: batch that was timed; a step of the study's is taken to cost in proportion.
        kind: ``"core"`` if seconds are processor time on a CPU, ``"gpu"`` if they are wall time.
        device: its name.
    """

    step_seconds: float
    evaluation_seconds: float
    pairs: int
    kind: Literal["core", "gpu"]
    device: str


@dataclass(frozen=True)
class Plan:
    """The cost of a study.

    Attributes:
        study: the study.
        states: every run with what has become of it.
        steps: training steps of a run.
        measured: what they were timed with.
        run_bytes: disk a run takes: checkpoint, features, record.
        free_bytes: free on the disk that ``runs/`` lies on.
    """

    study: Study
    states: list[State]
    steps: int
    measured: Measured
    run_bytes: int
    free_bytes: int

    @property
    def counts(self) -> Counter[str]:
        """Number of runs by stage."""
        return Counter(state.stage for state in self.states)

    @property
    def remaining(self) -> int:
        """Runs that are not done; one that has begun is counted whole."""
        return len(self.states) - self.counts["done"]

    @property
    def run_hours(self) -> float:
        """Device- or core-hours of one run."""
        return (self.steps * self.measured.step_seconds + self.measured.evaluation_seconds) / 3600

    def lines(self) -> list[str]:
        """The plan in words, with the reason of each failure."""
        m, counts, first = self.measured, self.counts, self.states[0].run.config
        settings = len(self.study.all_settings())
        scaled = "" if m.pairs == first.batch_size else f", scaled from a batch of {m.pairs}"
        done = ", ".join(f"{counts[s]} {s}" for s in ("done", "begun", "failed", "to do"))
        left = self.remaining * self.run_bytes
        short = "; NOT ENOUGH" if left > self.free_bytes else ""
        found = [
            f"study   {self.study.name}: {self.study.question}",
            f"runs    {len(self.states)} ({settings} settings x {len(self.study.seeds)} encoder "
            f"seeds): {done}",
            f"step    {1000 * m.step_seconds:,.1f} ms for {first.batch_size} pairs on {m.device} "
            f"(measured{scaled})",
            f"a run   {first.epochs} epochs, {self.steps:,} steps: {self.run_hours:.2f} "
            f"{m.kind}-hours, {m.evaluation_seconds / 3600:.2f} of them evaluation",
            f"to do   {self.remaining} runs: {self.remaining * self.run_hours:,.1f} {m.kind}-hours",
            f"disk    {left / 1e9:,.2f} GB to do ({self.run_bytes / 1e6:,.1f} MB a run), "
            f"{self.free_bytes / 1e9:,.1f} GB free{short}",
        ]
        if self.study.gpus and m.kind == "core":
            found.append(
                "note    made for GPUs and none is here: run this where they are, or give the "
                "time of a step there with --step-ms"
            )
        return found + [f"failed  {s.run.key} {s.reason}" for s in self.states if s.reason]


def plan(chosen: Study, *, step_seconds: float | None = None) -> Plan:
    """Work out what is left of a study and what it costs; nothing is trained for good.

    Args:
        chosen: the study.
        step_seconds: of a step on the machine it will run on; measured here, with the evaluation,
            by default. A given one leaves evaluation out of the hours.

    Raises:
        ConfigError: for settings that make no run here, a data set of unknown size, or a step time
            that is not positive.
    """
    if step_seconds is not None and not 0 < step_seconds < math.inf:
        raise ConfigError(f"a step takes a positive time, not {step_seconds} s")
    found = states(chosen)
    config = next((s.run.config for s in found if s.run.config.loss == "weince"), None)
    config = config or found[0].run.config  # WEINCE's step is the longer one
    shape = shape_of(config)
    measured = (
        measure(config, shape, cores=chosen.cores)
        if step_seconds is None
        else Measured(step_seconds, 0.0, config.batch_size, "gpu" if chosen.gpus else "core", "?")
    )
    home = paths.runs()
    home.mkdir(parents=True, exist_ok=True)
    return Plan(
        study=chosen,
        states=found,
        steps=config.epochs * (shape.pretraining // config.batch_size),
        measured=measured,
        run_bytes=run_bytes(config, shape),
        free_bytes=shutil.disk_usage(home).free,
    )


def shape_of(config: VisionConfig) -> Shape:
    """The size of a run's data, its ``train_limit`` applied.

    Raises:
        ConfigError: for a folder of images, whose size only reading it would tell.
    """
    if config.dataset not in SHAPES:
        raise ConfigError(f"no size known of {config.dataset!r}; known: {', '.join(SHAPES)}")
    full = SHAPES[config.dataset]
    if not config.train_limit:
        return full
    limited = min(full.pretraining, config.train_limit)
    labelled = limited if full.labelled == full.pretraining else full.labelled
    return Shape(limited, labelled, full.test, full.channels, full.side, full.classes)


def run_bytes(config: VisionConfig, shape: Shape) -> int:
    """Disk of one run: weights and Adam's two moments, kept features, the record."""
    model = build_model(config, _random_images(shape, 1))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    width = int(model.projector[0].in_features)
    features = features_bytes(shape.labelled, width) + features_bytes(shape.test, width)
    return 3 * weights + buffers + features + RECORD_BYTES


def measure(config: VisionConfig, shape: Shape, *, cores: int = 1) -> Measured:
    """Time a training step and the parts of an evaluation, on random images.

    On a CPU processor time counts, which other work on the machine disturbs little.

    Args:
        config: the run.
        shape: of its data.
        cores: threads on a CPU.
    """
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        pairs, seconds = _time_step(config, shape, device)
        evaluation = _time_evaluation(config, shape, device)
    finally:
        torch.set_num_threads(before)
    threads = f"a CPU, {cores} thread{'s' if cores > 1 else ''}"
    return Measured(
        step_seconds=seconds * config.batch_size / pairs,
        evaluation_seconds=evaluation,
        pairs=pairs,
        kind="gpu" if cuda else "core",
        device=torch.cuda.get_device_name() if cuda else threads,
    )


def _time_step(config: VisionConfig, shape: Shape, device: torch.device) -> tuple[int, float]:
    """The batch timed and the seconds of one of its steps, the least of three."""
    pairs = min(16, config.batch_size)
    while True:
        images = _random_images(shape, pairs)
        model = build_model(config, images)
        settings = TrainingSettings(epochs=1, batch_size=pairs, precision=config.precision)

        def step() -> None:
            train(
                model,  # noqa: B023
                config.build_loss(),
                images.images,  # noqa: B023
                augmentation(config.dataset),
                settings,  # noqa: B023
                device=device,
            )

        step()
        seconds = min(_seconds(step, device) for _ in range(3))
        if pairs == config.batch_size or seconds > STEP_LONG_ENOUGH:
            return pairs, seconds
        pairs = min(2 * pairs, config.batch_size)


def _time_evaluation(config: VisionConfig, shape: Shape, device: torch.device) -> float:
    """Seconds of features, probes and neighbours, each timed in part and scaled."""
    some = _random_images(shape, 64)
    model = build_model(config, some).to(device)
    extract_features(model.encoder, some.images)
    each = _seconds(lambda: extract_features(model.encoder, some.images), device) / len(some)
    features = each * (shape.labelled + shape.test)

    bank = int(0.8 * shape.labelled)
    width = int(model.projector[0].in_features)
    rows = min(bank, 2_048)
    x = torch.randn(rows, width, device=device)
    y = torch.arange(rows, device=device) % shape.classes
    queries = {"test": (x[:64], y[:64])}

    def probe() -> None:
        linear_probe(x, y, queries, seeds=config.probe_seeds, epochs=1)

    probe()
    probes = _seconds(probe, device) * config.probe_epochs * bank / rows

    held = min(bank, 20_000)
    h = torch.randn(max(held, max(RECALL_KS)), width, device=device)
    true = torch.arange(len(h), device=device) % shape.classes
    asked = h[:256] + 0.1
    once = _seconds(lambda: knn_evaluate(h, true, asked, true[: len(asked)]), device)
    searched = shape.labelled - bank + shape.test
    neighbours = once * (bank / len(h)) * (searched / len(asked)) * len(config.split_seeds)
    return features + probes + neighbours


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Processor seconds on a CPU, wall seconds on a GPU."""
    cuda = device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    if cuda:
        torch.cuda.synchronize()
    start = clock()
    work()
    if cuda:
        torch.cuda.synchronize()
    return clock() - start


def _random_images(shape: Shape, count: int) -> ImageSet:
    """Images of a data set's size and no meaning."""
    generator = torch.Generator().manual_seed(0)
    size = (count, shape.channels, shape.side, shape.side)
    images = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    names = tuple(str(i) for i in range(shape.classes))
    return ImageSet("random", images, torch.arange(count) % shape.classes, names)
