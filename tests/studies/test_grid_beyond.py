"""Losses with nothing to tune: the studies' arms, the gate both ways, and the decision by Holm."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sample_runs import TINY
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from weince_lib import paths
from weince_lib.cli import main
from weince_lib.experiments import PROFILES, ConfigError
from weince_lib.losses import EndpointLoss
from weince_lib.studies import collect, floors, grid_beyond, grid_cifar, plan, registered, sweep
from weince_lib.studies.decide import (
    BEYOND,
    NOT_FINISHED,
    NOT_RUN,
    PRIMARY_CONTRASTS,
    RULE,
    UNDECIDED,
    Contrast,
    Rule,
    decide,
    decide_beyond,
    decide_elsewhere,
    holm,
)
from weince_lib.studies.grid import STUDIES, Setting, study
from weince_lib.studies.grid_beyond import (
    BETS,
    CONDITIONS,
    DECISION,
    DECOUPLED,
    GATE,
    GATE_FASHION,
    GATES,
    GOES,
    INFONCE,
    MEASURES,
    PASSES,
    decision,
    elsewhere,
    gate,
)

PROBE, RECALL = MEASURES
each_gate = pytest.mark.parametrize("name", sorted(GATES))


def table(study, better=(), measures=(PROBE, RECALL), split="validation"):
    """A study's rows: 50 percent everywhere on validation, but for the points in ``better``.

    ``better`` holds (method, measure, points); the test set likes what validation does not.
    """
    points = {(method, measure): value for method, measure, value in better}
    rows = [
        {
            "setting": settings[0].label,
            "seed": seed,
            "metric": measure,
            "split": split,
            "value": 50.0
            + 0.1 * (seed - study.seeds[0])
            + (1 if split == "validation" else -9) * points.get((method, measure), 0.0),
        }
        for method, settings in study.methods.items()
        if len(settings) == 1
        for seed in study.seeds
        for measure in measures
        for split in ("validation", "test")
    ]
    return pd.DataFrame(rows)


# Arms ------------------------------------------------------------------------------------------


@each_gate
def test_arms_and_their_order(name):
    chosen = study(name)
    runs = chosen.runs()
    assert len(runs) == len({run.key for run in runs}) == 22 * 4
    assert [run.seed for run in runs] == [s for s in (301, 302, 303, 304) for _ in range(22)]
    # The bets come first, then what they are compared with.
    first = [run.setting for run in runs[:4]]
    assert first[:3] == [f"self-setting rule={rule}" for rule in ("tail", "median", "kl")]
    assert first[3] == "tau=0.05"
    taus = [s.temperature for s in chosen.methods["infonce-tuned"]]
    assert taus == [0.05, 0.07, 0.1, 0.16, 0.2, 0.3, 0.5]
    assert 1 / math.log(510) == pytest.approx(0.16, abs=0.0005)
    assert len(chosen.methods["decoupled-tuned"]) == len(chosen.methods["hard-tuned"]) == 3
    losses = {str(run.config.build_loss()) for run in runs}
    assert len(losses) == 22


def test_the_two_studies_have_the_same_arms_and_the_same_rule():
    assert GATE.methods == GATE_FASHION.methods and GATE.seeds == GATE_FASHION.seeds
    assert GATE.rule == GATE_FASHION.rule and GATE.predictions == GATE_FASHION.predictions
    assert set(GATE.predictions) == set(BETS)
    assert len({run.key for s in GATES.values() for run in s.runs()}) == 176


def test_the_recipe_on_cifar_is_that_of_the_study_before():
    mine, before = GATE.runs()[3].config, grid_cifar.SCREENING.runs()[0].config
    assert mine.temperature == before.temperature == 0.05
    assert mine == before.model_copy(update={"seed": 301})


def test_seeds_are_fresh():
    seeds = [set(s.seeds) for s in (GATE, grid_beyond.DECISION)]
    seeds += [set(s.seeds) for name, s in STUDIES.items() if not name.startswith("cpu-beyond")]
    for mine, other in itertools.product(seeds[:2], seeds[2:]):
        assert not mine & other
    assert not seeds[0] & seeds[1] and len(seeds[1]) == 12


def test_the_fixed_link_is_the_power_that_it_names():
    for power in (5.0, 10.0):
        built = GATE.methods[f"power-{power:g}"][0].config("cpu", 301, {}).build_loss()
        same = EndpointLoss.from_power(power, 0.1)
        assert isinstance(built, EndpointLoss) and not built.link.decoupled
        assert built.temperature == same.temperature
        assert built.link.offset == pytest.approx(0.1)
        assert built.temperature == pytest.approx(1.1 / power)


def test_labels_of_named_losses():
    assert DECOUPLED["decoupled-0.1"].label == "endpoint curvature=0 decoupled=True tau=0.1"
    whole = Setting("endpoint", 0.2, options={"curvature": 0.9, "decoupled": False})
    assert (
        whole.label == Setting("endpoint", 0.2).label == Setting("endpoint", 0.2, options={}).label
    )
    assert whole.config("quick", 7, {}) == Setting("endpoint", 0.2).config("quick", 7, {})
    assert Setting("self-setting", options={"rule": "kl"}).label == "self-setting rule=kl"
    assert hash(whole) == hash(dataclasses.replace(whole))
    with pytest.raises(ConfigError, match="no option 'g'"):
        Setting("endpoint", options={"g": 1.0}).config("quick", 7, {})


def test_the_gates_are_registered_with_their_rule_and_predictions():
    for name, chosen in GATES.items():
        assert name in registered.registered()
        registered.check(chosen)
        for change in (
            {"rule": "whatever"},
            {"predictions": {}},
            {"predictions": {"bet-kl": "something else"}},
        ):
            with pytest.raises(ConfigError):
                registered.check(dataclasses.replace(chosen, **change))
    with pytest.raises(ConfigError, match="predicts 'bet-x'"):
        dataclasses.replace(GATE, predictions={"bet-x": "?"})


def test_a_study_without_rule_and_predictions_keeps_its_definition():
    old = grid_cifar.SCREENING.definition()
    assert '"rule"' not in old and '"predictions"' not in old


def test_the_plan_shows_rule_and_predictions(monkeypatch):
    text = "\n".join(plan.plan(GATE, step_seconds=0.36))
    assert "88 (22 settings x 4 encoder seeds)" in text
    assert "A: endpoint from the tail: one and the same" in text
    assert "goes or is redesigned" in text


# Gate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probe", "recall", "verdict"),
    [
        (0.0, 0.0, PASSES),
        (1.0, -5.0, PASSES),
        (-5.0, -0.2, PASSES),
        (-0.3, -0.3, PASSES),
        (-0.31, -0.31, GOES),
        (-0.31, -0.29, PASSES),
        (-4.0, -4.0, GOES),
    ],
)
@each_gate
def test_a_bet_goes_if_it_is_below_on_both_measures(name, probe, recall, verdict):
    rows = table(
        study(name),
        [
            ("bet-tail", PROBE, 1.0 + probe),
            ("bet-tail", RECALL, 2.0 + recall),
            ("bet-kl", PROBE, -1.0),
            ("bet-kl", RECALL, -1.0),
            ("bet-median", PROBE, 9.0),
            ("bet-median", RECALL, 9.0),
            ("infonce-0.07", PROBE, 1.0),
            ("infonce-0.07", RECALL, 2.0),
            # Another temperature that is better on R@1 alone does not count.
            ("infonce-0.2", RECALL, 7.0),
            ("decoupled-0.2", PROBE, 0.5),
        ],
    )
    found = gate(study(name), rows)
    own = found.table.set_index("method")
    assert (found.infonce, found.decoupled) == (0.07, 0.2)
    assert own.loc["bet-tail", "verdict"] == verdict
    assert own.loc["bet-tail", f"{PROBE}_difference"] == pytest.approx(probe)
    assert own.loc["bet-tail", f"{RECALL}_difference"] == pytest.approx(recall)
    assert own.loc["bet-kl", "verdict"] == GOES
    assert own.loc["bet-median", "verdict"] == PASSES
    assert set(own["verdict"].drop(list(BETS))) == {""}
    assert found.passing == [b for b in BETS if own.loc[b, "verdict"] == PASSES]
    text = found.text()
    assert "τ = 0.07" in text and text.count(GOES) + text.count(PASSES) == 3
    (line,) = (line for line in text.splitlines() if line.startswith("A: "))
    assert line.endswith(verdict) and f"{probe:+.2f}" in line


def test_of_equal_temperatures_the_lower_counts():
    assert gate(GATE, table(GATE)).infonce == 0.05
    rows = table(GATE, [("infonce-0.3", PROBE, 1.0), ("infonce-0.16", PROBE, 1.0)])
    assert gate(GATE, rows).infonce == 0.16


@each_gate
def test_no_verdict_before_the_end(name):
    rows = table(study(name))
    late = rows[(rows["setting"] != "self-setting rule=kl") | (rows["seed"] != 303)]
    with pytest.raises(ConfigError, match=f"{name} lacks .* of self-setting rule=kl, seed 303"):
        gate(study(name), late)


def written(name, rows):
    """Put rows where the study's table is."""
    path = sweep.table_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    missing = [c for c in collect.STUDY_COLUMNS if c not in rows]
    rows.assign(**dict.fromkeys(missing, "")).assign(replicate=0).to_csv(path, index=False)


