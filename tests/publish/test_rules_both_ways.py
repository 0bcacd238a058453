"""No rule can only come out one way: each is tried on data made to support and to contradict it."""

import numpy as np
import pandas as pd
import pytest

from weince_lib.experiments import PROFILES, load_claims, load_results
from weince_lib.publish import claim_rules
from weince_lib.publish.claim_rules import measure, measure_study, outcome, over_studies
from weince_lib.studies.grid import STUDIES, study
from weince_lib.studies.selection import study_frame

CLAIMS = [c for c in load_claims() if c.ours is not None]
FROM_STUDIES = [c for c in CLAIMS if c.ours.studies or "method" in c.ours.where]
FROM_TABLES = [c for c in CLAIMS if c not in FROM_STUDIES]
#: Farther than any of our numbers lies from what its rule compares with.
FAR = 1000.0


@pytest.fixture
def committed(monkeypatch):
    """The committed tables, which the other tests of this folder keep out of reach."""
    monkeypatch.delenv("WEINCE_RESULTS")


def support(rule):
    """The side on which a number supports a rule: +1, -1, or 0 for the middle."""
    return {"at-most": -1, "below": -1, "within": 0}.get(rule.rule, 1)


def made_up(study, metric):
    """Rows of a study that nobody has run: all settings alike, but for a little noise."""
    draw = np.random.default_rng(0)
    rows = [
        (setting.label, study.experiment, seed, metric, split, 50 + draw.normal(0, 0.1))
        for setting in study.all_settings()
        for seed in study.seeds
        for split in ("validation", "test")
    ]
    columns = ["setting", "experiment", "seed", "metric", "split", "value"]
    return pd.DataFrame(rows, columns=columns).assign(replicate=0)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("claim", FROM_TABLES, ids=lambda c: c.id)
def test_a_rule_over_a_table(claim):
    rule = claim.ours
    tables = (load_results(name) for name in PROFILES)
    if "study" in rule.where:  # what was measured on that study's encoders
        tables = (study_frame(study(rule.where["study"])),)
        columns = {k: v for k, v in rule.where.items() if k != "study"}
        rule = rule.model_copy(update={"where": columns})
    table = next((t for t in tables if measure(rule, t) is not None), None)
    if table is None:
        pytest.skip("no record yet")
    own = claim_rules._select(table, rule.where).index
    mean = measure(rule, table).interval.mean
    numbers = ["value", "low", "high"]
    answers = {}
    for name, shift in (("support", support(rule) * FAR), ("contradict", -support(rule) * FAR)):
        moved = table.copy()
        values = moved.loc[own, numbers].astype(float)
        if support(rule) == 0:  # near 0 and close together, or far off
            values = 1e-6 * (values - mean) if name == "support" else values + FAR
        moved.loc[own, numbers] = values + shift
        answers[name] = outcome(rule, measure(rule, moved).interval)
    assert answers["contradict"] == "no"
    # Farther off, an interval of one seed is as wide as before, that is without an end.
    assert answers["support"] in ("yes", "undecided")
    if rule.rule == "within" or len(own) > 1:
        assert answers["support"] == "yes"


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("claim", FROM_STUDIES, ids=lambda c: c.id)
def test_a_rule_over_studies(claim, monkeypatch):
    rule = claim.ours
    real = claim_rules.study_frame
    methods = {c.study: c.method for c in rule.studies}
    if not methods:
        methods = {rule.where["study"]: rule.where["method"]}
    if not all(name in STUDIES for name in methods):
        pytest.skip("a study that is only a table")
    answers = {}
    for name, shift in (("support", FAR), ("contradict", -FAR)):
        shift = -shift if rule.rule in ("nowhere-better", "below", "at-most") else shift

        def moved(study, shift=shift):
            frame = real(study).copy()
            if frame.empty:
                frame = made_up(study, rule.where["metric"])
            settings = [s.label for s in study.methods.get(methods.get(study.name, ""), ())]
            own = frame["setting"].isin(settings) & (frame["split"] == "test")
            frame.loc[own, "value"] += shift
            return frame

        monkeypatch.setattr(claim_rules, "study_frame", moved)
        found = over_studies(rule) if rule.studies else measure_study(rule)
        answers[name] = found.outcome if rule.studies else outcome(rule, found.interval)
    assert answers == {"support": "yes", "contradict": "no"}
