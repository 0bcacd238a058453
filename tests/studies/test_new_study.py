"""Another study is one entry: it is in the plan, is made, has its table and its findings."""

import dataclasses

import pytest
from click.testing import CliRunner
from sample_runs import TINY

from weince_lib.cli import main
from weince_lib.experiments import PROFILES
from weince_lib.publish import findings
from weince_lib.studies import grid, registered
from weince_lib.studies.collect import load_study
from weince_lib.studies.grid import STUDIES, Setting, Study
from weince_lib.studies.selection import method_table, study_frame
from weince_lib.studies.study_types import method_title


@pytest.fixture
def entry(monkeypatch):
    """The one entry, and a profile in which its runs take a second."""
    monkeypatch.setitem(PROFILES, "quick", TINY)
    made = Study(
        name="quick-blunt",
        question="Does a higher temperature help on digits?",
        profile="quick",
        methods={
            "infonce-0.5": (grid.INFONCE,),
            "infonce-tuned": (Setting("infonce", temperature=1.0), Setting("infonce", 0.7)),
        },
        compare=(("infonce-tuned", "infonce-0.5"),),
        seeds=(7, 21),
        data="digits, blunt",
        titles={"infonce-tuned": "InfoNCE, blunter"},
    )
    monkeypatch.setitem(STUDIES, made.name, made)
    return made


def test_one_entry_is_enough(entry):
    plan = CliRunner().invoke(main, ["plan", "quick-blunt", "--step-ms", "10"])
    assert "6 runs" in plan.stdout and entry.question in plan.stdout
    made = CliRunner().invoke(main, ["study", "work", "quick-blunt"])
    assert made.exit_code == 0, made.output
    frame = load_study("quick-blunt")
    assert set(frame["key"]) == {run.key for run in entry.runs()}
    assert "6 done" in CliRunner().invoke(main, ["plan", "quick-blunt", "--step-ms", "10"]).stdout
    table = method_table(entry, study_frame(entry), ["recall_at_1"])
    assert list(table["method"]) == ["infonce-0.5", "infonce-tuned"]
    found = findings.decisions()
    (row,) = found.query("contrast == 'lower temperature' and metric == 'recall_at_1'").to_dict(
        "records"
    )
    assert (row["study"], row["data"], row["seeds"]) == ("quick-blunt", "digits, blunt", 2)
    assert row["image_error"] > 0
    assert any(line.strip().startswith("digits, blunt") for line in findings.found_lines())
    levels = findings.levels("quick-blunt").index
    assert levels[0] == "InfoNCE, τ = 0.5" and levels[1].startswith("InfoNCE, blunter (τ = ")


def test_words_for_readers_are_no_part_of_what_was_fixed(entry):
    bare = dataclasses.replace(entry, data="", titles={})
    assert registered.digest(bare) == registered.digest(entry)


def test_every_method_of_every_study_has_a_name_for_readers():
    for chosen in STUDIES.values():
        names = [chosen.title(method) for method in chosen.methods]
        assert len(set(names)) == len(names)
        assert not set(names) & set(chosen.methods)
    assert STUDIES["cpu-gain-fashion"].title("weibit-4") == "pure endpoint link, β = 4"
    assert method_title("weince-0.2") == "WEINCE, τ = 0.2"
