"""The list of the paper's claims is complete, well formed and tied to the paper's numbers."""

import csv
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from weince_lib import paths
from weince_lib.experiments import VERDICTS, decide_all
from weince_lib.publish import companion
from weince_lib.publish.claim_rules import measure
from weince_lib.publish.claims import full_list, load_claims
from weince_lib.publish.site.claims_page import claims_page
from weince_lib.studies.collect import load_results
from weince_lib.studies.decide import RULE

PAPER = Path(__file__).parents[1] / "paper"
CLAIMS = tomllib.loads((PAPER / "claims.toml").read_text(encoding="utf-8"))["claim"]
with (PAPER / "reported" / "reported.csv").open(newline="", encoding="utf-8") as handle:
    READER = csv.DictReader(handle)
    REPORTED = list(READER)
COLUMNS = ["table", "dataset", "encoder", "loss", "metric", "value", "ci95", "source"]
NOTEBOOKS = {path.stem for path in (paths.root() / "notebooks" / "source").glob("*.py")}
NUMBERED = [
    *(f"Figure {n}" for n in range(1, 11)),
    *(f"Table {n}" for n in range(1, 8)),
    *(f"Theorem {n}" for n in ("2.2", "2.4", "A.2", "B.2", "C.1")),
    *(f"Lemma {n}" for n in ("A.3", "A.4", "A.5", "A.6")),
    *(f"Equation {n}" for n in ("2.2", "2.3", "2.5", "3.1", "3.2", "A.3", "A.4")),
    "Algorithm 1",
]
#: Studies whose records are committed when they have been run; their claims are open until then.
AWAITED = {"paper-simcse"}


def selected(selector):
    return [row for row in REPORTED if all(row[k] == v for k, v in selector.items())]


def reported(table, dataset, encoder, loss, metric):
    names = ("table", "dataset", "encoder", "loss", "metric")
    (row,) = selected(dict(zip(names, (table, dataset, encoder, loss, metric), strict=True)))
    return float(row["value"])


def test_every_claim_has_an_id_of_its_own_and_a_notebook():
    assert len({claim["id"] for claim in CLAIMS}) == len(CLAIMS)
    assert {claim["notebook"] for claim in CLAIMS} <= NOTEBOOKS


def test_everything_numbered_is_listed():
    assert set(NUMBERED) - {claim["label"] for claim in CLAIMS} == set()


def test_selectors_find_the_papers_numbers():
    found = {c["id"]: selected(c["paper"]) for c in CLAIMS if "paper" in c}
    assert found and [name for name, rows in found.items() if not rows] == []


@pytest.mark.parametrize("table", ["2", "3"])
def test_every_pair_of_the_tables_has_a_claim(table):
    pairs = {(row["dataset"], row["encoder"]) for row in REPORTED if row["table"] == table}
    selectors = [c["paper"] for c in CLAIMS if c.get("paper", {}).get("table") == table]
    assert pairs
    assert pairs <= {(s.get("dataset"), s.get("encoder")) for s in selectors}


def test_reported_numbers_are_well_formed():
    assert READER.fieldnames == COLUMNS
    keys = [tuple(row[name] for name in COLUMNS[:5]) for row in REPORTED]
    assert len(keys) == len(set(keys))
    for row in REPORTED:
        float(row["value"])
        assert row["ci95"] == "" or float(row["ci95"]) > 0
        assert row["source"] in {"paper", "published", "release", "simcse"}


@pytest.mark.parametrize(
    ("table", "dataset", "encoder", "metric", "gain"),
    [
        ("2", "CIFAR100", "resnet18", "linear_accuracy", 3.27),
        ("2", "CIFAR100", "resnet50", "linear_accuracy", 4.82),
        ("2", "TinyImageNet", "vit_small", "linear_accuracy", 3.41),
        ("3", "TinyImageNet", "vit_small", "recall_at_1", 4.23),
        ("3", "TinyImageNet", "vit_small", "recall_at_20", 4.34),
    ],
)
def test_tables_agree_with_the_gains_in_the_text(table, dataset, encoder, metric, gain):
    weince, infonce = (
        reported(table, dataset, encoder, loss, metric) for loss in ("weince", "infonce")
    )
    assert weince - infonce == pytest.approx(gain, abs=0.005)


def test_gains_named_in_statements_follow_from_the_numbers():
    checked = 0
    for claim in (claim for claim in CLAIMS if "paper" in claim):
        named = re.search(r"(?:by|:) ([0-9.]+[0-9]) points", claim["statement"])
        rows = {row["loss"]: float(row["value"]) for row in selected(claim["paper"])}
        if named and "weince" in rows:
            difference = rows["weince"] - rows["infonce"]
            # A printed difference is rounded from numbers that were not.
            assert difference == pytest.approx(float(named[1]), abs=0.011), claim["id"]
            checked += 1
    assert checked >= 15


def test_overheads_agree_with_each_other():
    run = ("overhead", "TinyImageNet", "resnet18")
    infonce, weince = (reported(*run, loss, "step_ms") for loss in ("infonce", "weince"))
    difference = reported(*run, "weince-minus-infonce", "step_percent")
    assert 100 * (weince / infonce - 1) == pytest.approx(difference, abs=0.005)
    for loss, step in (("infonce", infonce), ("weince", weince)):
        # Batches of 256 images.
        assert 256_000 / step == pytest.approx(reported(*run, loss, "images_per_s"), abs=0.5)