def test_commands():
    written("cpu-beyond", table(GATE, [("bet-kl", m, -1.0) for m in MEASURES]))
    shown = CliRunner().invoke(main, ["study", "gate", "cpu-beyond"])
    assert shown.exit_code == 0 and GOES in shown.stdout
    made = CliRunner().invoke(main, ["study", "choose", "cpu-beyond"])
    assert made.exit_code == 0, made.output
    text = (paths.results() / "studies" / "cpu-beyond.chosen.toml").read_text()
    assert tomllib.loads(text) == {
        "infonce": 0.05,
        "decoupled": 0.05,
        "passing": ["bet-tail", "bet-median"],
    }
    for command in ("gate", "choose"):
        with pytest.raises(ConfigError, match=r"cpu-fashion .*cpu-beyond, cpu-beyond-fashion"):
            getattr(sweep, command)("cpu-fashion")


def test_every_arm_is_trained_and_judged(monkeypatch):
    """Two epochs on a few digits: no run fails, and the gate has its table."""
    monkeypatch.setitem(PROFILES, "quick", TINY)
    small = dataclasses.replace(GATE, name="tiny-gate", profile="quick", settings={}, seeds=(7,))
    monkeypatch.setitem(STUDIES, small.name, small)
    assert sweep.work([small.name]) == 0
    found = gate(small, sweep.load_study(small.name))
    assert len(found.table) == 22 and found.table[list(MEASURES)].notna().all(axis=None)


