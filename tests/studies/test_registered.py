"""Studies that were fixed before their first run cannot change unnoticed."""

import dataclasses

import pytest

from weince_lib.experiments import ConfigError
from weince_lib.studies import grid, registered, sweep
from weince_lib.studies.grid import STUDIES, Setting, study


@pytest.mark.parametrize("name", sorted(registered.registered()))
def test_every_registered_study_is_what_was_fixed(name):
    registered.check(study(name))


def test_the_studies_on_cifar_are_registered():
    names = {name for name in STUDIES if name.startswith("cpu-cifar")}
    assert names and names <= registered.registered().keys()


@pytest.fixture
def fixed(monkeypatch, tmp_path):
    """A study registered in a file of its own."""
    monkeypatch.setattr(registered, "path", lambda: tmp_path / "registered.toml")
    made = grid.Study(
        "fixed", "Which?", "quick", {"infonce": (grid.INFONCE,), "weince": (grid.WEINCE,)}, ()
    )
    monkeypatch.setitem(grid.STUDIES, "fixed", made)
    registered.register(made)
    return made


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Which, really?"},
        {"seeds": (1, 2)},
        {"settings": {"epochs": 3}},
        {"compare": (("weince", "infonce"),)},
        {"methods": {"infonce": (grid.INFONCE,)}},
    ],
)
def test_a_changed_study_is_refused_before_any_run(fixed, monkeypatch, change):
    edited = dataclasses.replace(fixed, **change)
    monkeypatch.setitem(grid.STUDIES, "fixed", edited)
    with pytest.raises(ConfigError, match=registered.digest(fixed)) as refused:
        sweep.run_one("fixed", edited.runs()[0].key)
    assert registered.digest(edited) in str(refused.value)


def test_a_method_that_is_labelled_as_added_passes(fixed):
    more = fixed.methods | {"later": (Setting("infonce", temperature=0.2),)}
    registered.check(dataclasses.replace(fixed, methods=more, added=("later",)))
    with pytest.raises(ConfigError):
        registered.check(dataclasses.replace(fixed, methods=more))


def test_a_study_is_registered_once(fixed):
    with pytest.raises(ConfigError, match="fixed on"):
        registered.register(fixed)


def test_a_method_chosen_by_a_rule_is_fixed_by_the_rule_and_not_by_its_outcome(fixed):
    before = dataclasses.replace(
        fixed, methods=fixed.methods | {"tuned": ()}, by_rule={"tuned": "by validation"}
    )
    after = dataclasses.replace(before, methods=before.methods | {"tuned": (grid.INFONCE,)})
    assert registered.digest(before) == registered.digest(after) != registered.digest(fixed)
