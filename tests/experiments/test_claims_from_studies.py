"""Claims that a study decides: paired over encoder seeds, each method as validation chose it."""

import math

import pandas as pd
import pytest
from sample_claims import REPORTED, claim
from scipy import stats

from weince_lib import files
from weince_lib.experiments import ConfigError
from weince_lib.experiments.claim_rules import Ours, measure_study
from weince_lib.experiments.claims import decide
from weince_lib.experiments.config import parse
from weince_lib.experiments.grid import study
from weince_lib.experiments.sweep import COLUMNS, table_path

GAINS = {7: 0.4, 21: 0.9, 63: 0.5, 84: 0.6}
LEVEL = {7: 80.0, 21: 83.0, 63: 85.0, 84: 82.0}


def write(name, levels, metric="linear_accuracy"):
    """A study's table: ``levels`` is setting to (loss, validation offset, test value by seed)."""
    rows = []
    for setting, (loss, offset, values) in levels.items():
        for seed, value in values.items():
            usual = {"setting": setting, "experiment": "vision", "loss": loss, "seed": seed}
            usual |= {"key": f"{setting}-{seed}", "dataset": "fashion-mnist", "temperature": 0.5}
            usual |= {"encoder": "resnet-small", "metric": metric, "replicate": 1}
            rows.append(usual | {"split": "validation", "value": value + offset})
            rows.append(usual | {"split": "test", "value": value})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    with files.replacing(table_path(name)) as aside:
        frame.to_csv(aside, index=False)


def rule(value=0.0, **more):
    where = {"study": "cpu-fashion", "method": "weince-tuned", "against": "infonce"}
    where |= {"metric": "linear_accuracy"} | more.pop("where", {})
    return {"rule": "above", "value": value, "quantity": "gain", "where": where} | more


def fashion(offset=0.0):
    """Of three WEINCE settings the second is the best on validation, the third on test."""
    first, second, third = (s.label for s in study("cpu-fashion").methods["weince-tuned"])
    gained = {seed: LEVEL[seed] + GAINS[seed] + offset for seed in LEVEL}
    return {
        study("cpu-fashion").methods["infonce"][0].label: ("infonce", 0.0, LEVEL),
        first: ("weince", 0.0, LEVEL),
        second: ("weince", 5.0, gained),
        third: ("weince", -5.0, {seed: v + 1 for seed, v in gained.items()}),
    }


def test_difference_is_paired_and_of_the_settings_validation_chose():
    write("cpu-fashion", fashion())
    decision = decide(claim(rule()), {"cpu": pd.DataFrame()}, REPORTED)
    known = stats.ttest_1samp(list(GAINS.values()), 0.0).confidence_interval()
    assert decision.ours == f"gain: 0.60 [{known.low:.2f}, {known.high:.2f}]"
    assert decision.verdict == "holds here with limits"
    second = study("cpu-fashion").methods["weince-tuned"][1].label
    assert decision.evidence == (
        "cpu, fashion-mnist, resnet-small, 4 encoder seeds; study cpu-fashion: "
        f"weince-tuned ({second}) against infonce (tau=0.5)"
    )
    keys = {f"{s}-{seed}" for s in ("tau=0.5", second) for seed in LEVEL}
    assert set(decision.records) == keys


@pytest.mark.parametrize(
    ("offset", "least", "verdict"),
    [
        (0.0, None, "holds here with limits"),
        (-2.0, None, "does not hold here"),
        (-0.6, 0.97, "does not hold here"),
        (-0.6, 0.2, "not testable here"),
        (-0.6, None, "not testable here"),
    ],
)
def test_study_decides_by_its_interval(offset, least, verdict):
    write("cpu-fashion", fashion(offset))
    decision = decide(claim(rule(least=least)), {"cpu": pd.DataFrame()}, REPORTED)
    assert decision.verdict == verdict
    assert bool(decision.needs) == (verdict == "not testable here")


def test_one_method_alone_gives_its_level():
    write("cpu-fashion", fashion())
    where = {k: v for k, v in rule()["where"].items() if k != "against"} | {"method": "infonce"}
    found = measure_study(parse(Ours, rule() | {"where": where}))
    assert found is not None
    assert found.interval.mean == pytest.approx(82.5)
    assert set(found.rows["setting"]) == {"tau=0.5"}


def test_study_that_was_not_run_leaves_the_claim_open():
    for name in ("cpu-fashion", "cpu-static"):
        ours = claim(rule(where={"study": name}))
        assert decide(ours, {"cpu": pd.DataFrame()}, REPORTED).verdict == "open"


def test_a_study_decides_whatever_profile_is_asked_for():
    write("cpu-fashion", fashion())
    for profile in ("quick", "cpu"):
        verdict = decide(claim(rule()), {profile: pd.DataFrame()}, REPORTED).verdict
        assert verdict == "holds here with limits"


def test_table_of_a_study_outside_the_grid_is_read_by_its_own_names():
    levels = {
        "plain": ("infonce", 0.0, LEVEL),
        "blend": ("weince", 0.0, {s: LEVEL[s] + GAINS[s] for s in LEVEL}),
    }
    write("cpu-unlisted", levels, metric="sts_spearman")
    for method, against in (("weince", "infonce"), ("blend", "plain")):
        where = {"study": "cpu-unlisted", "method": method, "against": against}
        ours = parse(Ours, rule(where=where | {"metric": "sts_spearman"}))
        found = measure_study(ours)
        assert found is not None
        assert found.interval.mean == pytest.approx(0.6)
        assert math.isclose(found.interval.n, 4)


def test_unknown_method_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'weibit'.*infonce-tuned"):
        measure_study(parse(Ours, rule(where={"method": "weibit"})))


@pytest.mark.parametrize(
    "wrong",
    [
        rule() | {"rule": "difference-above"},
        rule(where={"split": "test"}),
        rule() | {"where": {"study": "cpu-fashion", "metric": "linear_accuracy"}},
    ],
    ids=["difference", "column", "method"],
)
def test_rule_over_a_study_is_checked(wrong):
    with pytest.raises(ConfigError, match="where"):
        parse(Ours, wrong)
