"""The geometry of a batch against loops in float64, and on embeddings whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from weince_lib.evaluation import geometry


def by_loops(z0, z1, temperatures):
    z = np.concatenate([z0, z1]).astype(np.float64)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    n, m = len(z0), 2 * len(z0)
    near, far, spread, nats = [], [], [], dict.fromkeys(temperatures, 0.0)
    for i in range(m):
        j = (i + n) % m
        near.append(np.sum((z[i] - z[j]) ** 2))
        others = [k for k in range(m) if k not in (i, j)]
        far += [1 - z[i] @ z[k] for k in others]
        spread += [np.exp(-2 * np.sum((z[i] - z[k]) ** 2)) for k in others]
        for tau in temperatures:
            logits = [z[i] @ z[k] / tau for k in (j, *others)]
            nats[tau] -= (logits[0] - np.logaddexp.reduce(logits)) / m
    return {
        "alignment": np.mean(near),
        "uniformity": np.log(np.mean(spread)),
        "positive_shortfall": np.sort(np.array(near) / 2)[(m - 1) // 2],
        "negative_shortfall": np.sort(far)[(len(far) - 1) // 2],
        "choice_nats": min(nats.values()),
    }


def test_numbers_are_those_of_loops_over_pairs():
    rng = np.random.default_rng(0)
    z0 = rng.standard_normal((24, 6))
    z1 = z0 + 0.7 * rng.standard_normal((24, 6))
    found = geometry(torch.from_numpy(z0).float(), torch.from_numpy(z1).float())
    expected = by_loops(z0, z1, np.geomspace(0.03, 2.0, 400))
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


def test_views_that_tell_nothing_cost_the_logarithm_of_the_candidates():
    z0, z1 = torch.randn(2, 200, 16, generator=torch.Generator().manual_seed(1))
    assert geometry(z0, z1)["choice_nats"] == pytest.approx(math.log(399), abs=0.02)


def test_equal_views_are_aligned_and_chosen_for_certain():
    z = torch.randn(50, 16, generator=torch.Generator().manual_seed(2))
    found = geometry(z, 3.0 * z)
    assert found["alignment"] == pytest.approx(0.0, abs=1e-6)
    assert found["choice_nats"] < 1e-6
