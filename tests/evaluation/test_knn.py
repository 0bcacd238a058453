import math

import pytest
import torch

from weince_lib.evaluation import RECALL_KS, knn_evaluate


def data(n, m, classes=5, d=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator}
    return (
        torch.randn(n, d, dtype=torch.float64, **draw),
        torch.randint(classes, (n,), **draw),
        torch.randn(m, d, dtype=torch.float64, **draw),
        torch.randint(classes, (m,), **draw),
    )


def knn_by_loops(bank, bank_labels, queries, query_labels, ks, neighbours, temperature):
    """The protocol of Appendix F.4 in plain Python."""
    bank, queries = bank.tolist(), queries.tolist()
    bank_labels, query_labels = bank_labels.tolist(), query_labels.tolist()
    hits, correct = dict.fromkeys(ks, 0), 0
    for query, truth in zip(queries, query_labels, strict=True):
        scored = []
        for item, label in zip(bank, bank_labels, strict=True):
            dot = sum(a * b for a, b in zip(query, item, strict=True))
            scored.append((dot / (math.hypot(*query) * math.hypot(*item)), label))
        scored.sort(reverse=True)
        for k in ks:
            hits[k] += any(label == truth for _, label in scored[:k])
        votes = {}
        for cosine, label in scored[:neighbours]:
            votes[label] = votes.get(label, 0.0) + math.exp(cosine / temperature)
        correct += max(votes, key=votes.get) == truth
    result = {f"recall_at_{k}": 100 * hits[k] / len(queries) for k in ks}
    return result | {"knn_accuracy": 100 * correct / len(queries)}


@pytest.mark.parametrize("neighbours", [1, 7, 50])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_against_loops(neighbours, temperature):
    sets = data(83, 61)
    expected = knn_by_loops(*sets, RECALL_KS, neighbours, temperature)
    found = knn_evaluate(*sets, neighbours=neighbours, temperature=temperature)
    assert found == pytest.approx(expected)
    assert list(found) == [f"recall_at_{k}" for k in RECALL_KS] + ["knn_accuracy"]


@pytest.mark.parametrize("block", [1, 7, 61, 1000])
def test_the_block_does_not_change_the_result(block):
    sets = data(83, 61)
    assert knn_evaluate(*sets, block=block) == knn_evaluate(*sets)


def test_weights_decide_the_vote():
    # One neighbour of class 1 at cosine 1 against three of class 0 at cosine 0.8:
    # e^(1/T) > 3 e^(0.8/T) exactly when T < 0.2 / log 3 = 0.182.
    bank = torch.tensor([[1.0, 0.0]] + [[0.8, 0.6]] * 3)
    labels = torch.tensor([1, 0, 0, 0])
    query, truth = torch.tensor([[2.0, 0.0]]), torch.tensor([1])
    common = {"ks": (1,), "neighbours": 4}
    narrow = knn_evaluate(bank, labels, query, truth, temperature=0.18, **common)
    wide = knn_evaluate(bank, labels, query, truth, temperature=0.19, **common)
    assert narrow == {"recall_at_1": 100.0, "knn_accuracy": 100.0}
    assert wide == {"recall_at_1": 100.0, "knn_accuracy": 0.0}


def test_a_low_temperature_does_not_overflow():
    sets = data(60, 30)
    found = knn_evaluate(
        *(x.float() if x.is_floating_point() else x for x in sets), temperature=1e-4
    )
    assert found["knn_accuracy"] == found["recall_at_1"]


def with_row(x, row, value):
    x = x.clone()
    x[row] = value
    return x


BANK, BANK_Y, QUERIES, QUERY_Y = data(60, 20)


@pytest.mark.parametrize(
    ("sets", "settings", "message"),
    [
        ((BANK[:49], BANK_Y[:49], QUERIES, QUERY_Y), {}, "49 items and the largest k is 50"),
        ((BANK, BANK_Y, QUERIES, QUERY_Y), {"neighbours": 61}, "60 items and the largest k is 61"),
        ((with_row(BANK, 8, 0.0), BANK_Y, QUERIES, QUERY_Y), {}, "bank: row 8 is zero"),
        (
            (BANK, BANK_Y, with_row(QUERIES, 3, math.nan), QUERY_Y),
            {},
            "queries features: row 3 holds NaN",
        ),
        ((BANK, BANK_Y[1:], QUERIES, QUERY_Y), {}, "bank: 60 rows of features and 59 labels"),
        ((BANK, BANK_Y, QUERIES[:, :2], QUERY_Y), {}, "width 4 and queries 2"),
        ((BANK, BANK_Y, QUERIES, QUERY_Y), {"ks": (0, 1)}, "ks"),
        ((BANK, BANK_Y, QUERIES, QUERY_Y), {"neighbours": 0}, "neighbours"),
        ((BANK, BANK_Y, QUERIES, QUERY_Y), {"temperature": 0.0}, "temperature"),
        ((BANK, BANK_Y, QUERIES, QUERY_Y), {"block": 0}, "block"),
    ],
)
def test_bad_input(sets, settings, message):
    with pytest.raises(ValueError, match=message):
        knn_evaluate(*sets, **settings)
