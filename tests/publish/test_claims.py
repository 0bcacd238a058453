"""Rules over results decide claims, with an interval over encoder seeds."""

import math
import re

import pandas as pd
import pytest
from sample_claims import FOUR, HALF, REPORTED, claim, decided, rule, table_of
from sample_records import results_table
from scipy import stats

from weince_lib.evaluation import Interval
from weince_lib.experiments import PROFILES, ConfigError
from weince_lib.publish.claim_rules import (
    Ours,
    interval_of,
    measure,
    outcome,
    per_seed,
    seeds_needed,
)
from weince_lib.publish.claims import STRENGTH, decide, format_interval, paper_value
from weince_lib.runs.config import parse

# What the usual made-up table, of digits, can come to.
HOLDS, FAILS, UNTOLD = "measured here, with limits", "does not hold here", "undecided here"


@pytest.mark.parametrize(
    ("kind", "value", "verdict"),
    [
        ("above", 91.5 - HALF - 0.01, HOLDS),
        ("above", 91.5 - HALF + 0.01, UNTOLD),
        ("above", 91.5 + HALF - 0.01, UNTOLD),
        ("above", 91.5 + HALF + 0.01, FAILS),
        ("below", 91.5 - HALF - 0.01, FAILS),
        ("below", 91.5 - HALF + 0.01, UNTOLD),
        ("below", 91.5 + HALF - 0.01, UNTOLD),
        ("below", 91.5 + HALF + 0.01, HOLDS),
        ("at-most", 91.5, HOLDS),
        ("at-most", 91.49, FAILS),
    ],
)
def test_rule_compares_the_interval_with_the_value(kind, value, verdict):
    decision = decided(rule(kind, value), table_of(FOUR))
    assert decision.verdict == verdict
    assert decision.ours == f"accuracy: 91.50 [{91.5 - HALF:.2f}, {91.5 + HALF:.2f}]"


@pytest.mark.parametrize(("value", "verdict"), [(0.9, HOLDS), (1.6, UNTOLD), (2.5, FAILS)])
def test_difference_is_paired_by_encoder_seed(value, verdict):
    # Seeds differ by 10 and more, losses by 1.4 to 1.8: only pairing sees the difference.
    infonce = {7: 60.0, 21: 70.0, 63: 80.0, 84: 90.0}
    gains = {7: 1.4, 21: 1.8, 63: 1.5, 84: 1.7}
    weince = {seed: infonce[seed] + gains[seed] for seed in infonce}
    table = pd.concat([table_of(weince), table_of(infonce, loss="infonce", key="f" * 16)])
    decision = decided(rule("difference-above", value, loss="weince"), table)
    assert decision.verdict == verdict
    known = stats.ttest_rel(list(weince.values()), list(infonce.values())).confidence_interval()
    assert decision.ours == f"accuracy: 1.60 [{known.low:.2f}, {known.high:.2f}]"
    assert decision.records == ("0123456789abcdef", "f" * 16)
    assert "4 encoder seeds" in decision.evidence


def test_difference_takes_the_loss_named_against():
    rows = [table_of(FOUR), table_of({s: v - 1 for s, v in FOUR.items()}, loss="weince-release")]
    rows.append(table_of({s: v + 5 for s, v in FOUR.items()}, loss="infonce"))
    ours = rule("difference-above", 0.5, loss="weince")
    assert decided(ours | {"against": "weince-release"}, pd.concat(rows)).ours == "accuracy: 1"
    assert decided(ours, pd.concat(rows)).ours == "accuracy: -5"


def test_difference_without_the_other_loss_is_open():
    ours = rule("difference-above", 0.0, loss="weince")
    assert decided(ours, table_of(FOUR)).verdict == "open"
    assert decided(ours, table_of(FOUR, loss="infonce")).verdict == "open"