# Decision --------------------------------------------------------------------------------------

CHOSEN = {
    "cpu-beyond": {"infonce": 0.07, "decoupled": 0.1, "passing": ["bet-tail", "bet-kl"]},
    "cpu-beyond-fashion": {"infonce": 0.1, "decoupled": 0.2, "passing": ["bet-tail", "bet-median"]},
}


def test_finalists_pass_both_gates_and_temperatures_are_each_sets_own():
    made = {name: decision(GATES[name], CHOSEN) for name in GATES}
    for name, chosen in made.items():
        assert [b for b in BETS if chosen.methods[b]] == ["bet-tail"]
        taus = CHOSEN[name]
        assert chosen.methods["infonce-tuned"][0].temperature == taus["infonce"]
        assert chosen.methods["decoupled-tuned"][0].temperature == taus["decoupled"]
        assert len(chosen.runs()) == 3 * 12
        assert chosen.settings == GATES[name].settings
    waiting = decision(GATE, {**CHOSEN, "cpu-beyond-fashion": None})
    assert not any(waiting.methods[bet] for bet in BETS)
    assert waiting.methods["infonce-tuned"] == (INFONCE["infonce-0.07"],)


def test_the_decisions_definition_does_not_depend_on_what_was_chosen():
    before = decision(GATE, dict.fromkeys(GATES))
    assert not before.runs()
    assert registered.digest(before) == registered.digest(decision(GATE, CHOSEN))
    assert len(floors.floors_of(before, ["untrained"])) == 12
    with pytest.raises(ConfigError, match="no runs yet: passed the gates cpu-beyond and"):
        plan.plan(before, step_seconds=0.1)
    with pytest.raises(ConfigError, match="no finalists"):
        decide_beyond(before, pd.DataFrame(columns=list(collect.STUDY_COLUMNS)))


