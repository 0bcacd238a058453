"""The study for one GPU: ResNet-18 on CIFAR-10 with InfoNCE and with WEINCE, in one command.

    python -m weince_lib.experiments.gpu_study cifar10-imagefolder.tar.gz

The archive (or a folder of the same layout, ``train/CLASS/*.jpg`` and ``test/CLASS/*.jpg``) is
unpacked once, under ``data/``. For each loss the command trains ResNet-18 with the 3x3 stem for 100
epochs of 195 steps (batch 256, bfloat16), evaluates frozen features (linear probe and kNN) and
writes the run's record; before that it times training steps of both losses in turn and the loss
alone, and writes these as a record of their own. Everything finished is kept: the same command
again does nothing, ``--seed 21`` adds a seed, and a run that was stopped, by Ctrl-C, ``kill`` or
``--minutes``, continues within its epoch. Only an archive makes records of the study itself; those
of a folder, whose content and place are the user's own, say ``custom`` and are in no table. Other
losses and sizes are options. On several devices of one machine:
``torchrun --nproc-per-node=4 -m weince_lib.studies.gpu_study ...``.

**Expected time on one H200: 7 to 9 minutes for both losses (estimated, not measured).** The
estimate: a 3x32x32 image costs ResNet-18 with this stem 0.56 billion multiply-adds, so a step of
2 x 256 views, forward and backward, is 2 x 3 x 512 x 0.56e9 = 1.7e12 operations, 5 ms at a third of
the card's 990 TFLOP/s; normalisation and activations move about 25 MB an image, 13 GB a step, 3 ms
at 4.2 TB/s. With 1 ms for augmentation and 1 ms for loss and optimiser that is 10 ms a step,
2 x 19,500 steps = 6.5 minutes. Reading 60,000 small JPEGs takes 15 s, both evaluations about a
minute on 16 cores. The command prints the measured step time and what it makes of the whole before
training starts.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from .. import files, paths
from ..errors import SHOWN, one_line
from ..records import store
from ..records.store import Metric, Record
from ..runs.config import AUTO, ConfigError, VisionConfig, is_own, profile_stamp, vision_config
from ..runs.timing import StepTimes, TrainingStep, copies_to_device, time_steps
from ..runs.vision import load_images, run_vision, training_images
from ..training import join_processes
from ..training.stopping import sigterm_interrupts
from ..vision import Execution, ImageSet

EXPERIMENT = "gpu-study"
PROFILE = "gpu"
#: The path that records name. The archive is unpacked to this folder of the data folder, which
#: need not be the root's ``data/``.
FOLDER = "data/cifar10-jpeg"
LOSSES = ("infonce", "weince")
DATA_HELP = (
    "cifar10-imagefolder.tar.gz, or a folder with train/ and test/, whose records are filed as "
    "custom and are in no table"
)


def unpack(source: Path) -> str:
    """The data set's name for a config, unpacked if it is an archive.

    Args:
        source: a tar archive of ``train/`` and ``test/``, or a folder that holds them.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ConfigError: for a file that is no tar archive, or one without the two folders; for another
            archive than the one that lies there unpacked.
    """
    if source.is_dir():
        return f"imagefolder:{source.absolute()}"
    target = paths.data() / Path(FOLDER).name
    note = target.with_name(f"{target.name}.sha256")
    if target.exists():
        if not (source.is_file() and note.is_file()):
            return f"imagefolder:{FOLDER}"  # nothing to compare
        held, digest = note.read_text(encoding="utf-8").strip(), _sha256(source)
        if held != digest:
            raise ConfigError(
                f"{target} was unpacked from another archive than {source} (sha256 {held[:12]}, "
                f"not {digest[:12]}); move it away to unpack this one"
            )
    else:
        digest = _sha256(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Aside first: a half unpacked folder would be taken for a smaller data set.
        with TemporaryDirectory(dir=target.parent) as folder:
            aside = Path(folder) / "whole"
            try:
                files.unpack_tar(source, aside)
            except Exception as error:  # each compression has errors of its own
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk's, which names the file
                raise ConfigError(
                    f"{source}: not a whole tar archive ({one_line(error)}); get it again"
                ) from error
            for split in ("train", "test"):
                if not (aside / split).is_dir():
                    raise ConfigError(f"{source}: holds no folder {split}/ at its top")
            files.write_text(note, f"{digest}\n")
            aside.rename(target)
    return f"imagefolder:{FOLDER}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def study_configs(options: argparse.Namespace, dataset: str) -> dict[str, VisionConfig]:
    """The runs to make, by the name of their loss."""
    common: dict[str, Any] = {
        "dataset": dataset,
        "train_limit": options.limit,
        "encoder": options.encoder,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
        "probe_epochs": options.probe_epochs,
        "precision": options.precision,
    }
    if options.encoder == "resnet-small":
        common["width"] = 16
    made = (
        vision_config(PROFILE, loss=loss, preset=preset, seed=options.seed, **common)
        for loss in options.losses
        for preset in (options.presets if loss != "infonce" else ["paper"])
    )
    return {config.label: config for config in made}


def timing_record(
    configs: dict[str, VisionConfig],
    images: ImageSet,
    device: torch.device,
    *,
    steps: int,
    execution: Execution,
) -> Record:
    """Measure steps, loss stage, peak memory and copies to the device, and record them.

    Metrics are in milliseconds, percent and MiB; their names end with the loss's. A record that is
    there already is measured anew: its numbers depend on the machine.
    """
    started = time.time()
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    times = time_steps(configs, images.images, device, steps=steps, execution=execution)
    metrics = step_metrics(times)
    if cuda:
        for name, config in configs.items():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
            step = TrainingStep(config, images.images, device, execution)
            for _ in range(3):
                step()
            peak = torch.cuda.max_memory_allocated(device) / 2**20
            metrics.append(Metric(f"peak_memory_{name}", peak))
            metrics.append(Metric(f"copies_to_device_{name}", copies_to_device(step)))
    some = next(iter(configs.values()))
    shared = {n: getattr(some, n) for n in ("dataset", "encoder", "seed")}
    whole = cuda and all(is_own(config, PROFILE) for config in configs.values())
    return store.save(
        EXPERIMENT,
        {"device": torch.cuda.get_device_name(device) if cuda else "cpu", "steps": steps}
        | {"compile": execution.compile, "configs": [c.canonical() for c in configs.values()]},
        metrics,
        labels={"profile": profile_stamp(PROFILE) if whole else "custom"} | shared,
        started=started,
    )


def step_metrics(times: dict[str, StepTimes]) -> list[Metric]:
    """Step and loss stage of each loss, and by how much they exceed InfoNCE's, as metrics."""
    metrics = []
    for name, taken in times.items():
        metrics.append(Metric(f"step_ms_{name}", 1e3 * taken.step))
        metrics.append(Metric(f"loss_stage_ms_{name}", 1e3 * taken.stage))
        if name != "infonce" and "infonce" in times:
            excess = taken.step / times["infonce"].step - 1.0
            metrics.append(Metric(f"step_overhead_percent_{name}", 100.0 * excess))
    return metrics


