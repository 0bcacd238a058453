import math

import numpy as np
import pytest
import torch

from weince_lib.evaluation import linear_probe
from weince_lib.evaluation.probe import EVALUATION_BLOCK, percent_correct, train_layers

SETTINGS = {"epochs": 4, "batch_size": 16, "learning_rate": 3e-3}


def clusters(n, classes=4, d=6, seed=0, dtype=torch.float64, spread=1.0):
    """Gaussian clusters around fixed centres: features (n, d) and labels (n,)."""
    centres = torch.randn(classes, d, generator=torch.Generator().manual_seed(99), dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    noise = torch.randn(n, d, generator=generator, dtype=dtype)
    return centres[labels] + spread * noise, labels


def probe_by_hand(x, y, seed, *, epochs, batch_size, learning_rate):
    """One probe in numpy: softmax gradient in closed form and Adam written out."""
    x, y = x.numpy(), y.numpy()
    n, d = x.shape
    classes = y.max() + 1
    generator = torch.Generator().manual_seed(seed)
    bound = 1 / np.sqrt(d)
    params = [
        torch.empty(shape).uniform_(-bound, bound, generator=generator).double().numpy()
        for shape in ((classes, d), (classes,))
    ]
    first = [np.zeros_like(p) for p in params]
    second = [np.zeros_like(p) for p in params]
    step = 0
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator).numpy()
        for start in range(0, n, batch_size):
            rows = order[start : start + batch_size]
            logits = x[rows] @ params[0].T + params[1]
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            gradients = [p.T @ x[rows] / len(rows), p.mean(axis=0)]
            step += 1
            for i, g in enumerate(gradients):
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g**2
                m = first[i] / (1 - 0.9**step)
                v = second[i] / (1 - 0.999**step)
                params[i] = params[i] - learning_rate * m / (np.sqrt(v) + 1e-8)
    return params


def test_against_a_loop_by_hand():
    x, y = clusters(41)  # 41 rows in batches of 16: the last batch has 9
    weight, bias = train_layers(x, y, (1, 5), **SETTINGS)
    test_x, test_y = clusters(37, seed=1)
    accuracy = linear_probe(x, y, {"test": (test_x, test_y)}, seeds=(1, 5), **SETTINGS).accuracy
    for i, seed in enumerate((1, 5)):
        w, b = probe_by_hand(x, y, seed, **SETTINGS)
        np.testing.assert_allclose(weight[i].numpy(), w, rtol=0, atol=1e-11)
        np.testing.assert_allclose(bias[i].numpy(), b, rtol=0, atol=1e-11)
        predicted = (test_x.numpy() @ w.T + b).argmax(axis=1)
        assert accuracy["test"][i] == pytest.approx(100 * np.mean(predicted == test_y.numpy()))


def test_learns_separable_clusters_and_scores_every_set():
    x, y = clusters(200, spread=0.1)
    result = linear_probe(
        x.float(),
        y,
        {
            "validation": (x.float(), y),
            "shuffled": (x.float(), y.roll(1)),
            "half": (torch.cat([x, x]), torch.cat([y, y.roll(1)])),
        },
        seeds=(4, 2),
        epochs=60,
        learning_rate=0.02,
    )
    assert result.seeds == (4, 2)
    assert result.accuracy["validation"] == (100.0, 100.0)
    assert result.accuracy["shuffled"] == (0.0, 0.0)
    assert result.accuracy["half"] == (50.0, 50.0)


def test_every_row_of_a_large_set_counts():
    n = EVALUATION_BLOCK + 3
    x = torch.ones(n, 1)
    y = torch.zeros(n).long()
    y[-1] = 1  # only the last row of the last, incomplete block is of class 1
    weight, bias = torch.tensor([[[1.0], [0.0]], [[0.0], [1.0]]]), torch.zeros(2, 2)
    assert percent_correct(weight, bias, x, y) == (100 * (n - 1) / n, 100 / n)


def test_works_under_no_grad_and_leaves_the_global_generator_alone():
    x, y = clusters(40)
    before = torch.get_rng_state()
    with torch.no_grad():
        inside = train_layers(x, y, (1,), **SETTINGS)[0]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(inside, train_layers(x, y, (1,), **SETTINGS)[0])
    assert not inside.requires_grad


X, Y = clusters(20)
DAMAGED = X.index_fill(0, torch.tensor([7]), math.nan)


@pytest.mark.parametrize(
    ("train", "evaluate", "settings", "message"),
    [
        ((DAMAGED, Y), {"test": (X, Y)}, {}, "train features: row 7 .* 1 of 20"),
        ((X, Y[:-1]), {"test": (X, Y)}, {}, "20 rows of features and 19 labels"),
        ((X, Y), {"test": (X[:, :3], Y)}, {}, "width 3"),
        ((X, Y), {"test": (X, Y + 1)}, {}, "test labels hold class 4, train labels only 0 to 3"),
        ((X, Y - 1), {"test": (X, Y)}, {}, "train labels: row 0 is -1"),
        ((X.long(), Y), {"test": (X, Y)}, {}, "floating point"),
        ((X, Y), {}, {}, "evaluate is empty"),
        ((X, Y), {"test": (X, Y)}, {"seeds": (1, 1)}, "seeds"),
        ((X, Y), {"test": (X, Y)}, {"epochs": 0}, "epochs"),
        ((X, Y), {"test": (X, Y)}, {"batch_size": 0}, "batch_size"),
        ((X, Y), {"test": (X, Y)}, {"learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_bad_input(train, evaluate, settings, message):
    with pytest.raises(ValueError, match=message):
        linear_probe(*train, evaluate, **settings)
