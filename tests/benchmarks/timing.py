"""Medians of calls that are taken in turn, so that a busy machine slows all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def in_turn(
    contestants: dict[str, Callable[[], object]],
    clock: Callable[[], float] = time.perf_counter,
    *,
    rounds: int = 3,
    seconds: float = 0.0,
    warm_up: int = 1,
) -> dict[str, float]:
    """Median seconds of each call.

    Args:
        contestants: the calls, by name.
        clock: ``time.process_time`` counts processor time, which a busy machine disturbs less.
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