def test_difference_counts_the_seeds_it_compares():
    table = pd.concat([table_of(FOUR), table_of({7: 89.0, 21: 88.0}, loss="infonce")])
    decision = decided(rule("difference-above", 0.0, loss="weince"), table)
    assert "2 encoder seeds" in decision.evidence


@pytest.mark.parametrize("kind", ["above", "below"])
@pytest.mark.parametrize("value", [0.0, 100.0])
def test_one_seed_gives_no_verdict(kind, value):
    replicates = [{"replicate": n, "value": 90.0 + n} for n in range(1, 6)]
    for rows in (replicates, replicates[:1]):
        decision = decided(rule(kind, value), results_table(*rows))
        assert decision.verdict == UNTOLD
        assert "[" not in decision.ours
        assert decision.evidence.endswith(", 1 encoder seed")


def test_replicates_are_averaged_within_an_encoder_first():
    # Taken as twelve values, the probe seeds would make the interval far too short.
    rows = [
        {"seed": seed, "replicate": n, "value": mean + offset}
        for seed, mean in FOUR.items()
        for n, offset in enumerate((-0.75, 0.25, 0.5), start=1)
    ]
    table = results_table(*rows)
    assert per_seed(table) == FOUR
    interval = interval_of(table)
    assert (interval.mean, interval.n) == (91.5, 4)
    assert interval.half_width == pytest.approx(HALF, rel=1e-12)


def test_exact_check_decides_with_one_row():
    row = {
        "experiment": "check-05_weince_loss",
        "dataset": math.nan,
        "encoder": math.nan,
        "loss": math.nan,
        "seed": math.nan,
        "metric": "gap",
        "split": "",
        "value": 2e-7,
    }
    where = {"experiment": "check-05_weince_loss", "metric": "gap"}
    ours = {"rule": "at-most", "value": 1e-6, "quantity": "gap", "where": where}
    decision = decided(ours, results_table(row))
    assert (decision.verdict, decision.ours) == ("measured here", "gap: 2e-07")
    assert decided(ours | {"value": 1e-7}, results_table(row)).verdict == FAILS


def test_single_row_brings_its_own_interval():
    row = {"metric": "shape", "value": -0.4, "low": -0.5, "high": -0.3}
    ours = rule("below", 0.0) | {"quantity": "shape", "where": {"metric": "shape"}}
    decision = decided(ours, results_table(row))
    assert (decision.verdict, decision.ours) == (HOLDS, "shape: -0.40 [-0.50, -0.30]")
    wide = results_table(row | {"high": 0.1})
    assert decided(ours, wide).verdict == UNTOLD


def test_claim_without_rows_is_open():
    for table in (results_table(), table_of(FOUR, metric="recall_at_1")):
        decision = decided(rule("above", 0.0), table)
        assert (decision.verdict, decision.ours, decision.evidence) == ("open", "", "")


def test_strongest_profile_with_rows_decides():
    assert set(STRENGTH) == set(PROFILES)
    strong = {seed: value - 50 for seed, value in FOUR.items()}
    tables = {"paper": results_table(), "cpu": table_of(strong), "quick": table_of(FOUR)}
    decision = decide(claim(rule("above", 80.0)), tables, REPORTED)
    assert decision.verdict == FAILS
    assert decision.evidence.startswith("cpu, ")
    weak = {"paper": results_table(), "cpu": results_table(), "quick": table_of(FOUR)}
    assert decide(claim(rule("above", 80.0)), weak, REPORTED).evidence.startswith("quick, ")


def test_selecting_by_an_unknown_column_is_an_error_that_names_it():
    ours = parse(Ours, rule("above", 0.0) | {"where": {"splt": "test"}})
    with pytest.raises((KeyError, ConfigError), match="splt"):
        measure(ours, table_of(FOUR))


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.09, 0.1, "yes"),
        (-0.11, 0.05, "undecided"),
        (0.05, 0.3, "undecided"),
        (0.11, 0.3, "no"),
        (-0.3, -0.11, "no"),
        (math.nan, math.nan, "undecided"),
    ],
)
def test_within_asks_that_larger_deviations_are_ruled_out(low, high, answer):
    ours = parse(Ours, rule("within", 0.1))
    assert outcome(ours, Interval(0.0, low, high, 100)) == answer


