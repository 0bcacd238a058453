"""The studies: the paper's counts, no run twice, and labels that tell settings apart."""

import pytest

from weince_lib.experiments import SEEDS, ConfigError, is_own, vision_config
from weince_lib.studies import grid
from weince_lib.studies.grid import STUDIES, Setting, Study, study


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
    for run in runs:
        c = run.config
        assert (c.dataset, c.encoder, c.batch_size, c.epochs) == ("cifar10", "resnet18", 256, 100)
        assert (c.temperature, c.learning_rate, c.weight_decay) == (0.5, 3e-4, 1e-6)


def test_the_papers_default_comes_first_and_wins_ties():
    assert grid.PAPER_GRID[0].label == grid.WEINCE.label
    assert grid.WEINCE.label == "paper tau=0.5 kappa_rho=10 kappa_aic=1 m=2"
    assert len({s.label for s in grid.PAPER_GRID}) == 27


def test_every_pair_of_the_paper_has_a_study():
    pairs = {(d, e) for d, encoders in grid.PAPER_ENCODERS.items() for e in encoders}
    named = {name for name in STUDIES if name.startswith("paper-") and name != "paper-simcse"}
    assert named == {f"paper-{d}-{e}" for d, e in pairs}
    assert all(name == s.name for name, s in STUDIES.items())


def test_the_study_for_two_cores_keeps_to_its_size():
    chosen = study("cpu-fashion")
    runs = chosen.runs()
    assert len(runs) == len({run.key for run in runs}) == 48 <= 50
    assert len(chosen.methods["weince-best"]) == 4  # of the paper preset
    taus = {s.temperature for s in chosen.methods["infonce-tuned"]}
    assert taus == {0.07, 0.1, 0.2, 0.3, 0.5, 1.0}
    assert {run.seed for run in runs} == set(SEEDS)
    assert chosen.cores == 1
    assert chosen.gpus == 0
    # The plain runs are the profile's own, so that claims find them in its table.
    own = {run.setting for run in runs if is_own(run.config, "cpu")}
    plain = ("infonce", "weince", "weince-release", "weince-calibrated")
    assert own == {s.label for name in plain for s in chosen.methods[name]}


def test_a_study_cut_short_has_whole_seeds():
    runs = study("cpu-fashion").runs()
    assert [run.seed for run in runs] == [seed for seed in SEEDS for _ in range(12)]


def test_plain_settings_are_the_profiles_runs():
    keys = {run.config for run in study("quick-digits").runs()}
    own = {vision_config("quick", loss=x, seed=s) for x in ("infonce", "weince") for s in SEEDS}
    assert keys == own


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
