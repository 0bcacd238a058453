"""The studies on CIFAR-10 (JPEG): screening on validation, then a decision on fresh seeds.

Fixed before the first run (``paper/registered.toml`` holds their hashes):

- *Question.* Does WEINCE's blend improve on InfoNCE, at one temperature and with each loss at its
  best one? If there is a gain, which part of the objective makes it?
- *Recipe.* The small ResNet of width 32 on 20,000 images. It was chosen with InfoNCE at tau = 0.1
  and seed 1, which no study uses: the shortest schedule tried whose linear probe and R@1 lie ten
  points or more above raw pixels and above an untrained encoder.
- *Screening* (``cpu-cifar``), three seeds: both losses on the same five temperatures, and the
  objectives that stand beside them. Validation alone chooses, see :func:`chosen`.
- *Decision* (``cpu-cifar-decide``), eight seeds that screening has not seen: the six settings that
  the five primary contrasts need. The contrasts are ``compare`` of that study; how they are judged
  stands in :mod:`.decide`.
- *Length* (``cpu-cifar-long``), four further seeds: the three decisive settings with four times the
  steps.
- *Precision* (``cpu-cifar-precision``): three settings of the screening in float32 on the same
  seeds. Screening itself trains in the form that is fastest on the machine, see :mod:`.fastest`.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pandas as pd

from .. import paths
from ..runs.config import ConfigError
from ..vision.datasets import cifar10_jpeg
from .grid_gain import ANCHORS, EXTRAS, PARTS, STEEPNESS, TITLES
from .study_types import Setting, Study, at_temperatures, single

#: Grid of both losses in the screening. Both ends lie beyond the best temperature of trial runs.
TEMPERATURES = (0.05, 0.07, 0.1, 0.2, 0.5)
#: What all runs have in common; the profile ``cpu`` gives the rest.
RECIPE: dict[str, Any] = {
    "dataset": cifar10_jpeg.NAME,
    "train_limit": 20_000,
    "width": 32,
    "epochs": 15,
    "batch_size": 256,
    "learning_rate": 1e-3,
    "precision": "fastest",
}
SCREENING_SEEDS = (7, 21, 63)
DECISION_SEEDS = (101, 102, 103, 104, 105, 106, 107, 108)
LONG_SEEDS = (201, 202, 203, 204)
#: The measure whose validation value chooses each loss's temperature: the converged probe.
CHOOSES = "standardised_linear_accuracy"

INFONCE = at_temperatures("infonce", TEMPERATURES)
WEINCE = at_temperatures("weince", TEMPERATURES)
BESIDE = {
    "weince-calibrated": PARTS["weince-calibrated"],
    "released": EXTRAS["released"],
    "infonce+both": EXTRAS["infonce+both"],
    "weince-shuffled": ANCHORS["weince-shuffled"],
}


SCREENING = Study(
    name="cpu-cifar",
    question=(
        "Screening on CIFAR-10 (JPEG): which temperature does each loss want, and which objectives "
        "stand out on validation? Three seeds; it decides nothing by itself."
    ),
    profile="cpu",
    titles=TITLES,
    settings=RECIPE,
    seeds=SCREENING_SEEDS,
    methods={
        **single(INFONCE, WEINCE, STEEPNESS, BESIDE),
        "infonce-tuned": tuple(INFONCE.values()),
        "weince-tuned": tuple(WEINCE.values()),
        # The paper's protocol: WEINCE has three steepnesses to choose from, InfoNCE none.
        "weince-steepness": (WEINCE["weince-0.5"], *STEEPNESS.values()),
    },
    compare=(
        ("infonce-tuned", "infonce-0.5"),
        ("weince-0.5", "infonce-0.5"),
        ("weince-tuned", "infonce-tuned"),
        ("weince-steepness", "infonce-0.5"),
        ("weince-calibrated", "infonce-0.5"),
        ("released", "infonce+both"),
        ("infonce+both", "infonce-0.5"),
        ("weince-0.5", "weince-shuffled"),
    ),
)


def chosen(frame: pd.DataFrame) -> dict[str, float]:
    """The temperature that screening's validation chooses for each loss.

    The mean over the three seeds of the converged probe's validation accuracy decides; on a tie
    the lower temperature wins.

    Args:
        frame: rows of the screening, see :func:`.collect.load_study`.

    Returns:
        ``{"infonce": tau, "weince": tau}``.

    Raises:
        ConfigError: if a run of either grid is missing.
    """
    rows = frame[(frame["metric"] == CHOOSES) & (frame["split"] == "validation")]
    found: dict[str, float] = {}
    for loss, settings in (("infonce", INFONCE), ("weince", WEINCE)):
        means: dict[float, float] = {}
        for setting in settings.values():
            own = rows[rows["setting"] == setting.label].groupby("seed")["value"].mean()
            if set(own.index) != set(SCREENING_SEEDS):
                raise ConfigError(
                    f"screening has {len(own)} of {len(SCREENING_SEEDS)} seeds of {setting.label} "
                    f"({loss}); run study {SCREENING.name} to its end first"
                )
            means[setting.temperature] = float(own.mean())
        found[loss] = max(means, key=lambda tau: (means[tau], -tau))
    return found


#: File that holds what :func:`chosen` found; ``weince study choose`` writes it.
CHOSEN_FILE = "cpu-cifar.chosen.toml"


def _tuned(loss: str) -> tuple[Setting, ...]:
    """The loss at its chosen temperature; nothing as long as screening has not chosen."""
    try:
        path = paths.root() / "paper" / "results" / "studies" / CHOSEN_FILE
        taus = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    return (Setting(loss, temperature=float(taus[loss])),)


#: The methods of the decision that screening's validation chooses.
BY_VALIDATION = ("infonce-tuned", "weince-tuned")
DECISION = Study(
    name="cpu-cifar-decide",
    question=(
        "On CIFAR-10 (JPEG), with eight fresh seeds: does a lower temperature help InfoNCE; does "
        "the blend help at one temperature, and with each loss at its best one; do the further "
        "losses help; does it matter which anchor gets which lambda? It cannot speak of deep "
        "encoders or of other data sets."
    ),
    profile="cpu",
    data="CIFAR-10 (JPEG)",
    titles=TITLES,
    settings=RECIPE,
    seeds=DECISION_SEEDS,
    methods={
        "infonce-0.5": (INFONCE["infonce-0.5"],),
        "weince-0.5": (WEINCE["weince-0.5"],),
        "infonce+both": (BESIDE["infonce+both"],),
        "weince-shuffled": (BESIDE["weince-shuffled"],),
        "infonce-tuned": _tuned("infonce"),
        "weince-tuned": _tuned("weince"),
    },
    by_rule=dict.fromkeys(BY_VALIDATION, "chosen on validation by study cpu-cifar"),
    # The five primary contrasts.
    compare=(
        ("infonce-tuned", "infonce-0.5"),
        ("weince-0.5", "infonce-0.5"),
        ("weince-tuned", "infonce-tuned"),
        ("infonce+both", "infonce-0.5"),
        ("weince-0.5", "weince-shuffled"),
    ),
)

LONG = Study(
    name="cpu-cifar-long",
    question=(
        "Do the decision's answers on CIFAR-10 (JPEG) change when training is four times as long?"
    ),
    profile="cpu",
    data="CIFAR-10, longer",
    titles=TITLES,
    settings=RECIPE | {"epochs": 4 * RECIPE["epochs"]},
    seeds=LONG_SEEDS,
    methods={
        "infonce-0.5": (INFONCE["infonce-0.5"],),
        "infonce-tuned": _tuned("infonce"),
        "weince-tuned": _tuned("weince"),
    },
    by_rule=dict.fromkeys(BY_VALIDATION, "chosen on validation by study cpu-cifar"),
    compare=(("infonce-tuned", "infonce-0.5"), ("weince-tuned", "infonce-tuned")),
)

PRECISION = Study(
    name="cpu-cifar-precision",
    question=(
        "Do conclusions on CIFAR-10 (JPEG) depend on training in float32 or in the form that is "
        "fastest on the machine? The same settings and seeds stand in the study cpu-cifar."
    ),
    profile="cpu",
    settings=RECIPE | {"precision": "float32"},
    seeds=SCREENING_SEEDS,
    methods={
        "infonce-0.5": (INFONCE["infonce-0.5"],),
        "infonce-0.1": (INFONCE["infonce-0.1"],),
        "weince-0.5": (WEINCE["weince-0.5"],),
    },
    compare=(("infonce-0.1", "infonce-0.5"), ("weince-0.5", "infonce-0.5")),
)

STUDIES = (SCREENING, DECISION, LONG, PRECISION)
