"""No rule can only come out one way: each is tried on data made to support and to contradict it."""

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
    found = measure(rule, table).interval
    centre = rule.value - found.mean if support(rule) == 0 else 0.0
    answers = {}
    for name, shift in {
        "support": (centre - rule.value) if support(rule) == 0 else support(rule) * FAR,
        "contradict": FAR if support(rule) == 0 else -support(rule) * FAR,
    }.items():
        moved = table.copy()
        numbers = ["value", "low", "high"]
        moved.loc[own, numbers] = moved.loc[own, numbers].astype(float) + shift
        answers[name] = outcome(rule, measure(rule, moved).interval)
    assert answers["contradict"] == "no"
    # A wide interval can support nothing; then it is undecided.
    assert answers["support"] == ("yes" if rule.rule != "within" else answers["support"])
    assert answers["support"] in ("yes", "undecided")


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
            settings = [s.label for s in study.methods.get(methods.get(study.name, ""), ())]
            own = frame["setting"].isin(settings) & (frame["split"] == "test")
            frame.loc[own, "value"] += shift
            return frame

        monkeypatch.setattr(claim_rules, "study_frame", moved)
        found = over_studies(rule) if rule.studies else measure_study(rule)
        if found is None:
            pytest.skip("no runs yet")
        answers[name] = found.outcome if rule.studies else outcome(rule, found.interval)
    assert answers == {"support": "yes", "contradict": "no"}
