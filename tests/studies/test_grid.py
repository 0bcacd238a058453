"""The studies: the paper's counts, no run twice, fresh seeds, labels that tell settings apart."""

import itertools

import pandas as pd
import pytest

from weince_lib.experiments import SEEDS, ConfigError, is_own, vision_config
from weince_lib.studies import grid, grid_cifar
from weince_lib.studies.collect import load_study
from weince_lib.studies.grid import STUDIES, Setting, Study, study
from weince_lib.studies.grid_cifar import CHOOSES, DECISION, LONG, SCREENING, chosen


def test_the_papers_study_has_its_numbers_of_runs():
    runs = study("paper-cifar10-resnet18").runs()
    by_loss = [run.config.loss for run in runs]
    assert (by_loss.count("infonce"), by_loss.count("weince")) == (4, 108)
    assert len({run.key for run in runs}) == 112
    assert {run.seed for run in runs} == {7, 21, 63, 84}
    tails = {run.config.tail for run in runs if run.config.tail}
    found = {(t.cap_sharpness, t.evidence_sharpness, t.evidence_margin) for t in tails}
    # Section 5: kappa_rho in {5, 10, 20}, kappa_AIC in {0.5, 1, 2}, m in {0, 2, 6}.
    assert found == {(r, a, m) for r in (5, 10, 20) for a in (0.5, 1, 2) for m in (0, 2, 6)}
    # The default comes first: it wins ties.
    assert grid.PAPER_GRID[0].label == "paper tau=0.5 kappa_rho=10 kappa_aic=1 m=2"
    for run in runs:
        c = run.config
        assert (c.dataset, c.encoder, c.batch_size, c.epochs) == ("cifar10", "resnet18", 256, 100)
        assert (c.temperature, c.learning_rate, c.weight_decay) == (0.5, 3e-4, 1e-6)


def test_labels_do_not_depend_on_how_a_setting_is_written():
    assert Setting("weince", kappa_rho=10, margin=2.0).label == Setting("weince").label
    assert Setting("infonce", kappa_rho=5).label == Setting("infonce").label == "tau=0.5"
    calibrated = Setting("weince", preset="calibrated")
    assert calibrated.label == "calibrated tau=0.5 kappa_rho=10 kappa_aic=4 m=3.5"
    assert calibrated.config("quick", 7, {}) == vision_config("quick", preset="calibrated", seed=7)


def test_shared_settings_run_once_and_a_run_is_found_by_its_key():
    small = Study(
        "small",
        "?",
        "quick",
        {"a": (Setting("infonce"),), "b": (Setting("infonce", 0.2), Setting("infonce", 0.5))},
        (("a", "b"),),
        seeds=(1, 2),
    )
    runs = small.runs()
    assert [(run.setting, run.seed) for run in runs] == [
        ("tau=0.5", 1),
        ("tau=0.2", 1),
        ("tau=0.5", 2),
        ("tau=0.2", 2),
    ]
    assert small.run(runs[2].key) == runs[2]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: study("cpu-fashon"), ["'cpu-fashon'", "cpu-fashion"]),
        (lambda: study("quick-digits").run("0" * 16), ["quick-digits", "0" * 16]),
        (lambda: Study("x", "?", "quick", {}, (("a", "b"),)), ["x", "'a'"]),
        (lambda: Setting("weince", preset="papr").config("quick", 7, {}), ["papr"]),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError) as error:
        call()
    assert all(word in str(error.value) for word in words)
    assert isinstance(error.value, ConfigError) or "papr" in words


def test_plain_settings_are_the_profiles_runs():
    """So that claims find them in the profile's table."""
    for name, plain in (
        ("quick-digits", ("infonce", "weince")),
        ("cpu-fashion", ("infonce", "weince", "weince-release", "weince-calibrated")),
    ):
        chosen = study(name)
        own = {run.setting for run in chosen.runs() if is_own(run.config, chosen.profile)}
        assert own == {s.label for method in plain for s in chosen.methods[method]}


@pytest.mark.parametrize(
    "name",
    [
        "cpu-fashion",
        "cpu-gain-fashion",
        "cpu-gain-pairs",
        "cpu-cifar",
        "cpu-cifar-decide",
        "cpu-cifar-long",
        "cpu-static",
        "cpu-beyond-static",
        "cpu-beyond-fashion",
        "cpu-beyond-pairs",
    ],
)
def test_committed_numbers_are_of_the_studys_runs(name, monkeypatch):
    monkeypatch.delenv("WEINCE_RESULTS")
    chosen, frame = study(name), load_study(name)
    rows = frame[frame["experiment"] == chosen.experiment]
    runs = {run.key: (run.setting, run.seed) for run in chosen.runs()}
    found = {key: own for key, *own in rows[["key", "setting", "seed"]].itertuples(index=False)}
    assert found.keys() == runs.keys()
    assert all(tuple(own) == runs[key] for key, own in found.items())


# Where a gain comes from ----------------------------------------------------------------------

GAIN = study("cpu-gain-fashion")


def test_each_loss_has_what_the_comparison_needs():
    assert {r.key for r in study("cpu-fashion").runs()} <= {r.key for r in GAIN.runs()}
    for name in ("gain-cifar100", "gain-stl10", "cpu-cifar"):
        # Whichever temperature InfoNCE chooses, the blend is there at it.
        methods = STUDIES[name].methods
        at = [{s.temperature for s in methods[f"{m}-tuned"]} for m in ("infonce", "weince")]
        assert at[0] == at[1]
    # The sharper softmax only carries the line further; validation does not choose it.
    for name in ("cpu-gain-fashion", "cpu-gain-pairs", "gain-cifar100"):
        methods = STUDIES[name].methods
        assert methods["infonce-0.05"][0] not in methods["infonce-tuned"]
    seeds = [set(s.seeds) for s in (SCREENING, DECISION, LONG)]
    assert not any(a & b for a, b in itertools.combinations(seeds, 2))


def test_no_two_settings_of_a_study_are_one_run():
    """Labels name settings; two labels for one objective would train it twice."""
    configs = [r.config.model_copy(update={"seed": 0}) for r in GAIN.runs() if r.seed == SEEDS[0]]
    assert len({str(c.build_loss()) for c in configs}) == len(configs) == 29


def test_a_label_names_every_part_of_an_objective():
    labels = {m: s[0].label for m, s in GAIN.methods.items() if len(s) == 1}
    assert labels["released"] == (
        "blend beta=unit gate=paper + 0.5 softmax top-50 + 0.5 weibit top-50 tau=0.5"
    )
    assert labels["weince-shuffled"].endswith("lambda=shuffled tau=0.5")
    assert labels["line-likelihood"] == "blend beta=line gate=likelihood tau=0.5"
    assert labels["weibit-2"] == "weibit beta=2 tau=0.5"


# CIFAR-10 (JPEG) -------------------------------------------------------------------------------


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


def test_what_was_chosen_is_what_the_committed_screening_chooses(monkeypatch):
    monkeypatch.delenv("WEINCE_RESULTS")
    for loss, tau in chosen(load_study(SCREENING.name)).items():
        assert DECISION.methods[f"{loss}-tuned"][0].temperature == tau
