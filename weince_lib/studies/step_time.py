"""What a run's parts take on the device at hand, timed on random images of the right size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

import torch

from ..evaluation import RECALL_KS, knn_evaluate, linear_probe
from ..runs.config import ConfigError, VisionConfig
from ..runs.fastest import step_form
from ..runs.timing import TrainingStep, timed
from ..runs.vision import build_model
from ..vision import extract_features
from ..vision.datasets import DATA_SETS, ImageSet, Shape, cifar10_jpeg
from .sweep import execution

#: By data set. Known beforehand, so that a plan needs no data.
SHAPES = {name: known.shape for name, known in DATA_SETS.items()}
SHAPES[cifar10_jpeg.NAME] = SHAPES["cifar10"]
#: Bytes of a record with its history; measured ones are smaller.
RECORD_BYTES = 60_000
#: A measurement doubles its batch up to the study's, or until a step takes so many seconds.
STEP_LONG_ENOUGH = 2.0


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

    def hours(self, steps: int) -> float:
        """Hours of a run of so many steps, its evaluation included."""
        return (steps * self.step_seconds + self.evaluation_seconds) / 3600


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


def measure(config: VisionConfig, shape: Shape, *, cores: int = 1) -> Measured:
    """Time a training step and the parts of an evaluation, on random images.

    On a CPU processor time counts, which other work on the machine disturbs little.

    Args:
        config: the run.
        shape: of its data.
        cores: threads on a CPU.
    """
    with at_hand(cores) as (device, kind, name):
        with TemporaryDirectory() as folder:
            some = random_images(shape, config.batch_size).images
            form = step_form(config, some, device, Path(folder))
            config = config.model_copy(update={"precision": form.precision})
        pairs, seconds = _time_step(config, shape, device)
        evaluation = _time_evaluation(config, shape, device)
    return Measured(seconds * config.batch_size / pairs, evaluation, pairs, kind, name)


@contextmanager
def at_hand(cores: int) -> Iterator[tuple[torch.device, Literal["core", "gpu"], str]]:
    """The device to measure on, its kind and its name; on a CPU with so many threads."""
    if torch.cuda.is_available():
        yield torch.device("cuda"), "gpu", torch.cuda.get_device_name()
        return
    before = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        yield torch.device("cpu"), "core", f"a CPU, {cores} thread{'s' if cores > 1 else ''}"
    finally:
        torch.set_num_threads(before)


def expected_hours(config: VisionConfig, measured: Measured | None = None) -> float:
    """Hours of a whole run of a config: its steps, then features, probes and neighbours.

    Args:
        config: the run.
        measured: its parts on the machine that will run it; by default :func:`measure` takes a
            few steps on the one at hand.

    Raises:
        ConfigError: for a data set of unknown size.
    """
    shape = shape_of(config)
    parts = measured or measure(config, shape)
    return parts.hours(config.epochs * (shape.pretraining // config.batch_size))


def _time_step(config: VisionConfig, shape: Shape, device: torch.device) -> tuple[int, float]:
    """The batch timed and the seconds of one of its steps, carried out as a study does.

    The least of three after a first, which allocates memory and is not counted.
    """
    pairs = min(16, config.batch_size)
    while True:
        images = random_images(shape, pairs).images
        batch = config.model_copy(update={"batch_size": pairs})
        step = TrainingStep(batch, images, device, execution(config))
        step()
        seconds = min(seconds_of(step, device) for _ in range(3))
        if pairs == config.batch_size or seconds > STEP_LONG_ENOUGH:
            return pairs, seconds
        pairs = min(2 * pairs, config.batch_size)


def _time_evaluation(config: VisionConfig, shape: Shape, device: torch.device) -> float:
    """Seconds of features, probes and neighbours, each timed in part and scaled."""
    some = random_images(shape, 64)
    model = build_model(config, some).to(device)
    extract_features(model.encoder, some.images)
    each = seconds_of(lambda: extract_features(model.encoder, some.images), device) / len(some)
    features = each * (shape.labelled + shape.test)

    bank = int(0.8 * shape.labelled)
    width = cast(int, model.encoder.feature_dim)
    rows = min(bank, 2_048)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, width, generator=generator).to(device)
    y = torch.arange(rows, device=device) % shape.classes
    queries = {"test": (x[:64], y[:64])}

    def probe() -> None:
        linear_probe(x, y, queries, seeds=config.probe_seeds, epochs=1)

    probe()
    probes = seconds_of(probe, device) * config.probe_epochs * bank / rows

    held = min(bank, 20_000)
    h = torch.randn(max(held, max(RECALL_KS)), width, generator=generator).to(device)
    true = torch.arange(len(h), device=device) % shape.classes
    asked = h[:256] + 0.1
    once = seconds_of(lambda: knn_evaluate(h, true, asked, true[: len(asked)]), device)
    searched = shape.labelled - bank + shape.test
    neighbours = once * (bank / len(h)) * (searched / len(asked)) * len(config.split_seeds)
    return features + probes + neighbours


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Processor seconds on a CPU, wall seconds on a GPU."""
    return timed(work, device, time.perf_counter if device.type == "cuda" else time.process_time)


def random_images(shape: Shape, count: int) -> ImageSet:
    """Images of a data set's size and no meaning."""
    generator = torch.Generator().manual_seed(0)
    size = (count, shape.channels, shape.side, shape.side)
    images = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    names = tuple(str(i) for i in range(shape.classes))
    return ImageSet("random", images, torch.arange(count) % shape.classes, names)
