"""What a study will cost before anything starts: runs, hours from a timed step, disk.

One training step and parts of an evaluation are timed on the device at hand, on random images or
tokens of the right size, so that a plan needs no data.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import torch
from torch import nn

from .. import paths
from ..evaluation import RECALL_KS, knn_evaluate, linear_probe
from ..runs.config import ConfigError, VisionConfig
from ..runs.fastest import TrainingStep, step_form, timed
from ..runs.text_config import TextConfig
from ..runs.vision import build_model, features_bytes, snapshot_epochs
from ..text.corpora import WIKI_ON_HUB
from ..vision import extract_features
from ..vision.datasets import DATA_SETS, ImageSet, Shape, cifar10_jpeg
from .grid import Study
from .study_types import execution
from .sweep import states

if TYPE_CHECKING:  # its packages are needed by text alone
    from ..text.simcse import SimCSE

_Size = TypeVar("_Size")
#: Sizes of data sets, known beforehand.
SHAPES = {name: known.shape for name, known in DATA_SETS.items()}
SHAPES[cifar10_jpeg.NAME] = SHAPES["cifar10"]
#: Sentences of corpora, known beforehand.
SENTENCES = {"wordnet": 116_697, "wiki": 1_000_000, WIKI_ON_HUB: 1_000_000, "grammar": 2_048}
#: Words of BERT's vocabulary, and a typical number of tokens of the longest sentence of a batch.
VOCABULARY, LENGTH = 30_522, 32
#: Sentences of STS-B's dev and test.
STSB_SENTENCES = 2 * (1_500 + 1_379)
#: Bytes of a record with its history; measured ones are smaller.
RECORD_BYTES = 60_000
#: A measurement doubles its batch up to the study's, or until a step takes so many seconds.
STEP_LONG_ENOUGH = 2.0


@dataclass(frozen=True)
class Measured:
    """What a run's parts take on one device.

    Attributes:
        step_seconds: one training step at the study's batch size.
        evaluation_seconds: all evaluations of one run.
        pairs: batch that was timed; a step of the study's is taken to cost in proportion.
        kind: ``"core"`` if seconds are processor time on a CPU, ``"gpu"`` if they are wall time.
        device: its name; empty if the time of a step was given.
    """

    step_seconds: float
    evaluation_seconds: float
    pairs: int
    kind: Literal["core", "gpu"]
    device: str

    def hours(self, steps: int) -> float:
        """Hours of a run of so many steps, its evaluation included."""
        return (steps * self.step_seconds + self.evaluation_seconds) / 3600


def plan(chosen: Study, *, step_seconds: float | None = None) -> list[str]:
    """What is left of a study and what it costs, in words; nothing is trained for good.

    A run that has begun is counted whole among those to do. The reason of each failure follows.

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
    if not found:
        rules = dict.fromkeys(chosen.by_rule.values())
        raise ConfigError(f"study {chosen.name} has no runs yet: {'; '.join(rules)}")
    # WEINCE's step is the longer one.
    config = next((s.run.config for s in found if s.run.config.loss == "weince"), None)
    config = config or found[0].run.config
    pairs = config.batch_size
    if step_seconds is None:
        m = measure(config, cores=chosen.cores)
        scaled = "" if m.pairs == pairs else f", scaled from a batch of {m.pairs}"
        source = f"on {m.device} (measured{scaled})"
    else:
        m = Measured(step_seconds, 0.0, pairs, "gpu" if chosen.gpus else "core", "")
        source = "(given)"
    steps, each = steps_of(config), run_bytes(config)
    hours = m.hours(steps)
    home = paths.runs()
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free

    counts = Counter(state.stage for state in found)
    done = ", ".join(f"{counts[s]} {s}" for s in ("done", "begun", "failed", "to do"))
    remaining = len(found) - counts["done"]
    short = "; NOT ENOUGH" if remaining * each > free else ""
    lines = [
        f"study   {chosen.name}: {chosen.question}",
        *([f"rule    {chosen.rule}"] if chosen.rule else []),
        *(f"sunk    {chosen.title(m)}: {words}" for m, words in chosen.predictions.items()),
        f"runs    {len(found)} ({len(chosen.all_settings())} settings x {len(chosen.seeds)} "
        f"encoder seeds): {done}",
        f"step    {1000 * m.step_seconds:,.1f} ms for {pairs} pairs {source}",
        f"a run   {config.epochs} epochs, {steps:,} steps: {hours:.2f} "
        f"{m.kind}-hours, {m.evaluation_seconds / 3600:.2f} of them evaluation",
        f"to do   {remaining} runs: {remaining * hours:,.1f} {m.kind}-hours",
        f"disk    {remaining * each / 1e9:,.2f} GB to do ({each / 1e6:,.1f} MB a run), "
        f"{free / 1e9:,.1f} GB free{short}",
    ]
    if chosen.gpus and m.kind == "core":
        lines.append(
            "note    made for GPUs and none is here: run this where they are, or give the "
            "time of a step there with --step-ms"
        )
    return lines + [f"failed  {s.run.key} {s.reason}" for s in found if s.reason]


