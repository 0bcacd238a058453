"""The paper's tables with ours beside them; cells without a number say why."""

import math

import numpy as np
import pandas as pd
import pytest

from weince_lib.studies import grid, tables
from weince_lib.studies.collect import STUDY_COLUMNS as COLUMNS
from weince_lib.studies.collect import load_reported, table_path

SEEDS = (7, 21, 63, 84)


def save_table(study, dataset, encoder, values, metrics=("linear_accuracy",)):
    """A study's table: test values of each setting by seed, validation equal to their mean."""
    rows = []
    for setting, tests in values.items():
        for metric in metrics:
            for split in ("validation", "test"):
                for seed, test in zip(SEEDS, tests, strict=True):
                    value = test if split == "test" else np.mean(tests)
                    rows.append(
                        dict.fromkeys(COLUMNS, "")
                        | {"setting": setting, "experiment": "vision", "key": "0" * 16}
                        | {"dataset": dataset, "encoder": encoder, "temperature": 0.5}
                        | {"seed": seed, "metric": metric, "split": split, "replicate": 1}
                        | {"value": value}
                    )
    path = table_path(study)
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(path, index=False)


@pytest.fixture
def cifar100():
    """Made-up runs of the paper's study: two of its 27 WEINCE settings."""
    best = grid.PAPER_GRID[5].label
    save_table(
        "paper-cifar100-resnet18",
        "cifar100",
        "resnet18",
        {
            "tau=0.5": [50.0, 51.0, 49.0, 50.0],
            grid.WEINCE.label: [50.5, 51.0, 50.0, 50.5],
            best: [51.0, 52.5, 50.0, 51.5],
        },
        ("linear_accuracy", "recall_at_1", "knn_accuracy"),
    )
    return best


def cell(table, dataset, encoder, loss, metric=None):
    rows = table[(table["dataset"] == dataset) & (table["encoder"] == encoder)]
    rows = rows[rows["loss"] == loss]
    return rows[rows["metric"] == metric].iloc[0] if metric else rows.iloc[0]


def test_ours_stand_beside_the_papers_by_the_papers_protocol(cifar100):
    table = tables.paper_table("2")
    infonce = cell(table, "cifar100", "resnet18", "infonce")
    assert (infonce["paper"], infonce["paper_ci95"]) == (50.01, 0.19)
    assert infonce["paper_source"] == "release"
    assert (infonce["ours"], infonce["setting"], infonce["seeds"]) == (50.0, "tau=0.5", 4)
    weince = cell(table, "cifar100", "resnet18", "weince")
    assert (weince["ours"], weince["setting"]) == (51.25, cifar100)  # not the default's 50.5
    assert weince["study"] == "paper-cifar100-resnet18"
    difference = cell(table, "cifar100", "resnet18", tables.DIFFERENCE)
    assert difference["paper"] == pytest.approx(53.28 - 50.01)
    assert math.isnan(difference["paper_ci95"])
    assert difference["ours"] == pytest.approx(1.25)
    # Differences 1, 1.5, 1, 1.5: s = sqrt(1/12), t(0.975, 3) = 3.182446.
    half = 3.182446 * math.sqrt(1 / 12) / 2
    assert difference["high"] - difference["ours"] == pytest.approx(half, abs=1e-5)


@pytest.mark.parametrize(
    ("number", "metric", "infonce", "weince"),
    [
        ("3", "recall_at_1", 36.98, 42.94),
        ("6", "knn_accuracy", 40.73, 47.38),  # reported as knn_accuracy_50
        ("7", "recall_at_50", 90.75, 92.81),
    ],
)
def test_reported_values_are_found_under_the_papers_names(number, metric, infonce, weince):
    table = tables.paper_table(number, [])
    assert cell(table, "cifar100", "resnet18", "infonce", metric)["paper"] == infonce
    assert cell(table, "cifar100", "resnet18", "weince", metric)["paper"] == weince