def run_study(options: argparse.Namespace, report: Any = print) -> list[Record]:
    """Time, train, evaluate; returns the records.

    Args:
        options: see :func:`parser`.
        report: takes each line of progress.

    Raises:
        KeyboardInterrupt: at Ctrl-C, SIGTERM or after ``--minutes`` (within training its subclass
            ``TrainingInterrupted``); what is done is kept.
    """
    execution = Execution(compile=options.compile)
    with join_processes(options.device) as (world, device), _time_limit(options.minutes):
        if world.first:
            unpack(options.data)
        world.wait()
        configs = study_configs(options, unpack(options.data))
        some = next(iter(configs.values()))
        sets: tuple[ImageSet, ImageSet] = training_images(some), load_images(some, "test")
        say = report if world.first else _silent
        say(f"{sets[0]}, {sets[1]}, device {device}, {world.size} process(es)")
        records = []
        if world.first:
            records.append(
                timing_record(configs, sets[0], device, steps=options.steps, execution=execution)
            )
            for metric in records[0].metrics:
                say(f"  {metric.name:32s}{metric.value:10.2f}")
            steps = some.epochs * (len(sets[0]) // some.batch_size)
            whole = sum(m.value for m in records[0].metrics if m.name.startswith("step_ms_"))
            say(f"training will take about {1e-3 * whole * steps / 60:.1f} minutes")
        world.wait()
        for name, config in configs.items():
            started = time.monotonic()
            record = run_vision(
                config, profile=PROFILE, device=device, execution=execution, sets=sets
            )
            records.append(record)
            found = ", ".join(
                f"{metric} {record.metric(metric, 'test'):.2f} %"
                for metric in ("linear_accuracy", "knn_accuracy", "recall_at_1")
            )
            minutes = (time.monotonic() - started) / 60
            say(f"{name}, seed {config.seed}: {found} ({minutes:.1f} minutes) {record.path}")
        return records


def _silent(line: str) -> None:
    pass


@contextmanager
def _time_limit(minutes: float) -> Iterator[None]:
    """Ask for a clean stop after so many minutes, as a scheduler would; 0 sets no limit."""
    with sigterm_interrupts():
        if minutes <= 0:
            yield
            return
        timer = threading.Timer(60 * minutes, _ask_to_stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _ask_to_stop() -> None:
    # Not SIGINT, which is ignored where a script started the study in the background.
    os.kill(os.getpid(), signal.SIGTERM)


def parser() -> argparse.ArgumentParser:
    """The command line; the defaults are the study."""
    made = argparse.ArgumentParser(
        prog="python -m weince_lib.experiments.gpu_study",
        description="Train and compare InfoNCE and WEINCE on CIFAR-10 (JPEG) on one GPU.",
    )
    add = made.add_argument
    add("data", type=Path, help=DATA_HELP)
    add("--seed", type=int, default=7, help="encoder seed; 7, 21, 63 and 84 are the paper's")
    add("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    add("--presets", nargs="+", default=["paper"], help="of WEINCE: paper, release, calibrated")
    add("--epochs", type=int, default=100)
    add("--limit", type=int, default=0, help="train on the first so many images; 0: all")
    add("--encoder", default="resnet18", help="resnet-small trains on a CPU")
    add("--batch-size", type=int, default=256)
    add("--precision", default="bfloat16", help="bfloat16 or float32")
    add("--probe-epochs", default=AUTO, type=lambda x: x if x == AUTO else int(x))
    add("--steps", type=int, default=100, help="timed steps of each loss")
    add("--compile", action="store_true", help="torch.compile; slower start, faster steps")
    add("--minutes", type=float, default=0.0, help="stop cleanly after so long; 0: never")
    add("--device", default=None, help="cuda where there is one, else cpu")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 when all is done, 1 for an error, 75 (try again) after a stop."""
    options = parser().parse_args(arguments)
    try:
        run_study(options)
    except KeyboardInterrupt as stopped:  # within training (TrainingInterrupted) or outside it
        print(str(stopped) or "stopped; run again to continue", file=sys.stderr)
        return 75
    except SHOWN as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
