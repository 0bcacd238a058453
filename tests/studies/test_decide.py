"""The decision rule: words, families, fallbacks, its error rates, and the committed studies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

from weince_lib.studies.collect import load_study
from weince_lib.studies.decide import (
    FURTHER_CONTRASTS,
    NO_SPREAD,
    NOT_FINISHED,
    NOT_RUN,
    ONE_SEED,
    PRIMARY_CONTRASTS,
    PRIMARY_MEASURES,
    SAME,
    UNDECIDED,
    Contrast,
    Rule,
    as_text,
    decide,
    decide_study,
    finding,
    tuned,
    word,
)
from weince_lib.studies.grid import study
from weince_lib.studies.selection import seed_table

RESULTS = Path(__file__).parents[2] / "paper" / "results" / "studies"
METHODS = (
    "infonce-0.5",
    "infonce-tuned",
    "weince-0.5",
    "weince-tuned",
    "infonce+both",
    "weince-shuffled",
)


def table_of(effects=(0.0,) * 6, deviations=(0.3,) * 6, seeds=8, draw=None, settings=METHODS):
    """A seed table of the six methods; all share their seeds' effects."""
    draw = draw or np.random.default_rng(0)
    y = 60 + draw.normal(size=(seeds, 1)) + draw.normal(size=(seeds, 6)) * deviations + effects
    rows = [
        {"method": m, "setting": s, "seed": seed, "accuracy": y[seed, k]}
        for k, (m, s) in enumerate(zip(METHODS, settings, strict=True))
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 2.0, "better"),
        (0.1, 0.9, "better, by less than 0.97"),
        (-2.0, -0.1, "worse"),
        (-0.9, -0.1, "worse, by less than 0.97"),
        (-0.9, 0.9, "equivalent within 0.97"),
        (0.0, 0.5, "equivalent within 0.97"),
        (-0.97, 0.5, UNDECIDED),
        (-0.5, 0.97, UNDECIDED),
        (0.0, 2.0, UNDECIDED),
        (-3.0, 0.0, UNDECIDED),
        (math.nan, math.nan, UNDECIDED),
    ],
)
def test_words_follow_from_the_interval(low, high, expected):
    assert word(low, high, 0.97) == expected


def test_words_intervals_and_p_values_never_disagree():
    draw = np.random.default_rng(2)
    seen = set()
    for _ in range(60):
        table = table_of(draw.normal(0, 0.8, 6), draw.uniform(0.1, 0.6, 6), draw=draw)
        for row in decide(table).to_dict("records"):
            seen.add(row["word"])
            apart = row["low"] > 0 or row["high"] < 0
            assert apart == (row["p_adjusted"] < 0.05)
            assert apart == row["word"].startswith(("better", "worse"))
            assert row["p_adjusted"] == pytest.approx(min(1, 5 * row["p"]))
            assert row["low"] < row["low_alone"] < row["difference"] < row["high_alone"]
            assert row["detectable"] > row["high"] - row["difference"]
    assert len(seen) == 6  # better and worse, each with and without "by less than", and the others


def test_numbers_are_those_of_least_squares_with_bonferronis_level():
    table = table_of((0, 1, 0.2, 1.1, 0.5, 0))
    fitted = smf.ols("accuracy ~ C(method, Treatment('infonce-0.5')) + C(seed)", table).fit()
    found = decide(table).set_index("a")
    assert set(found["variance"]) == {"common"}
    for method in ("infonce-tuned", "infonce+both"):
        term = f"C(method, Treatment('infonce-0.5'))[T.{method}]"
        row = found.loc[method]
        low, high = fitted.conf_int(0.05 / 5).loc[term]
        assert (row["low"], row["high"]) == pytest.approx((low, high))
        assert row["p"] == pytest.approx(fitted.pvalues[term])
        assert row["df"] == 35
        assert row["deviation"] == pytest.approx(math.sqrt(fitted.scale))


def test_unequal_spread_falls_back_on_each_pair_alone():
    table = table_of(deviations=(0.1, 0.1, 0.1, 0.1, 0.1, 2.0))
    found = decide(table)
    assert (found["equal_variance_p"] < 0.01).all()
    assert set(found["variance"]) == {"own"}
    wide = table.pivot_table(index="seed", columns="method", values="accuracy")
    for row in found.to_dict("records"):
        expected = stats.ttest_rel(wide[row["a"]], wide[row["b"]])
        interval = expected.confidence_interval(1 - 0.05 / 5)
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
        assert (row["p"], row["df"]) == (pytest.approx(expected.pvalue), 7)