def test_every_reported_value_of_the_tables_is_in_one_of_them():
    found = pd.concat([tables.paper_table(number, []) for number in tables.TABLES])
    given = found[found["paper_source"] != "difference of the two"]["paper"].dropna()
    reported = load_reported()
    expected = reported[reported["table"].isin(list(tables.TABLES))]["value"]
    assert sorted(given) == sorted(expected)
    assert len(expected) > 30


def test_a_difference_the_paper_gives_itself_is_taken_from_it():
    table = tables.paper_table("3", [])
    row = cell(table, "tiny-imagenet", "resnet18", tables.DIFFERENCE, "recall_at_1")
    assert (row["paper"], row["paper_source"]) == (1.55, "paper")


def test_cells_without_a_number_say_why(cifar100):
    save_table("quick-digits", "digits", "resnet-small", {"tau=0.5": [90, 91, 92, 93]})
    read = tables.shown(tables.paper_table("2"))
    known = read.loc[("CIFAR-100", "resnet18", "linear accuracy")]
    assert known["paper: InfoNCE"] == "50.01 ± 0.19"
    assert known["paper: WEINCE − InfoNCE"] == "+3.27"
    assert known["ours: WEINCE − InfoNCE"] == "+1.25 [+0.79, +1.71]"
    assert known["seeds"] == "4"
    absent = read.loc[("CIFAR-10", "resnet18", "linear accuracy")]
    assert absent["paper: WEINCE"] == "not in the sources"
    assert absent["ours: WEINCE"] == "not run"
    assert absent["seeds"] == ""
    extra = read.loc[("handwritten digits", "resnet-small", "linear accuracy")]
    assert extra["paper: InfoNCE"] == "not in the paper"
    assert extra["ours: InfoNCE"].startswith("91.50 ± ")
    assert extra["ours: WEINCE − InfoNCE"] == "not run"
    # An interval is missing where the sources give none.
    vit = read.loc[("Tiny-ImageNet", "vit-small", "linear accuracy")]
    assert vit["paper: InfoNCE"] == "33.12"


def test_wide_has_the_recalls_as_columns_in_the_order_of_k(cifar100):
    table = tables.paper_table("3")
    paper, ours = (tables.wide(table, whose) for whose in ("paper", "ours"))
    assert list(paper.columns) == list(ours.columns) == ["R@1", "R@2", "R@5", "R@10", "R@20"]
    reported = "36.98 47.42 61.72 72.18 81.45"
    assert " ".join(paper.loc[("CIFAR-100", "resnet18", "InfoNCE")]) == reported
    assert list(paper.index)[:3] == [
        ("CIFAR-10", "resnet18", loss) for loss in ("InfoNCE", "WEINCE", "WEINCE − InfoNCE")
    ]
    assert ours.loc[("CIFAR-100", "resnet18", "WEINCE"), "R@1"].startswith("51.25 ± ")
    assert ours.loc[("CIFAR-100", "resnet18", "WEINCE"), "R@2"] == "not run"


def test_csv_is_the_table_and_stable(cifar100, tmp_path):
    table = tables.paper_table("2")
    path = tables.write_table("2", table)
    assert path == tmp_path / "results" / "tables" / "table_2.csv"
    first = path.read_bytes()
    assert tables.write_table("2", tables.paper_table("2")).read_bytes() == first
    again = pd.read_csv(path)
    assert list(again.columns) == list(table.columns)
    np.testing.assert_allclose(again["ours"], table["ours"].astype(float), atol=5e-5)


def test_in_words_names_methods_by_their_titles_and_constants_by_their_symbols():
    study = grid.study("cpu-fashion")
    setting = study.methods["weince"][0]
    rows = [{"method": "infonce-tuned", "setting": setting.label, "value": 1.0}]
    rows += [{"method": "raw pixels", "setting": "", "value": 2.0}]
    read = tables.in_words(study, pd.DataFrame(rows))
    assert list(read["method"]) == [study.title("infonce-tuned"), "raw pixels"]
    assert list(read["setting"]) == ["paper, τ = 0.5, κ_ρ = 10, κ_AIC = 1, m = 2", ""]
    assert list(read["value"]) == [1.0, 2.0]