def expected_hours(config: VisionConfig | TextConfig, measured: Measured | None = None) -> float:
    """Hours of a whole run: its steps and evaluations, without downloads.

    Args:
        config: the run.
        measured: its parts on the machine that will run it; by default :func:`measure` takes a
            few steps on the one at hand. On a CPU these are hours of a processor.

    Raises:
        ConfigError: for a data set or corpus of unknown size.
    """
    return (measured or measure(config)).hours(steps_of(config))


def require_gpu(profile: str) -> None:
    """Stop before a run of hours starts on a processor that would take days.

    Args:
        profile: nothing is asked of any but ``colab``.

    Raises:
        ConfigError: in ``colab`` without a CUDA device.
    """
    if profile == "colab" and not torch.cuda.is_available():
        raise ConfigError("no GPU here; choose one under Runtime > Change runtime type")


# Sizes -------------------------------------------------------------------------------------------


def shape_of(config: VisionConfig) -> Shape:
    """The size of a run's data, its ``train_limit`` applied; refused as by :func:`steps_of`."""
    full = _known(config.dataset, SHAPES)
    if not config.train_limit:
        return full
    limited = min(full.pretraining, config.train_limit)
    labelled = limited if full.labelled == full.pretraining else full.labelled
    return replace(full, pretraining=limited, labelled=labelled)


