"""What a tail fit costs: time against scipy's ``genpareto.fit`` in the same run.

    python -m tests.benchmarks.evt [--sizes 500 5000 50000] [--rounds 15] [--cpu-time]

Fits are taken in turn, round after round, so that a busy machine slows all of them alike; medians
and their ratios to scipy are printed. scipy's fit gives two numbers; ours scans the whole profile
for a second maximum and adds the interval. ``--cpu-time`` counts processor
time instead, which a busy machine disturbs less. The goal is 5,000 exceedances in under 5 ms.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from tests.benchmarks.timing import in_turn
from weince_lib.evt import fit_endpoint, fit_gpd, fit_known_endpoint

SHAPES = (-0.7, -0.39, 0.0, 0.3)
BASELINE = "scipy genpareto.fit(floc=0)"


def contestants(excesses: np.ndarray) -> dict[str, Callable[[], object]]:
    """Every fit of one sample, by name."""
    end = 1.001 * float(excesses.max())
    return {
        BASELINE: functools.partial(stats.genpareto.fit, excesses, floc=0),
        "fit_gpd, with interval": functools.partial(fit_gpd, excesses, threshold=0.0),
        "fit_endpoint, both intervals": functools.partial(fit_endpoint, excesses, threshold=0.0),
        "fit_known_endpoint": functools.partial(
            fit_known_endpoint, excesses, endpoint=end, threshold=0.0
        ),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 5000, 50_000])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu-time", action="store_true", help="processor time of this process")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    for size in arguments.sizes:
        for shape in SHAPES:
            e = np.random.default_rng(1).standard_exponential(size)
            excesses = np.expm1(shape * e) / shape if shape else e
            medians = in_turn(contestants(excesses), clock, rounds=arguments.rounds)
            print(f"\n{size} exceedances, shape {shape:g}{'time':>24s}{'ratio to scipy':>18s}")
            for name, median in medians.items():
                print(f"{name:34s}{median * 1e3:12.2f} ms{median / medians[BASELINE]:15.3f}")


if __name__ == "__main__":
    main()