@pytest.mark.parametrize(
    ("kind", "worst"), [("above", -0.2), ("below", 0.4), ("at-most", 0.4), ("within", 0.4)]
)
def test_of_several_checks_the_least_favourable_counts(kind, worst):
    table = table_of({7: -0.2, 21: 0.4, 63: 0.1}).assign(seed=math.nan)
    table["low"], table["high"] = table["value"] - 0.05, table["value"] + 0.05
    found = measure(parse(Ours, rule(kind, 0.0)), table)
    assert found is not None
    assert found.interval == Interval(worst, worst - 0.05, worst + 0.05, 3)
    assert len(found.rows) == 3


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.1, 0.5, "yes"),
        (0.1, 2.0, "yes"),
        (-0.5, 0.9, "no"),
        (-0.5, 1.1, "undecided"),
        (-2.0, -1.0, "no"),
    ],
)
def test_an_effect_too_small_to_count_is_ruled_out(low, high, answer):
    ours = parse(Ours, rule("above", 0.0) | {"least": 1.0})
    assert outcome(ours, Interval((low + high) / 2, low, high, 4)) == answer


@pytest.mark.parametrize("wrong", [{"least": -1.0}, {"least": 0.0}, {"rule": "below", "least": 1}])
def test_smallest_effect_has_to_fit_the_rule(wrong):
    with pytest.raises(ConfigError, match="least"):
        parse(Ours, rule("above", 0.0) | wrong)


def test_undecided_claim_says_what_it_would_take():
    wide = table_of({7: -2.0, 21: 0.0, 63: 1.0, 84: 3.0})
    decision = decided(rule("above", 0.0) | {"least": 1.0}, wide)
    assert decision.verdict == UNTOLD
    n = seeds_needed(interval_of(wide), 1.0)
    spread = pd.Series([-2.0, 0.0, 1.0, 3.0]).std()
    seen = {
        k: stats.nct.sf(stats.t.ppf(0.975, k - 1), k - 1, math.sqrt(k) / spread) for k in (n - 1, n)
    }
    assert seen[n] >= 0.8 > seen[n - 1]
    assert f"{n} seeds" in decision.needs
    own = decided(rule("above", 0.0), wide, needs="a better camera")
    assert (own.verdict, own.needs) == (UNTOLD, "a better camera")
    assert decided(rule("above", 0.0), table_of({7: 1.0})).needs


@pytest.mark.parametrize(
    "interval",
    [Interval(1.0, math.nan, math.nan, 1), Interval(1.0, 1.0, 1.0, 4), Interval(0.0, -1e6, 1e6, 4)],
)
def test_no_number_of_seeds_without_a_spread_or_beyond_reach(interval):
    assert seeds_needed(interval, 1.0) is None


def test_limits_are_named_or_follow_from_the_rows():
    assert "digits with resnet-small" in decided(rule("above", 0.0), table_of(FOUR)).limits
    own = decided(rule("above", 0.0) | {"limits": "only on Sundays"}, table_of(FOUR))
    assert (own.verdict, own.limits) == (HOLDS, "only on Sundays")
    assert decided(rule("above", 99.0), table_of(FOUR)).limits == ""
    fails = decided(rule("above", 99.0) | {"limits": "only on Sundays"}, table_of(FOUR))
    assert (fails.verdict, fails.limits) == (FAILS, "only on Sundays")


