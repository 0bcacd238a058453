"""The studies on CIFAR-10 (JPEG): fresh seeds, grids of equal size, and who chooses."""

import itertools

import pandas as pd
import pytest

from weince_lib import paths
from weince_lib.studies import grid_cifar, sweep
from weince_lib.studies.grid_cifar import CHOOSES, DECISION, LONG, SCREENING, chosen


def table(best):
    """A screening in which validation likes the temperature given for each loss best."""
    rows = [
        {
            "setting": setting.label,
            "seed": seed,
            "metric": CHOOSES,
            "split": split,
            "value": 50.0
            + 0.1 * seed
            # The test set likes the paper's temperature and must not matter.
            + (
                setting.temperature == best[loss]
                if split == "validation"
                else 5 * (setting.temperature == 0.5)
            ),
        }
        for loss, settings in (("infonce", grid_cifar.INFONCE), ("weince", grid_cifar.WEINCE))
        for setting in settings.values()
        for seed in SCREENING.seeds
        for split in ("validation", "test")
    ]
    return pd.DataFrame(rows)


def test_validation_chooses_each_losss_temperature():
    best = {"infonce": 0.07, "weince": 0.2}
    assert chosen(table(best)) == best


def test_a_screening_with_a_missing_run_chooses_nothing():
    frame = table({"infonce": 0.1, "weince": 0.1})
    label = grid_cifar.WEINCE["weince-0.07"].label
    with pytest.raises(ValueError, match=r"2 of 3 seeds of paper tau=0\.07"):
        chosen(frame[(frame["setting"] != label) | (frame["seed"] != 21)])


def test_both_losses_have_grids_of_equal_size_and_seeds_are_fresh():
    taus = [
        {s.temperature for s in SCREENING.methods[f"{loss}-tuned"]}
        for loss in ("infonce", "weince")
    ]
    assert taus[0] == taus[1] == set(grid_cifar.TEMPERATURES)
    seeds = [set(s.seeds) for s in (SCREENING, DECISION, LONG)]
    assert not any(a & b for a, b in itertools.combinations(seeds, 2))
    assert len(DECISION.seeds) >= 8
    assert DECISION.methods["infonce-0.5"][0] == SCREENING.methods["infonce-0.5"][0]


def test_what_was_chosen_is_what_the_committed_screening_chooses():
    path = paths.root() / "paper" / "results" / "studies" / grid_cifar.CHOSEN_FILE
    if not path.exists():
        assert DECISION.methods["infonce-tuned"] == ()
        return
    found = chosen(sweep.load_study(SCREENING.name))
    for loss, tau in found.items():
        assert DECISION.methods[f"{loss}-tuned"][0].temperature == tau
