"""What benchmarks share: medians of calls in turn, the clock, and peak memory."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

Clock = Callable[[], float]


def parser_of(doc: str) -> argparse.ArgumentParser:
    """A parser that says the first line of a benchmark's docstring and knows ``--cpu-time``."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread")
    return parser


def clock_of(options: argparse.Namespace) -> Clock:
    """The wall's clock, or with ``--cpu-time`` one thread's, which a busy machine disturbs less."""
    if not options.cpu_time:
        return time.perf_counter
    torch.set_num_threads(1)
    return time.process_time


def in_turn(
    contestants: dict[str, Callable[[], object]],
    clock: Clock = time.perf_counter,
    *,
    rounds: int = 3,
    seconds: float = 0.0,
    warm_up: int = 1,
) -> dict[str, float]:
    """Median seconds of each call, taken in turn, so that a busy machine slows all alike.

    Args:
        contestants: the calls, by name.
        clock: as :func:`clock_of` gives it.
        rounds: least number of rounds that count.
        seconds: wall time that is filled with further rounds.
        warm_up: rounds before those that count.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    done = -warm_up
    end = time.perf_counter() + seconds
    while done < rounds or time.perf_counter() < end:
        for name, run in contestants.items():
            start = clock()
            run()
            if done >= 0:
                times[name].append(clock() - start)
        done += 1
    return {name: statistics.median(values) for name, values in times.items()}


def megabytes_used() -> float:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage counts what the parent held when it forked
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
