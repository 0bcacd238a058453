"""What the README says we found, against the committed studies."""

import pytest

from weince_lib.experiments.grid import study
from weince_lib.experiments.selection import chosen_by_method, compare, study_frame

METRICS = ("linear_accuracy", "standardised_linear_accuracy", "recall_at_1")


def interval(name, method, against, metric):
    """The paired difference over encoder seeds."""
    chosen = chosen_by_method(study(name), study_frame(study(name)), metric)
    found = compare(chosen[method], chosen[against])
    assert found is not None
    assert found.interval.n >= 3
    return found.interval


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("method", "against"),
    [
        ("infonce-0.2", "infonce-0.5"),
        ("infonce-0.1", "infonce-0.5"),
        ("weibit-2", "infonce-tuned"),
    ],
)
def test_what_helps(method, against, metric):
    assert interval("cpu-gain-fashion", method, against, metric).low > 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("method", "against"),
    [
        ("weince-0.5", "infonce-0.5"),
        ("weince-0.2", "infonce-0.2"),
        ("weince-0.5", "weince-shuffled"),
        ("released", "infonce+both"),
    ],
)
def test_what_we_cannot_tell(method, against, metric):
    found = interval("cpu-gain-fashion", method, against, metric)
    assert found.low <= 0 <= found.high


@pytest.mark.parametrize("method", ["released", "infonce+both"])
def test_the_further_losses(method):
    for metric in ("linear_accuracy", "recall_at_1"):
        assert interval("cpu-gain-fashion", method, "infonce-0.5", metric).low > 0
    found = interval("cpu-gain-fashion", method, "infonce-0.5", "standardised_linear_accuracy")
    assert found.low <= 0 <= found.high


@pytest.mark.parametrize("metric", METRICS)
def test_the_blend_does_not_reach_a_tuned_infonce(metric):
    found = interval("cpu-fashion", "weince-tuned", "infonce-tuned", metric)
    assert found.mean < 0 <= found.high


def test_sentences():
    found = interval("cpu-static", "weince", "infonce", "sts_spearman")
    assert found.low <= 0 <= found.high
    assert interval("cpu-static", "weince-release", "infonce", "sts_spearman").high < 0
