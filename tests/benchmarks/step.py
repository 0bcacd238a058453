"""The training step of the study on CIFAR-10 (JPEG), in every form, and where its time goes.

    python -m tests.benchmarks.step [--steps 10] [--compile] [--width 32]

Steps of all forms are taken in turn, so that a busy machine slows all alike. Medians of processor
time on one thread are printed, with their ratio to the plain form (float32, torch's default memory
format). ``--compile`` adds the forms through ``torch.compile``, which needs a C++ compiler. Then
come the parts of the fastest form: augmentation, and the operations of the step.
"""

from __future__ import annotations

import argparse
import time

import torch

from tests.benchmarks.timing import in_turn
from weince_lib.runs.fastest import TrainingStep
from weince_lib.studies import grid_cifar
from weince_lib.vision import Execution

CPU = torch.device("cpu")


def main() -> None:
    """Print the table of forms, and the parts of the fastest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--width", type=int, default=grid_cifar.RECIPE["width"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = grid_cifar.SCREENING.runs()[0].config.model_copy(update={"width": options.width})
    images = torch.randint(0, 256, (run.batch_size, 3, 32, 32), dtype=torch.uint8)
    steps = {}
    for compiled in (False, True)[: 1 + options.compile]:
        for precision in ("float32", "bfloat16"):
            for last in (False, True):
                name = f"{precision}{', channels_last' * last}{', compiled' * compiled}"
                config = run.model_copy(update={"precision": precision})
                execution = Execution(channels_last=last, compile=compiled)
                steps[name] = TrainingStep(config, images, CPU, execution)
    # The first steps allocate memory, and compile.
    medians = in_turn(steps, time.process_time, rounds=options.steps, warm_up=2)
    plain = medians["float32"]
    print(f"batch {run.batch_size}, width {options.width}, 3x32x32, one thread:")
    for name, seconds in medians.items():
        print(f"  {name:36s}{1e3 * seconds:8.1f} ms{plain / seconds:8.2f} times as fast as float32")
    parts(steps[min(medians, key=lambda name: medians[name])])


def parts(step: TrainingStep) -> None:
    """Print what the operations of one form take, the largest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()
    events = sorted(profile.key_averages(), key=lambda e: -e.self_cpu_time_total)
    whole = sum(event.self_cpu_time_total for event in events)
    start = time.process_time()
    step.augment(step.images, step.generator)
    print(f"of the fastest: two views {1e3 * (time.process_time() - start):.1f} ms; operations:")
    for event in events[:10]:
        print(f"  {event.key:44s}{100 * event.self_cpu_time_total / whole:6.1f} %")


if __name__ == "__main__":
    main()