def steps_of(config: VisionConfig | TextConfig) -> int:
    """Training steps of a run.

    Raises:
        ConfigError: for a data set or corpus whose size only reading it would tell.
    """
    if isinstance(config, TextConfig):
        whole = _known(config.corpus, SENTENCES)
        items = min(whole, config.train_limit or whole)
    else:
        items = shape_of(config).pretraining
    return config.epochs * (items // config.batch_size)


def _known(name: str, known: Mapping[str, _Size]) -> _Size:
    if name not in known:
        raise ConfigError(f"no size known of {name!r}; known: {', '.join(known)}")
    return known[name]


def run_bytes(config: VisionConfig | TextConfig) -> int:
    """Disk of one run.

    Of images: weights and Adam's two moments, the weights kept after epochs 1, 2, 4, ..., kept
    features, the record. Of sentences: the best, the middle and the last weights, the record.
    """
    if isinstance(config, TextConfig):
        return 3 * _bytes(random_text_model(config).parameters()) + RECORD_BYTES
    shape = shape_of(config)
    model = build_model(config, random_images(shape, 1))
    weights, buffers = _bytes(model.parameters()), _bytes(model.buffers())
    width = cast(int, model.encoder.feature_dim)
    features = features_bytes(shape.labelled, width) + features_bytes(shape.test, width)
    kept = len(snapshot_epochs(config.epochs)) * (weights + buffers)
    return 3 * weights + buffers + kept + features + RECORD_BYTES


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


# Times -------------------------------------------------------------------------------------------


def measure(config: VisionConfig | TextConfig, *, cores: int = 1) -> Measured:
    """Time a training step and the parts of an evaluation.

    On a CPU processor time counts, which other work on the machine disturbs little.

    Args:
        config: the run.
        cores: threads on a CPU.

    Raises:
        ConfigError: for a data set or corpus of unknown size.
    """
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(before if cuda else cores)
    try:
        if isinstance(config, TextConfig):
            pairs, seconds, evaluation = _time_text(config, device)
        else:
            pairs, seconds, evaluation = _time_images(config, device)
    finally:
        torch.set_num_threads(before)
    name = f"a CPU, {cores} thread{'s' if cores > 1 else ''}"
    return Measured(
        seconds * config.batch_size / pairs,
        evaluation,
        pairs,
        "gpu" if cuda else "core",
        torch.cuda.get_device_name() if cuda else name,
    )


def _seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Processor seconds on a CPU, wall seconds on a GPU."""
    return timed(work, device, time.perf_counter if device.type == "cuda" else time.process_time)


def _time_step(
    make: Callable[[int], Callable[[], object]], batch_size: int, device: torch.device
) -> tuple[int, float]:
    """The batch timed, and the seconds of one step that ``make`` gives for so many pairs.

    The least of three counts, after a first one that allocates memory.
    """
    pairs = min(16, batch_size)
    while True:
        step = make(pairs)
        step()
        seconds = min(_seconds_of(step, device) for _ in range(3))
        if pairs == batch_size or seconds > STEP_LONG_ENOUGH:
            return pairs, seconds
        pairs = min(2 * pairs, batch_size)


def _time_images(config: VisionConfig, device: torch.device) -> tuple[int, float, float]:
    """Pairs timed, seconds of their step, and seconds of an evaluation."""
    shape = shape_of(config)
    with TemporaryDirectory() as folder:
        some = random_images(shape, config.batch_size).images
        form = step_form(config, some, device, Path(folder))

    def make(pairs: int) -> TrainingStep:
        chosen = config.model_copy(update={"batch_size": pairs, "precision": form.precision})
        images = random_images(shape, pairs).images
        return TrainingStep(chosen, images, device, form.apply(execution(config)))

    pairs, seconds = _time_step(make, config.batch_size, device)
    return pairs, seconds, _time_evaluation(config, shape, device)


def _time_evaluation(config: VisionConfig, shape: Shape, device: torch.device) -> float:
    """Seconds of features, probes and neighbours, each timed in part and scaled."""
    some = random_images(shape, 64)
    model = build_model(config, some).to(device)
    extract_features(model.encoder, some.images)
    each = _seconds_of(lambda: extract_features(model.encoder, some.images), device) / len(some)
    features = each * (shape.labelled + shape.test)

    bank = int(0.8 * shape.labelled)
    width = cast(int, model.encoder.feature_dim)
    rows = min(bank, 2_048)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, width, generator=generator).to(device)
    y = torch.arange(rows, device=device) % shape.classes
    queries = {"test": (x[:64], y[:64])}
    probe = partial(linear_probe, x, y, queries, seeds=config.probe_seeds, epochs=1)
    probe()
    probes = _seconds_of(probe, device) * config.probe_epochs * bank / rows

    held = min(bank, 20_000)
    h = torch.randn(max(held, max(RECALL_KS)), width, generator=generator).to(device)
    true = torch.arange(len(h), device=device) % shape.classes
    asked = h[:256] + 0.1
    once = _seconds_of(lambda: knn_evaluate(h, true, asked, true[: len(asked)]), device)
    searched = shape.labelled - bank + shape.test
    neighbours = once * (bank / len(h)) * (searched / len(asked)) * len(config.split_seeds)
    return features + probes + neighbours


def random_images(shape: Shape, count: int) -> ImageSet:
    """Images of a data set's size and no meaning."""
    generator = torch.Generator().manual_seed(0)
    size = (count, shape.channels, shape.side, shape.side)
    images = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    names = tuple(str(i) for i in range(shape.classes))
    return ImageSet("random", images, torch.arange(count) % shape.classes, names)


def _time_text(config: TextConfig, device: torch.device) -> tuple[int, float, float]:
    """Pairs timed, seconds of their step, and seconds of all evaluations of a run."""
    from ..text.steps import ChunkPlan, SimCSEStep
    from ..training.steps import GuardedOptimizer

    steps = steps_of(config)
    model = random_text_model(config).to(device).train()
    adam = torch.optim.AdamW(model.parameters(), 1e-6, fused=True)
    optimizer = GuardedOptimizer(adam, device)

    def tokens(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        words = 200 if config.encoder == "tiny" else VOCABULARY
        size = (count, min(LENGTH, config.max_length))
        ids = torch.randint(0, words, size, generator=generator)
        return ids, torch.ones_like(ids)

    def make(pairs: int) -> Callable[[], object]:
        step = SimCSEStep(
            model,
            config.build_loss(),
            optimizer,
            ChunkPlan(pairs, pairs),
            seed=0,
            precision=config.precision,
        )
        return partial(step, [tokens(pairs)], 0)

    pairs, seconds = _time_step(make, config.batch_size, device)
    model.eval()
    held = [part.to(device) for part in tokens(64)]
    with torch.no_grad():
        model.encoder(*held)
        each = _seconds_of(partial(model.encoder, *held), device) / 64
    # Start, last and best are looked at on both parts, dev while training too.
    looks = 3 + steps / config.evaluate_every / 2
    return pairs, seconds, looks * STSB_SENTENCES * each


def random_text_model(config: TextConfig) -> SimCSE:
    """A model of the run's size; BERT-base's is known, others are read from their folder."""
    from ..text.encoders import StaticEncoder, TinyTransformer, TransformerEncoder, load_transformer
    from ..text.simcse import SimCSE
    from ..text.weights import PACKAGED, model_folder

    encoder: nn.Module
    if config.encoder == "static":
        width = 384 if config.model in PACKAGED else 768
        encoder = StaticEncoder(torch.randn(VOCABULARY, width), config.token_dropout)
    elif config.encoder == "tiny":
        encoder = TinyTransformer(200, max_length=config.max_length)
    elif config.model == "bert-base-uncased":
        from transformers import BertConfig, BertModel

        encoder = TransformerEncoder(BertModel(BertConfig()), config.pooling)
    else:
        encoder = load_transformer(model_folder(config.model), pooling=config.pooling)
    return SimCSE(encoder, config.head)