def test_what_was_chosen_is_what_the_committed_gates_choose(monkeypatch):
    monkeypatch.delenv("WEINCE_RESULTS")
    for name, chosen in GATES.items():
        path = paths.root() / "paper" / "results" / "studies" / grid_beyond.chosen_file(name)
        if path.exists():
            assert path.read_text() == grid_beyond.chosen_text(gate(chosen, sweep.load_study(name)))


def test_holms_p_values():
    p = [0.01, 0.04, 0.03, 0.9]
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    # What could not be tested counts in the family.
    assert holm([0.01, math.nan, 0.02])[::2] == pytest.approx([0.03, 0.04])
    assert math.isnan(holm([0.01, math.nan])[1])
    assert holm([]) == []


METHODS = ("tuned", "a", "b", "c")
CONTRASTS = [Contrast(m, m, "tuned") for m in METHODS[1:]]


def seeds_of(effects, deviation=0.4, seeds=12, draw=None):
    draw = draw or np.random.default_rng(3)
    y = 55 + draw.normal(size=(seeds, 1)) + deviation * draw.normal(size=(seeds, 4)) + effects
    return pd.DataFrame(
        {"method": m, "seed": s, "accuracy": y[s, k]}
        for k, m in enumerate(METHODS)
        for s in range(seeds)
    )


def test_words_of_the_rule_beyond_the_blend():
    rows = seeds_of((0.0, 2.0, -2.0, 0.0), deviation=0.2)
    assert decide(rows, CONTRASTS, rule=BEYOND)["word"].tolist() == [
        "better",
        "worse",
        "equivalent within 0.5",
    ]
    rows = seeds_of((0.0, 0.25, -0.25, 0.0), deviation=0.05)
    assert decide(rows, CONTRASTS, rule=BEYOND)["word"].tolist()[:2] == [
        "better, by less than 0.5",
        "worse, by less than 0.5",
    ]
    rows = seeds_of((0.0, 0.0, 0.0, 0.0), deviation=2.0)
    assert set(decide(rows, CONTRASTS, rule=BEYOND)["word"]) == {UNDECIDED}
    late = rows[(rows["method"] != "a") | (rows["seed"] < 5)]
    found = decide(late, CONTRASTS, rule=BEYOND, seeds=range(12))
    assert found["word"].tolist()[0] == NOT_FINISHED
    absent = decide(rows[rows["method"] != "a"], CONTRASTS, rule=BEYOND)
    assert absent["word"].tolist()[0] == NOT_RUN and math.isnan(absent["p_equivalent"][0])


def test_two_one_sided_tests_are_the_textbooks():
    rows = seeds_of((0.0, 0.1, 0.0, 0.0))
    two = rows[rows["method"].isin(["tuned", "a"])]
    found = decide(two, CONTRASTS[:1], rule=Rule(margin=0.5, holm=True, variance_level=0.999))
    wide = two.pivot_table(index="seed", columns="method", values="accuracy")
    p, *_ = DescrStatsW(wide["a"] - wide["tuned"]).ttost_mean(-0.5, 0.5)
    assert found["p_equivalent"][0] == pytest.approx(p)


def test_holm_finds_what_bonferroni_does_and_more_and_the_old_rule_stays():
    draw = np.random.default_rng(5)
    more = 0
    for _ in range(100):
        rows = seeds_of(draw.normal(0, 0.3, 4), draw=draw)
        ours, old = (decide(rows, CONTRASTS, rule=Rule(margin=0.5, holm=h)) for h in (True, False))
        found, before = (f["word"].str.startswith(("better", "worse")) for f in (ours, old))
        assert (found | ~before).all()
        more += int((found & ~before).sum())
        assert ((ours["p_adjusted"] < 0.05) == found).all()
        same = ["difference", "error", "df", "low", "high", "p"]
        pd.testing.assert_frame_equal(ours[same], old[same])
    assert more > 0
    assert not RULE.holm and RULE.margin == 0.97 and "p_equivalent" not in old


@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_wrong_words_are_rare(effect):
    """Without a difference: better or worse. With one of the margin: less than the margin."""
    draw = np.random.default_rng(8)
    wrong = 0
    for _ in range(300):
        words = decide(seeds_of((0.0, effect, effect, effect), draw=draw), CONTRASTS, rule=BEYOND)[
            "word"
        ]
        lies = words.str.startswith(("better", "worse"))
        if effect:
            lies = words.str.contains("0.5")
        wrong += lies.any()
    assert wrong / 300 <= 0.09  # three standard errors above 0.05


