"""What the README and the PDF say we found, against the committed studies."""

import pytest

from weince_lib.experiments import gain
from weince_lib.experiments.grid import study
from weince_lib.experiments.selection import chosen_by_method, compare, study_frame

FASHION, PAIRS = "cpu-gain-fashion", "cpu-gain-pairs"
CONVERGED = "standardised_linear_accuracy"
METRICS = ("linear_accuracy", CONVERGED, "recall_at_1")
LOWER_TAU = [("infonce-0.2", "infonce-0.5"), ("infonce-0.1", "infonce-0.5")]


def interval(name, method, against, metric=CONVERGED):
    """The paired difference over encoder seeds."""
    chosen = chosen_by_method(study(name), study_frame(study(name)), metric)
    found = compare(chosen[method], chosen[against])
    assert found is not None
    assert found.interval.n >= 4
    return found.interval


def holds_zero(found):
    return found.low <= 0 <= found.high


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("method", "against"), LOWER_TAU)
def test_a_lower_temperature_comes_first(method, against, metric):
    fashion, pairs = (interval(name, method, against, metric) for name in (FASHION, PAIRS))
    assert fashion.low > 0 and 0.75 < fashion.mean < 1.25  # "about a point"
    assert pairs.low > 0 and pairs.mean > 2  # "more than two"


@pytest.mark.parametrize("name", [FASHION, PAIRS])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("tau", ["0.5", "0.2"])
def test_the_blend_at_the_same_temperature(name, metric, tau):
    assert holds_zero(interval(name, f"weince-{tau}", f"infonce-{tau}", metric))


def test_the_blend_against_a_tuned_infonce():
    below = [(FASHION, CONVERGED)]
    below += [(PAIRS, metric) for metric in ("linear_accuracy", "recall_at_1", "knn_accuracy")]
    for name, metric in below:
        assert interval(name, "weince-0.5", "infonce-tuned", metric).high < 0
    for name in (FASHION, PAIRS):
        assert holds_zero(interval(name, "weince-0.2", "infonce-tuned"))


@pytest.mark.parametrize("metric", METRICS)
def test_weights_of_other_anchors_cost_nothing(metric):
    # Not above 0: if anything the shuffled weights do better.
    assert interval(FASHION, "weince-0.5", "weince-shuffled", metric).low <= 0


def test_the_further_losses():
    for metric in METRICS:
        for name in (FASHION, PAIRS):  # as much without the blend as with it
            assert interval(name, "released", "infonce+both", metric).low <= 0
    assert interval(PAIRS, "infonce+both", "infonce-0.5").low > 0
    assert holds_zero(interval(PAIRS, "infonce+both", "infonce-tuned"))
    # Two probes, two answers.
    assert interval(FASHION, "infonce+both", "infonce-tuned", "linear_accuracy").low > 0
    assert interval(FASHION, "infonce+both", "infonce-tuned").high < 0


def test_the_endpoint_alone_is_a_lead_that_did_not_repeat():
    for metric in (*METRICS, "knn_accuracy"):
        assert interval(FASHION, "weibit-2", "infonce-tuned", metric).low > 0
    assert holds_zero(interval(PAIRS, "weibit-2", "infonce-tuned"))
    assert interval(PAIRS, "weibit-2", "infonce-tuned", "recall_at_1").high < 0


def test_the_pure_link_and_a_temperature_as_sharp():
    matched = {}
    for name in (FASHION, PAIRS):
        table = gain.seed_table(study(name), study_frame(study(name)), CONVERGED)
        matched[name] = gain.at_matched_sharpness(table).set_index("method").loc["weibit-2"]
    assert matched[FASHION]["seeds"] == 0  # no temperature is
    assert matched[PAIRS]["seeds"] == 4
    assert matched[PAIRS]["low"] <= 0 <= matched[PAIRS]["high"]


def test_sentences():
    assert holds_zero(interval("cpu-static", "weince", "infonce", "sts_spearman"))
    assert interval("cpu-static", "weince-release", "infonce", "sts_spearman").high < 0