def test_false_findings_and_coverage_of_the_family():
    # 400 studies without any effect: a share near 0.05 has a standard error of 0.011. Bonferroni
    # keeps the probability of any false word at 4.6 % (simulated, with the fallback).
    draw = np.random.default_rng(11)
    false = 0
    for _ in range(400):
        words = decide(table_of(draw=draw))["word"]
        false += words.str.startswith(("better", "worse")).any()
    assert 0.01 <= false / 400 <= 0.08


def test_true_differences_lie_in_all_intervals_together():
    draw = np.random.default_rng(12)
    effects = np.array([0.0, 1.0, -0.4, 1.3, 0.6, -0.5])
    true = [effects[METHODS.index(c.a)] - effects[METHODS.index(c.b)] for c in PRIMARY_CONTRASTS]
    missed = 0
    for _ in range(200):
        found = decide(table_of(effects, draw=draw))
        missed += ((found["low"] > true) | (found["high"] < true)).any()
    assert missed / 200 <= 0.095  # three standard errors above 0.05


def test_one_setting_under_two_names_is_no_contrast_and_counts_once():
    names = dict(zip(METHODS, METHODS, strict=True)) | {"infonce-tuned": "infonce-0.5"}
    table = table_of(settings=tuple(names.values()))
    own = table["method"] == "infonce-0.5"
    table.loc[table["method"] == "infonce-tuned", "accuracy"] = table.loc[own, "accuracy"].tolist()
    # The draws of five settings fail the test of a common variance by chance, at 10 %.
    found = decide(table, rule=Rule(variance_level=0.01)).set_index("contrast")
    same = found.loc["lower temperature"]
    assert (same["word"], same["difference"]) == (SAME, 0.0)
    assert math.isnan(same["p"])
    other = found.loc["blend, at the same temperature"]
    assert other["df"] == 28  # five settings, not six
    # The family keeps its size: it was fixed before.
    assert other["p_adjusted"] == pytest.approx(min(1.0, 5 * other["p"]))


def test_missing_runs_have_words_of_their_own():
    table = table_of()
    part = table[table["method"] != "weince-shuffled"]
    assert decide(part).set_index("a").loc["weince-0.5", "word"].tolist()[1] == NOT_RUN
    assert set(decide(table.iloc[:0])["word"]) == {NOT_RUN}
    late = table[(table["method"] != "infonce+both") | (table["seed"] < 5)]
    found = decide(late, seeds=range(8)).set_index("contrast")
    assert found.loc["both further losses", "word"] == NOT_FINISHED
    assert found.loc["both further losses", "seeds"] == 5
    assert NOT_FINISHED not in set(found["word"].drop("both further losses"))
    assert NOT_FINISHED not in set(decide(late)["word"])
    assert set(decide(table[table["seed"] == 3])["word"]) == {ONE_SEED}
    assert set(decide(table.assign(accuracy=70.0))["word"]) == {NO_SPREAD}
    two = decide(table[table["seed"] < 2])
    assert set(two["variance"]) == {"own"}


def test_bad_tables_and_rules_are_named():
    table = table_of()
    with pytest.raises(ValueError, match=r"'infonce-0\.5', seed 0: two rows"):
        decide(pd.concat([table, table]))
    with pytest.raises(ValueError, match="'infonce-tuned', seed 0: the value is nan"):
        decide(table.assign(accuracy=table["accuracy"].where(table.index != 8)))
    with pytest.raises(ValueError, match="no contrasts"):
        decide(table, [])
    with pytest.raises(ValueError, match="margin must be above 0, got -1"):
        Rule(margin=-1.0)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 5"):
        Rule(level=5)


def test_image_error_is_shown_beside_the_seeds_error():
    found = decide(table_of(), images=10_000)
    assert found["image_error"].between(0.8, 0.95).all()  # sqrt(2 p (1 - p) / n) would be 0.69
    assert decide(table_of())["image_error"].isna().all()