def test_papers_own_data_and_encoder_hold_without_limits():
    table = table_of(FOUR, dataset="cifar100", encoder="resnet18")
    ours = claim(rule("above", 0.0))
    assert decide(ours, {"paper": table}, REPORTED).verdict == "measured here"
    assert decide(ours, {"gpu": table}, REPORTED).verdict == HOLDS
    mixed = pd.concat([table, table_of(FOUR)])
    assert decide(ours, {"paper": mixed}, REPORTED).verdict == HOLDS


def test_claim_out_of_reach_says_what_it_would_take():
    for ours, table in ((None, table_of(FOUR)), (rule("above", 0.0), results_table())):
        decision = decided(ours, table, needs="GPUs")
        assert (decision.verdict, decision.needs) == ("undecided here", "GPUs")
    found = decided(rule("above", 0.0), table_of(FOUR), needs="GPUs")
    assert (found.verdict, found.needs) == (HOLDS, "")


def test_difference_from_a_control_is_paired_by_encoder_seed():
    # Encoders differ by 10 and more, metric and control by 1.4 to 1.8.
    control = {7: 60.0, 21: 70.0, 63: 80.0, 84: 90.0}
    gains = {7: 1.4, 21: 1.8, 63: 1.5, 84: 1.7}
    values = {seed: control[seed] + gains[seed] for seed in control}
    table = pd.concat([table_of(values), table_of(control, metric="null_accuracy")])
    for value, verdict in ((0.9, HOLDS), (2.5, FAILS)):
        ours = rule("difference-above", value) | {"control": "null_accuracy"}
        decision = decided(ours, table)
        assert decision.verdict == verdict
        known = stats.ttest_1samp(list(gains.values()), 0.0).confidence_interval()
        assert decision.ours == f"accuracy: 1.60 [{known.low:.2f}, {known.high:.2f}]"


@pytest.mark.parametrize(
    ("kind", "value", "verdict"),
    [
        ("above", 0.8, HOLDS),
        ("above", 1.5, UNTOLD),
        ("above", 2.5, FAILS),
        (None, 2.5, HOLDS),
    ],
)
def test_further_number_with_a_rule_has_to_fulfil_it_too(kind, value, verdict):
    second = table_of({7: 1.0, 21: 1.4, 63: 1.6, 84: 2.0}, metric="recall_at_1")
    part = {"metric": "recall_at_1", "words": "R@1", "rule": kind, "value": value}
    ours = rule("above", 80.0) | {"also": [part]}
    decision = decided(ours, pd.concat([table_of(FOUR), second]))
    assert decision.verdict == verdict
    assert re.fullmatch(r"accuracy: 91\.50 \[.+\]; R@1 1\.50 \[.+\]", decision.ours)
    # The first number counts as well.
    failing = rule("above", 99.0) | {"also": [part]}
    assert decided(failing, pd.concat([table_of(FOUR), second])).verdict == FAILS


def test_further_number_that_is_missing_leaves_its_rule_undecided():
    part = {"metric": "recall_at_1", "words": "R@1", "rule": "above", "value": 0.0}
    decision = decided(rule("above", 80.0) | {"also": [part]}, table_of(FOUR))
    assert decision.verdict == UNTOLD
    assert "R@1" not in decision.ours


def test_further_number_may_come_from_another_experiment():
    check = {"experiment": "check-07_train_text", "metric": "shape", "value": 0.11}
    table = pd.concat([table_of(FOUR), results_table(check | {"seed": math.nan})])
    part = {"experiment": "check-07_train_text", "metric": "shape", "words": "of sentences"}
    assert decided(rule("above", 80.0) | {"also": [part]}, table).ours.endswith(
        "; of sentences 0.11"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"control": "null_accuracy"},
        {"studies": [{"study": "cpu-fashion", "method": "weince", "against": "infonce"}]},
        {"rule": "better-everywhere", "least": 0.97},
        {"also": [{"metric": "x", "words": "x", "rule": "over"}]},
    ],
    ids=["control", "studies", "no study", "part"],
)
def test_rule_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"control|studies|over"):
        parse(Ours, rule("above", 0.0) | wrong)


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
