"""What the README says we found, against the committed studies."""

import re
from pathlib import Path

import pytest

from weince_lib.publish import beyond, findings
from weince_lib.studies.decide import FURTHER_CONTRASTS, finding

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
#: A difference, its interval and the word for it.
DECISION = re.compile(r"[+-]\d+\.\d+ \[[+-]\d+\.\d+, [+-]\d+\.\d+\], [a-z]+(?: within [\d.]+)?")
PROBE, NEAREST, KNN = "standardised_linear_accuracy", "recall_at_1", "knn_accuracy"
CIFAR, FASHION, PAIRS = "CIFAR-10 (JPEG)", "Fashion-MNIST", "digit pairs"
LONGER = "CIFAR-10, longer"


@pytest.fixture(scope="module")
def primary():
    return findings.decisions()


@pytest.fixture(scope="module")
def further():
    return findings.decisions(contrasts=FURTHER_CONTRASTS)


@pytest.fixture(scope="module")
def sentences():
    return findings.sentence_decisions().query("checkpoint == 'best'")


@pytest.fixture(scope="module")
def beside():
    """What the studies of losses with nothing to tune show of sentences."""
    return beyond.shown().query("study == 'cpu-beyond-static'")


def words(found, contrast):
    """The primary measures' words for a contrast, over all data sets."""
    own = found[(found["contrast"] == contrast) & (found["role"] == "primary")]
    return own.loc[own["word"] != "not run", "word"].tolist()


def said(found, contrast, data, metric):
    """A decision as the README writes it."""
    columns = ["contrast", "data", "metric"]
    (row,) = found[(found[columns] == [contrast, data, metric]).all(axis=1)].to_dict("records")
    return finding(row)


def test_the_table_is_the_rules():
    assert findings.markdown(findings.decisions()) in README, (
        "put the output of `python -m weince_lib.publish.findings` into the README, and look "
        "whether its sentences still hold"
    )


def test_every_interval_and_word_is_one_of_the_rules(primary, further, sentences, beside):
    known = {
        finding(row).partition(", by less")[0]
        for found in (primary, further, sentences, beside)
        for row in found.to_dict("records")
    }
    quoted = DECISION.findall(re.sub(r"\s+", " ", README))
    assert len(quoted) > 20
    assert set(quoted) <= known


def test_the_sentences_hold(primary, further):
    longer = primary["data"] == LONGER
    assert set(words(primary[~longer], "lower temperature")) == {"better"}
    assert words(primary[longer], "lower temperature") == ["undecided", "better"]
    assert words(primary[longer], "blend, each tuned on validation") == ["undecided"] * 2
    assert sorted(words(primary[~longer], "blend, each tuned on validation")) == [
        *["better"] * 2,
        "equivalent within 0.97",
        *["undecided"] * 3,
    ]
    own = primary[(primary["data"] == CIFAR) & (primary["role"] == "primary")]
    half = own.loc[own["contrast"] == "blend, each tuned on validation", "difference"]
    assert half.between(0.4, 0.7).all() and len(half) == 2
    assert sorted(words(primary, "own λ, not shuffled")) == ["undecided"] * 2 + ["worse"] * 2
    assert words(own, "own λ, not shuffled") == ["worse"] * 2
    assert sorted(words(primary, "both further losses")) == ["better"] * 5 + ["undecided"]
    tuned = "both further losses, not a tuned temperature"
    assert set(words(further[further["data"] == CIFAR], tuned)) == {"equivalent within 0.97"}
    assert set(words(further[further["data"] != CIFAR], tuned)) == {"undecided"}
    beside = words(further, "blend of the release, with both further losses")
    assert set(beside) == {"undecided"}


def test_each_quoted_decision_is_of_its_contrast(primary, further):
    same, tuned = "blend, at the same temperature", "blend at τ = 0.5, not a tuned temperature"
    link = "endpoint link, β = 2, not a tuned temperature"
    release = "blend of the release, with both further losses"
    text = re.sub(r"\s+", " ", README)
    order = [said(primary, same, FASHION, KNN), said(primary, same, PAIRS, KNN)]
    order += [said(further, tuned, data, PROBE) for data in (FASHION, PAIRS)]
    order += [said(further, release, data, PROBE) for data in (FASHION, PAIRS)]
    order += [said(further, link, data, NEAREST) for data in (FASHION, PAIRS)]
    order.append(said(further, link, PAIRS, KNN))
    place = text.index("speak both ways")
    for quoted in order:
        place = text.index(quoted, place)
    assert said(primary, same, PAIRS, NEAREST).endswith(", worse")


def test_the_floors():
    fashion, pairs = findings.levels("cpu-gain-fashion"), findings.levels("cpu-gain-pairs")
    for table in (fashion, pairs):
        best = table.loc[[n for n in table.index if n.startswith("best of")], "R@1"]
        assert best.item() < table.loc["raw pixels", "R@1"]
    cifar = findings.levels("cpu-cifar-decide")
    floors = cifar.loc[["raw pixels", "raw pixels, centred", "untrained encoder"]].max()
    tuned = cifar.loc[[n for n in cifar.index if "on validation" in n]].min()
    assert ((tuned - floors)[["converged probe", "R@1"]] > 9.5).all()
    assert fashion.loc["supervised encoder", "R@1"] < fashion.loc["raw pixels", "R@1"]


def test_losses_without_the_positive_on_sentences(beside):
    rows = beside.set_index("a")
    text = re.sub(r"\s+", " ", README)
    place = text.index("leave the positive out of the denominator")
    for loss in ("bet-kl", "decoupled-tuned"):
        place = text.index(finding(rows.loc[loss].to_dict()), place)


def test_sentences(sentences):
    rows = sentences.set_index(["method", "against"])
    text = re.sub(r"\s+", " ", README)
    place = text.index("**On sentences**")
    for pair in (("weince", "infonce"), ("weince-release", "infonce")):
        place = text.index(finding(rows.loc[pair].to_dict()), place)