def committed(name, monkeypatch):
    monkeypatch.setenv("WEINCE_RESULTS", str(RESULTS.parent))
    return study(name), load_study(name)


def test_committed_fashion_study_gives_the_known_numbers(monkeypatch):
    own, frame = committed("cpu-gain-fashion", monkeypatch)
    contrasts = [Contrast("lower temperature", "infonce-0.1", "infonce-0.5")]
    contrasts += [c for c in PRIMARY_CONTRASTS if "tuned" not in c.a]
    found = decide_study(own, frame, contrasts)
    rows = found[found["metric"] == "standardised_linear_accuracy"].set_index("contrast")
    row = rows.loc["lower temperature"]
    # As computed independently with 29 settings and four seeds.
    assert (row["df"], row["role"]) == (84, "primary")
    assert row["deviation"] == pytest.approx(0.39, abs=0.005)
    assert row["difference"] == pytest.approx(0.98, abs=0.005)
    assert row["p"] == pytest.approx(0.0006, abs=5e-5)
    table = seed_table(own, frame, "standardised_linear_accuracy")
    fitted = smf.ols("accuracy ~ C(setting) + C(seed)", table).fit()
    assert row["deviation"] == pytest.approx(math.sqrt(fitted.scale))
    assert as_text(row.to_dict() | {"contrast": "lower temperature"}) == (
        "lower temperature: +0.98 [+0.28, +1.68], better"
    )
    assert list(dict.fromkeys(found["metric"]))[:2] == list(PRIMARY_MEASURES)
    assert dict(zip(found["metric"], found["role"], strict=True))["knn_accuracy"] == "secondary"


def test_committed_pairs_study_gives_the_known_numbers(monkeypatch):
    own, frame = committed("cpu-gain-pairs", monkeypatch)
    found = decide_study(own, frame, [Contrast("lower", "infonce-0.1", "infonce-0.5")])
    assert (found["p"] <= 0.0003).all()
    assert set(found["word"]) == {"better"}
    absent = decide_study(own, frame)
    assert as_text(absent.iloc[-1].to_dict()) == "own λ, not shuffled: not run"
    assert decide_study(own, frame.iloc[:0]).empty


def test_a_tuned_method_stands_at_one_setting_for_all_measures(monkeypatch):
    own, frame = committed("cpu-gain-fashion", monkeypatch)
    chosen = tuned(own, frame)
    labels = {m: s[0].label for m, s in own.methods.items() if len(s) == 1}
    rows = frame[(frame["metric"] == PRIMARY_MEASURES[0]) & (frame["split"] == "validation")]
    means = rows.groupby("setting")["value"].mean()
    grid = [s.label for s in own.methods["infonce-tuned"]]
    assert chosen["infonce-tuned"] == means[grid].idxmax() == labels["infonce-0.1"]
    found = decide_study(own, frame).set_index(["contrast", "metric"])
    assert NOT_RUN not in set(found["word"])
    beside = [Contrast("lower temperature", "infonce-0.1", "infonce-0.5"), *PRIMARY_CONTRASTS[1:]]
    same = decide_study(own, frame, beside).set_index(["contrast", "metric"])
    columns = ["difference", "low", "high"]
    lower = [("lower temperature", m) for m in (*PRIMARY_MEASURES, "knn_accuracy")]
    pd.testing.assert_frame_equal(found.loc[lower, columns], same.loc[lower, columns])


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.004, 0.504, "+0.250 [-0.004, +0.504], undecided"),
        (0.25, 0.75, "+0.25 [+0.25, +0.75], undecided"),
        (math.nan, math.nan, "undecided"),
    ],
)
def test_an_end_near_0_shows_its_side(low, high, expected):
    row = {"difference": 0.25, "low": low, "high": high, "word": UNDECIDED}
    assert finding(row) == expected


def test_every_further_contrast_is_of_a_study_and_is_no_primary_one():
    methods = study("cpu-gain-fashion").methods.keys()
    assert {m for c in FURTHER_CONTRASTS for m in (c.a, c.b)} <= methods
    pairs = [(c.a, c.b) for c in (*PRIMARY_CONTRASTS, *FURTHER_CONTRASTS)]
    assert len(set(pairs)) == len(pairs)
