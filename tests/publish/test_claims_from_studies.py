"""Claims that a study decides: paired over encoder seeds, each method as validation chose it."""

import re

import pandas as pd
import pytest
from sample_claims import REPORTED, claim
from scipy import stats

from weince_lib import files
from weince_lib.experiments import ConfigError
from weince_lib.publish.claim_rules import Ours, measure_study
from weince_lib.publish.claims import decide
from weince_lib.runs.config import parse
from weince_lib.studies.collect import STUDY_COLUMNS as COLUMNS
from weince_lib.studies.collect import table_path
from weince_lib.studies.decide import decide as one_rule
from weince_lib.studies.grid import study

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
    assert decision.verdict == "measured here, with limits"
    second = study("cpu-fashion").methods["weince-tuned"][1].label
    assert f"weince-tuned ({second}) against infonce (tau=0.5)" in decision.evidence
    keys = {f"{s}-{seed}" for s in ("tau=0.5", second) for seed in LEVEL}
    assert set(decision.records) == keys


@pytest.mark.parametrize(
    ("offset", "least", "verdict"),
    [
        (0.0, None, "measured here, with limits"),
        (-2.0, None, "does not hold here"),
        (-0.6, 0.97, "does not hold here"),
        (-0.6, 0.2, "undecided here"),
        (-0.6, None, "undecided here"),
    ],
)
def test_study_decides_by_its_interval(offset, least, verdict):
    write("cpu-fashion", fashion(offset))
    decision = decide(claim(rule(least=least)), {"cpu": pd.DataFrame()}, REPORTED)
    assert decision.verdict == verdict
    assert bool(decision.needs) == (verdict == "undecided here")


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
        assert verdict == "measured here, with limits"


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


#: Seeds have levels of their own; what is left of a setting is a tenth of a point.
NOISE = {7: 0.1, 21: -0.1, 63: 0.05, 84: -0.05}


def gain_study(name, gains, metric="standardised_linear_accuracy", seeds=LEVEL):
    """A table of a study of single settings; ``gains`` is method to its gain over 80 or so."""
    levels = {}
    for k, (method, gain) in enumerate(gains.items()):
        (setting,) = study(name).methods[method]
        own = {s: LEVEL[s] + gain + NOISE[s] * (-1) ** k for s in seeds}
        levels[setting.label] = (setting.loss, 0.0, own)
    write(name, levels, metric=metric)


def several(kind="better-everywhere", metric="standardised_linear_accuracy", **more):
    pairs = [
        {"study": name, "method": "weince-0.5", "against": "infonce-0.5"}
        for name in ("cpu-gain-fashion", "cpu-gain-pairs", "cpu-cifar-decide")
    ]
    ours = {"rule": kind, "value": 0.0, "least": 0.97, "quantity": "gain, points"}
    return ours | {"where": {"metric": metric}, "studies": pairs} | more


FASHION, PAIRS = "cpu-gain-fashion", "cpu-gain-pairs"


@pytest.mark.parametrize(
    ("kind", "fashion_gain", "pairs_gain", "verdict"),
    [
        ("better-everywhere", 3.0, 3.0, "measured here, with limits"),
        ("better-everywhere", 3.0, -3.0, "does not hold here"),
        ("better-everywhere", 3.0, 0.0, "does not hold here"),
        ("nowhere-better", 3.0, -3.0, "does not hold here"),
        ("nowhere-better", 0.0, -3.0, "measured here, with limits"),
    ],
)
def test_every_study_has_to_bear_a_claim_out_and_one_refutes_it(
    kind, fashion_gain, pairs_gain, verdict
):
    for name, gain in ((FASHION, fashion_gain), (PAIRS, pairs_gain)):
        gain_study(name, {"infonce-0.5": 0.0, "weince-0.5": gain})
    decision = decide(claim(several(kind)), {"quick": pd.DataFrame()}, REPORTED)
    assert decision.verdict == verdict
    assert [word for word in (FASHION, PAIRS, "cpu-cifar") if word in decision.ours] == [
        FASHION,
        PAIRS,
    ]
    assert len(decision.records) == 8
    # The same as the one rule says, as one contrast of five.
    table = pd.DataFrame(
        [
            {"method": m, "seed": s, "accuracy": LEVEL[s] + g + NOISE[s] * sign}
            for m, g, sign in (("infonce-0.5", 0.0, 1), ("weince-0.5", fashion_gain, -1))
            for s in LEVEL
        ]
    )
    row = one_rule(table).iloc[1]
    assert f"{FASHION} {row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}] " in (
        decision.ours
    )
    assert row["word"] in decision.ours


def test_studies_that_cannot_tell_leave_the_claim_undecided():
    wide = {7: 3.0, 21: -3.0, 63: 2.0, 84: -2.0}
    (plain,), (blend,) = (study(PAIRS).methods[m] for m in ("infonce-0.5", "weince-0.5"))
    varied = {s: LEVEL[s] + 1.0 + wide[s] for s in LEVEL}
    levels = {plain.label: ("infonce", 0.0, LEVEL), blend.label: ("weince", 0.0, varied)}
    write(PAIRS, levels, metric="recall_at_1")
    decision = decide(claim(several(metric="recall_at_1")), {"quick": pd.DataFrame()}, REPORTED)
    assert decision.verdict == "undecided here"
    assert "undecided" in decision.ours
    assert re.search(r"\d+\.\d points", decision.needs)


def test_study_that_is_not_finished_has_no_part():
    gain_study(FASHION, {"infonce-0.5": 0.0, "weince-0.5": 3.0})
    gain_study(PAIRS, {"infonce-0.5": 0.0, "weince-0.5": -3.0}, seeds=(7, 21))
    decision = decide(claim(several()), {"quick": pd.DataFrame()}, REPORTED)
    assert decision.verdict == "measured here, with limits"
    assert PAIRS not in decision.ours
    assert decide(claim(several(metric="knn_accuracy")), {}, REPORTED).verdict == "open"


def test_further_metric_of_a_study_is_shown_and_does_not_decide():
    gain_study(FASHION, {"infonce-0.5": 0.0, "weince-0.5": 3.0})
    shown = several(also=[{"metric": "standardised_linear_accuracy", "words": "once more"}])
    decision = decide(claim(shown), {}, REPORTED)
    assert decision.verdict == "measured here, with limits"
    assert re.search(r"better \(once more \+[23]\.\d\d \[.+\] better\)$", decision.ours)


def test_method_of_several_settings_is_the_one_validation_chose():
    write("cpu-fashion", fashion(offset=2.0))
    pair = {"study": "cpu-fashion", "method": "weince-tuned", "against": "infonce"}
    ours = several(metric="linear_accuracy", studies=[pair])
    decision = decide(claim(ours), {}, REPORTED)
    assert "cpu-fashion +2.60 [" in decision.ours  # the third setting would give one more
    assert decision.verdict == "measured here, with limits"


def test_unknown_study_of_a_claim_is_named():
    pair = {"study": "cpu-fashoin", "method": "weince", "against": "infonce"}
    with pytest.raises(ConfigError, match="cpu-fashoin"):
        decide(claim(several(studies=[pair])), {}, REPORTED)
