"""The list of the paper's claims is complete, well formed and tied to the paper's numbers."""

import csv
import re
import tomllib
from pathlib import Path

import pytest

from weince_lib.experiments.claims import load_claims, measure
from weince_lib.experiments.collect import load_results

PAPER = Path(__file__).parents[1] / "paper"
CLAIMS = tomllib.loads((PAPER / "claims.toml").read_text(encoding="utf-8"))["claim"]
with (PAPER / "reported" / "reported.csv").open(newline="", encoding="utf-8") as handle:
    READER = csv.DictReader(handle)
    REPORTED = list(READER)
COLUMNS = ["table", "dataset", "encoder", "loss", "metric", "value", "ci95", "source"]
LABELS = {claim["label"] for claim in CLAIMS}
REQUIRED = {"id", "label", "section", "statement", "notebook"}
NOTEBOOKS = {
    "01_plackett_luce",
    "02_extreme_values",
    "03_link_functions",
    "04_misspecification",
    "05_weince_loss",
    "06_train_vision",
    "07_train_text",
    "08_tail_evidence",
    "09_link_selection",
    "10_gradient_allocation",
    "11_tables",
    "12_what_drives_the_gain",
}
NUMBERED = [
    *(f"Figure {n}" for n in range(1, 11)),
    *(f"Table {n}" for n in range(1, 8)),
    *(f"Theorem {n}" for n in ("2.2", "2.4", "A.2", "B.2", "C.1")),
    *(f"Lemma {n}" for n in ("A.3", "A.4", "A.5", "A.6")),
    *(f"Equation {n}" for n in ("2.2", "2.3", "2.5", "3.1", "3.2", "A.3", "A.4")),
    "Algorithm 1",
]


def selected(selector):
    return [row for row in REPORTED if all(row[k] == v for k, v in selector.items())]


def reported(table, dataset, encoder, loss, metric):
    names = ("table", "dataset", "encoder", "loss", "metric")
    (row,) = selected(dict(zip(names, (table, dataset, encoder, loss, metric), strict=True)))
    return float(row["value"])


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_each_claim_is_well_formed(claim):
    assert claim.keys() >= REQUIRED
    assert claim.keys() <= REQUIRED | {"doubt", "paper", "ours"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim["id"])
    assert claim["notebook"] in NOTEBOOKS
    for name in ("statement", "doubt"):
        text = claim.get(name, "Absent.")
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text
        assert "\n" not in text


def test_ids_are_unique():
    ids = [claim["id"] for claim in CLAIMS]
    assert len(ids) == len(set(ids))


def test_statements_are_unique():
    statements = [claim["statement"] for claim in CLAIMS]
    assert len(statements) == len(set(statements))


@pytest.mark.parametrize("label", NUMBERED)
def test_everything_numbered_is_listed(label):
    assert label in LABELS


def test_claims_follow_the_paper():
    def place(claim):
        # Numbered sections first, then the appendices by letter; 2.10 would follow 2.9.
        head, *rest = claim["section"].split(".")
        return (head.isalpha(), int(head) if head.isdigit() else ord(head), *map(int, rest))

    places = [place(claim) for claim in CLAIMS]
    assert places == sorted(places)


@pytest.mark.parametrize(
    "claim", [c for c in CLAIMS if "paper" in c], ids=lambda claim: claim["id"]
)
def test_selectors_find_the_papers_numbers(claim):
    assert claim["paper"].keys() <= set(COLUMNS)
    assert selected(claim["paper"])


@pytest.mark.parametrize("table", ["2", "3"])
def test_every_pair_of_the_tables_has_a_claim(table):
    pairs = {(row["dataset"], row["encoder"]) for row in REPORTED if row["table"] == table}
    selectors = [c["paper"] for c in CLAIMS if c.get("paper", {}).get("table") == table]
    assert pairs
    assert pairs <= {(s.get("dataset"), s.get("encoder")) for s in selectors}


def test_every_table_of_numbers_is_used():
    used = {claim["paper"]["table"] for claim in CLAIMS if "paper" in claim}
    assert used == {row["table"] for row in REPORTED}


def test_reported_numbers_are_well_formed():
    assert READER.fieldnames == COLUMNS
    keys = [tuple(row[name] for name in COLUMNS[:5]) for row in REPORTED]
    assert len(keys) == len(set(keys))
    for row in REPORTED:
        float(row["value"])
        assert row["ci95"] == "" or float(row["ci95"]) > 0
        assert row["source"] in {"paper", "published", "release"}


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


def test_every_rule_finds_rows_in_the_committed_results():
    """A verdict that the committed table should hold is not silently open."""
    with_rule = [claim for claim in load_claims() if claim.ours is not None]
    assert with_rule
    table = load_results("quick")
    assert [c.id for c in with_rule if c.ours and measure(c.ours, table) is None] == []