def test_a_decision_of_made_up_records():
    chosen = decision(
        GATE, {n: {**c, "passing": ["bet-tail", "bet-kl"]} for n, c in CHOSEN.items()}
    )
    draw = np.random.default_rng(0)
    frame = table(chosen)
    frame["value"] += draw.normal(0, 0.1, len(frame))
    frame.loc[frame["setting"] == "self-setting rule=kl", "value"] -= 3.0
    frame = frame.assign(replicate=0)
    found = decide_beyond(chosen, frame)
    first = found[found["family"] == "infonce-tuned"]
    words = first.set_index(["a", "metric"])["word"]
    for measure in MEASURES:
        assert words["bet-tail", measure] == "equivalent within 0.5"
        assert words["bet-kl", measure] == "worse"
    assert list(dict.fromkeys(found["family"])) == [
        "infonce-tuned",
        "decoupled-tuned",
        "decoupled-tuned, infonce-tuned",
    ]
    # The family is the finalists: two, not three.
    row = first.iloc[0]
    assert row["contrast"] == "A: endpoint from the tail, not InfoNCE, τ on validation"
    assert len(PRIMARY_CONTRASTS) == 5


# Elsewhere ----------------------------------------------------------------------------------------


def conditions(passing=("bet-tail",)):
    """The six studies as they are once the gates have chosen InfoNCE at 0.1 and a bet."""
    one = {"infonce": 0.1, "decoupled": 0.1, "passing": list(passing)}
    return [elsewhere(condition, dict.fromkeys(GATES, one)) for condition in CONDITIONS]


def test_elsewhere_one_thing_is_another_and_no_seed_is_shared():
    studies = conditions()
    seeds = [seed for s in studies for seed in s.seeds]
    assert len(seeds) == len(set(seeds)) == 18
    assert not set(seeds) & {*GATE.seeds, *DECISION.seeds}
    usual = GATE.example(1).canonical()
    for chosen, (_, change) in zip(studies, CONDITIONS.values(), strict=True):
        own = chosen.example(1).canonical()
        common = {n for n in own if own[n] != usual.get(n)} - {"loss", "options", "temperature"}
        assert common == set(change)
        assert len(chosen.all_settings()) == 6
        assert chosen.methods["infonce-fixed"][0].temperature == 0.1


def test_elsewhere_has_no_finalist_before_the_gates():
    studies = conditions(passing=())
    frames = [table(chosen) for chosen in studies]
    assert decide_elsewhere(studies, frames).empty


def test_a_mean_over_conditions_is_that_of_a_regression():
    studies = conditions()
    draw, frames, rows = np.random.default_rng(4), [], []
    for chosen in studies:
        # Validation chooses InfoNCE at 0.07; 0.1 is the fixed temperature.
        frame = table(chosen, [("infonce-0.07", m, 0.1) for m in MEASURES])
        frame = frame.drop_duplicates(["setting", "seed", "metric", "split"]).reset_index(drop=True)
        on_test = frame["split"] == "test"
        frame.loc[on_test, "value"] += draw.normal(0, 1, on_test.sum())
        frames.append(frame.assign(replicate=0))
        test = frame[(frame["split"] == "test") & (frame["metric"] == PROBE)]
        wide = test.pivot(index="seed", columns="setting", values="value")
        for against, setting in (("infonce-tuned", "tau=0.07"), ("infonce-fixed", "tau=0.1")):
            gap = wide["self-setting rule=tail"] - wide[setting]
            rows += [{"study": chosen.name, "against": against, "gap": g} for g in gap]
    found = decide_elsewhere(studies, frames).query("metric == @PROBE").set_index("b")
    for against, own in pd.DataFrame(rows).groupby("against"):
        fit = OLS(own["gap"], pd.get_dummies(own["study"], dtype=float)).fit()
        mean = fit.t_test(np.full((1, 6), 1 / 6))
        row = found.loc[against]
        assert row["difference"] == pytest.approx(float(mean.effect[0]))
        assert (row["low"], row["high"]) == pytest.approx(tuple(mean.conf_int()[0]))
        assert row["df"] == 12 and len(row["by_study"]) == 6
    assert (
        decide_elsewhere(studies, [f[f["seed"] != 501] for f in frames])["word"]
        .eq(NOT_FINISHED)
        .all()
    )
