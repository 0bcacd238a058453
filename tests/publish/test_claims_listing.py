"""The list of claims: read from its file, decided from records, and put into words."""

import math

import pytest
from sample_claims import FOUR, HALF, REPORTED, claim, decided, table_of
from sample_records import save_record

from weince_lib.evaluation import Interval
from weince_lib.experiments import Metric, decide_all, load_claims
from weince_lib.publish.claims import format_interval, paper_value
from weince_lib.studies import collect
from weince_lib.studies.collect import records_of


@pytest.mark.parametrize(
    ("paper", "text"),
    [
        (None, ""),
        ({"table": "2", "loss": "infonce"}, "76.54 ± 0.32"),
        ({"table": "2", "loss": "weince"}, "77.94"),
        ({"table": "2"}, "infonce 76.54 ± 0.32, weince 77.94"),
        ({"table": "tail", "metric": "shape"}, "-0.39"),
    ],
)
def test_papers_value_as_text(paper, text):
    assert paper_value(claim(paper=paper), REPORTED) == text
    assert decided(None, table_of(FOUR), paper=paper).paper == text


def test_papers_range_as_text():
    table = REPORTED[REPORTED["metric"].str.startswith("lambda")]
    assert paper_value(claim(paper={"table": "tail"}), table) == "0.33 to 0.5"


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(91.4567, 90.0, 92.9134, 4), "91.46 [90.00, 92.91]"),
        (Interval(91.4567, math.nan, math.nan, 1), "91.5"),
        (Interval(0.0, math.nan, math.nan, 1), "0"),
        (Interval(3.21e-8, math.nan, math.nan, 1), "3.21e-08"),
        (Interval(5.0, 5.0, 5.0, 4), "5"),
        (Interval(0.0021, 0.0012, 0.0030, 4), "0.0021 [0.0012, 0.0030]"),
    ],
)
def test_interval_as_text(interval, text):
    assert format_interval(interval) == text


@pytest.fixture
def companion(tmp_path, monkeypatch):
    """A companion with two claims of its own."""
    home = tmp_path / "companion"
    (home / "notebooks").mkdir(parents=True)
    (home / "paper" / "reported").mkdir(parents=True)
    REPORTED.to_csv(home / "paper" / "reported" / "reported.csv", index=False)
    (home / "paper" / "claims.toml").write_text(
        """
        [[claim]]
        id = "second-in-the-alphabet"
        label = "Table 2"
        section = "4.1"
        notebook = "11_tables"
        statement = "Accuracy is high."
        paper = {table = "2", loss = "infonce"}

        [claim.ours]
        rule = "above"
        value = 50
        quantity = "accuracy, %"
        where = {metric = "linear_accuracy", split = "test"}

        [[claim]]
        id = "first-in-the-alphabet"
        label = "Theorem 2.2"
        section = "2"
        notebook = "02_extreme_values"
        statement = "It converges."
        """
    )
    monkeypatch.setenv("WEINCE_HOME", str(home))
    return home


def test_from_records_to_verdicts(companion):
    assert [d.verdict for d in decide_all()] == ["open", "open"]
    made = [
        save_record(seed=seed, metrics=[Metric("linear_accuracy", value, "test", 1)])
        for seed, value in FOUR.items()
    ]
    collect.collect(records_of("quick"), "quick")
    first, second = decide_all()
    assert first.verdict == "measured here, with limits"
    assert first.paper == "76.54 ± 0.32"
    assert first.ours == f"accuracy, %: 91.50 [{91.5 - HALF:.2f}, {91.5 + HALF:.2f}]"
    assert first.evidence == "quick, digits, resnet-small, 4 encoder seeds"
    assert sorted(first.records) == sorted(record.key for record in made)
    assert second.verdict == "open"
    assert decide_all("quick")[0] == first
    assert decide_all("cpu")[0].verdict == "open"


def test_committed_claims_can_all_be_read_and_decided():
    # Without a record of ours none is decided.
    decisions = decide_all()
    assert [d.claim.id for d in decisions] == [c.id for c in load_claims()]
    assert {d.verdict for d in decisions} == {
        "open",
        "undecided here",
        "needs a GPU",
        "description",
    }
    assert all(d.needs for d in decisions if d.verdict == "undecided here")
    assert all(d.paper for d in decisions if d.claim.paper)