WITH_RULE = [c for c in load_claims() if c.ours is not None]


def test_every_rule_finds_rows_in_the_committed_results():
    """A verdict that the committed table should hold is not silently open."""
    table = load_results("quick")
    plain = [c for c in WITH_RULE if c.ours and "study" not in c.ours.where]
    assert plain
    assert [c.id for c in plain if c.ours and measure(c.ours, table) is None] == []


def compared(claim):
    """The studies a claim names with the methods it takes from each."""
    found = [(c.study, {c.method, c.against}) for c in claim.ours.studies]
    where = claim.ours.where
    if "method" in where:
        found.append((where["study"], {where["method"], where.get("against", where["method"])}))
    return found


def test_every_claim_is_decided_or_says_what_it_would_take():
    decisions = decide_all()
    assert {d.verdict for d in decisions} <= set(VERDICTS)
    for d in decisions:
        assert d.limits or d.verdict != "measured here, with limits", d.claim.id
        assert bool(d.needs) or d.verdict not in ("undecided here", "needs a GPU"), d.claim.id
        decided = d.verdict not in ("undecided here", "needs a GPU", "description", "open")
        assert not decided or (d.ours and d.evidence and d.records), d.claim.id
    awaited = {c.id for c in WITH_RULE if c.ours and c.ours.where.get("study") in AWAITED}
    assert {d.claim.id for d in decisions if d.verdict == "open"} <= awaited


def test_smallest_gain_that_counts_is_one_for_all_and_the_papers_smallest():
    gains = []
    for row in REPORTED:
        if (row["table"], row["metric"]) != ("2", "linear_accuracy"):
            continue
        if row["loss"] == "weince-minus-infonce":
            gains.append(float(row["value"]))
        if row["loss"] == "weince":
            cell = (row["dataset"], row["encoder"])
            gains.append(float(row["value"]) - reported("2", *cell, "infonce", "linear_accuracy"))
    assert pytest.approx(min(gains), abs=1e-9) == RULE.margin
    compares = [c for c in WITH_RULE if any(len(methods) == 2 for _, methods in compared(c))]
    assert len(compares) > 20
    assert {c.id: c.ours.least for c in compares if c.ours.least != RULE.margin} == {}


def test_words_leave_the_number_findable():
    """The PDF splits a claim's text at its last colon into quantity and numbers."""
    words = [part.words for claim in WITH_RULE for part in claim.ours.also]
    assert [text for text in words if ": " in text] == []


@pytest.mark.parametrize("claim", WITH_RULE, ids=lambda c: c.id)
def test_no_measured_number_is_typed(claim):
    """Decimals in an entry's words are the rule's, the paper's, recorded, or its `settings`."""
    ours = claim.ours
    known = {ours.value, ours.least, *ours.settings, *(part.value for part in ours.also)}
    known |= {float(row["value"]) for row in REPORTED}
    table = load_results("quick")
    recorded = table.loc[table["experiment"] == ours.where.get("experiment"), "value"]
    words = [part.words for part in ours.also]
    for text in (ours.quantity, ours.limits, claim.needs, *words):
        for word in re.findall(r"(?<!Eq\. \()\b\d+\.\d+", text):
            number = float(word)
            digits = len(word.split(".")[1])
            if number in known or (recorded.round(digits) == number).any():
                continue
            pytest.fail(f"{claim.id}: {word} in {text!r} is in no record")


def test_one_entry_is_a_whole_claim(tmp_path, monkeypatch):
    """A claim added to claims.toml is decided, listed, on the site and in the PDF's data."""
    entry = (
        (PAPER / "claims.toml").read_text(encoding="utf-8")
        + """
[[claim]]
id = "one-more"
label = "Section 9"
section = "D.9"
statement = "The closest link is close."
notebook = "03_link_functions"
[claim.ours]
rule = "at-most"
value = 0.02
quantity = "total variation at the 0.123 quantile"
settings = [0.123]
where = { experiment = "check-03_link_functions", metric = "link_distance_at_1e5" }
"""
    )
    home = tmp_path / "home"
    shutil.copytree(paths.root() / "paper" / "reported", home / "paper" / "reported")
    shutil.copytree(paths.root() / "notebooks" / "source", home / "notebooks" / "source")
    (home / "paper" / "claims.toml").write_text(entry, encoding="utf-8")
    monkeypatch.setenv("WEINCE_RESULTS", str(PAPER / "results"))
    monkeypatch.setenv("WEINCE_HOME", str(home))
    (added,) = [claim for claim in load_claims() if claim.id == "one-more"]
    test_no_measured_number_is_typed(added)
    decisions = decide_all()
    (decision,) = [d for d in decisions if d.claim.id == "one-more"]
    assert decision.verdict == "measured here"
    assert any("The closest link is close." in line for line in full_list(decisions))
    assert "(one-more)=" in claims_page(decisions)
    assert "one-more" in [claim["id"] for claim in companion.gather()["claims"]]
