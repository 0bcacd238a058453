"""TailMonitor: its numbers, that it does not wait for a device, and what it writes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from weince_lib.losses import TailEvidence, TailMonitor, WEINCELoss

ANCHORS = 37


def evidence(seed: int, anchors: int = ANCHORS, dtype: torch.dtype = torch.float64) -> TailEvidence:
    generator = torch.Generator().manual_seed(seed)
    rho, beta, lam = torch.rand(3, anchors, generator=generator, dtype=torch.float64)
    delta_aic = 4 * torch.randn(anchors, generator=generator, dtype=torch.float64)
    beta[:3] = 0.0  # no fit
    delta_aic[:3] = 100.0
    return TailEvidence(rho, 3 * beta, delta_aic, lam, rho.min()).to(dtype)


def summed_up(steps: list[TailEvidence], margin: float, quantiles: tuple[float, ...]) -> dict:
    """The same in numpy, step by step."""
    rows = []
    for e in steps:
        rho, beta, delta_aic, lam = (
            getattr(e, name).double().numpy() for name in ("rho", "beta", "delta_aic", "lam")
        )
        row = {"lam": lam.mean(), "corrected": (lam > 0.5).mean()}
        row["duplicates"] = (rho <= 2e-6).mean()
        row["gate_open"] = ((delta_aic > margin) & (beta != 0)).mean()
        for name, values in (("beta", beta), ("rho", rho)):
            row[name] = np.quantile(values, 0.5, method="inverted_cdf")
            for q in quantiles:
                row[f"{name}_q{100 * q:g}"] = np.quantile(values, q, method="inverted_cdf")
        rows.append(row)
    return {name: np.mean([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("quantiles", [(0.1, 0.9), (0.25,), (), (0.025, 0.5, 1.0)])
@pytest.mark.parametrize("margin", [2.0, -1.0])
def test_summary_is_the_mean_over_steps(margin: float, quantiles: tuple[float, ...]) -> None:
    monitor = TailMonitor(margin, quantiles)
    steps = [evidence(seed, ANCHORS + seed) for seed in range(5)]
    for step in steps:
        monitor.update(step)
    assert monitor.steps == 5
    summary = monitor.summary()
    assert tuple(summary) == monitor.names
    assert summary == pytest.approx(summed_up(steps, margin, quantiles), rel=1e-12)
    assert monitor.summary() == summary  # looking changes nothing


def test_reset_forgets() -> None:
    monitor = TailMonitor()
    assert monitor.summary() == {}
    monitor.update(evidence(0))
    monitor.reset()
    monitor.update(evidence(1))
    assert monitor.summary() == pytest.approx(summed_up([evidence(1)], 2.0, (0.1, 0.9)))


def test_update_reads_nothing_back_from_the_device() -> None:
    """Tensors on the meta device have no values: whatever asks for one fails."""
    fields = torch.empty(4, ANCHORS, device="meta")
    e = TailEvidence(*fields, torch.empty((), device="meta"))
    monitor = TailMonitor()
    monitor.update(e)
    assert monitor.steps == 1


def test_many_float32_steps_do_not_lose_digits() -> None:
    monitor = TailMonitor()
    e = evidence(3, dtype=torch.float32)
    for _ in range(5000):
        monitor.update(e)
    assert monitor.summary()["rho_q90"] == pytest.approx(
        summed_up([e], 2.0, (0.1, 0.9))["rho_q90"], rel=1e-12
    )


def twice_in_the_batch(share: float, pairs: int = 64) -> tuple[torch.Tensor, ...]:
    """Two views in which a share of the items is another item's copy, and the items' ids."""
    generator = torch.Generator().manual_seed(0)
    z0 = torch.randn(pairs, 16, generator=generator)
    z1 = z0 + 0.3 * torch.randn(pairs, 16, generator=generator)
    ids = torch.arange(pairs)
    copies = round(share * pairs)
    for rows in (z0, z1, ids):
        rows[:copies] = rows[copies : 2 * copies]
    return z0, z1, ids


@pytest.mark.parametrize("share", [0.0, 0.0625, 0.25])
def test_duplicates_are_counted_and_told_once(share: float) -> None:
    z0, z1, ids = twice_in_the_batch(share)
    loss, monitor = WEINCELoss(validate=False), TailMonitor()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            monitor.update(loss(z0, z1, return_evidence=True)[1])
            assert monitor.summary()["duplicates"] == 2 * share  # a copy and its original
    assert len(caught) == (share > 0)
    assert all("cosine 1" in str(w.message) and "ids=ids" in str(w.message) for w in caught)
    named = TailMonitor()
    named.update(loss(z0, z1, ids=ids, return_evidence=True)[1])
    assert named.summary()["duplicates"] == 0


def test_the_loss_itself_tells_of_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    z0, z1, ids = twice_in_the_batch(0.25)
    monkeypatch.setattr("weince_lib.losses.monitor._told", [])
    with pytest.warns(UserWarning, match="50.0 % of the anchors .*ids=ids"):
        WEINCELoss()(z0, z1)
    for given in ({"ids": ids}, {}):  # once in a process
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            WEINCELoss()(z0, z1, **given)


def test_a_step_of_nan_does_not_spoil_the_others() -> None:
    monitor, bad = TailMonitor(), evidence(9)
    bad.lam[3] = math.nan
    for step in (evidence(0), bad, evidence(1)):
        monitor.update(step)
    good = summed_up([evidence(0), evidence(1)], 2.0, (0.1, 0.9))
    assert monitor.summary() == pytest.approx(good, rel=1e-12)
    only = TailMonitor()
    only.update(bad)
    assert all(math.isnan(value) for value in only.summary().values())


def test_a_state_goes_on_elsewhere() -> None:
    first, second = TailMonitor(), TailMonitor()
    first.update(evidence(0))
    second.restore(first.state())
    first.update(evidence(1))
    second.update(evidence(1))
    assert second.summary() == first.summary()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"margin": math.nan}, "margin must be finite, got nan"),
        ({"corrected": math.inf}, "corrected must be finite, got inf"),
        ({"quantiles": (0.5, 0.0)}, r"quantiles must lie in \(0, 1\], got 0.0"),
        ({"quantiles": (1.5,)}, r"quantiles must lie in \(0, 1\], got 1.5"),
    ],
)
def test_bad_settings(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TailMonitor(**keywords)


def test_no_anchors() -> None:
    with pytest.raises(ValueError, match="no anchor"):
        TailMonitor().update(TailEvidence(*torch.empty(4, 0), torch.tensor(0.0)))
