"""What WEINCE would do: gradient shares against autograd, gates against the loss's own evidence."""

import numpy as np
import pytest
import torch

from weince_lib.diagnostics.batch_correction import corrections, gradient_shares
from weince_lib.losses import tail_evidence
from weince_lib.losses.evidence import PRESETS


def test_gradient_shares_are_those_of_the_loss_whatever_the_positive():
    torch.manual_seed(0)
    s = (torch.rand(5, 9, dtype=torch.float64) * 1.6 - 0.7).requires_grad_()
    lam = torch.tensor([0.0, 0.3, 1.0, 0.7, 0.1], dtype=torch.float64)
    beta = torch.tensor([1.0, 2.0, 0.5, 3.0, 8.0], dtype=torch.float64)
    tau = 0.2
    logits = (1 - lam[:, None]) * s / tau - lam[:, None] * beta[:, None] * torch.log(1 - s)
    loss = torch.nn.functional.cross_entropy(logits, torch.zeros(5, dtype=torch.long))
    (gradient,) = torch.autograd.grad(loss, s)
    negatives = gradient[:, 1:]
    expected = negatives / negatives.sum(dim=1, keepdim=True)
    delta = (1 - s).detach()
    delta[:, 0] = torch.inf  # the positive is no negative
    shares = gradient_shares(delta, lam, beta, tau)
    torch.testing.assert_close(shares[:, 1:], expected)
    assert (shares[:, 0] == 0).all()


def test_pairs_in_one_batch_read_as_the_loss_reads_them():
    rng = np.random.default_rng(1)
    base = rng.standard_normal((80, 6))
    z = np.concatenate([base + 0.2 * rng.standard_normal((80, 6)) for _ in range(2)])
    pairs = np.stack([np.arange(80), np.arange(80) + 80], axis=1)
    done = corrections(z, pairs=pairs, batch_size=80, batches=3)
    unit = torch.from_numpy(z / np.linalg.norm(z, axis=1, keepdims=True))
    positives = torch.arange(160).roll(80)
    for c in done:
        evidence = tail_evidence(unit @ unit.T, positives, PRESETS[c.preset])
        assert (c.views, c.negatives, c.batches) == (160, 158, 1)
        np.testing.assert_allclose(np.sort(c.lam), evidence.lam.sort().values, atol=1e-9)
        opened = (evidence.delta_aic > PRESETS[c.preset].evidence_margin).double().mean()
        assert c.open_share == pytest.approx(float(opened))


def test_the_calibrated_gate_stays_shut_in_many_dimensions_and_opens_in_few():
    rng = np.random.default_rng(2)
    many = {c.preset: c for c in corrections(rng.standard_normal((2000, 256)), batches=4)}
    few = {c.preset: c for c in corrections(rng.standard_normal((2000, 4)), batches=4)}
    assert many["calibrated"].open_share < 0.05 and many["calibrated"].moved < 0.05
    assert few["calibrated"].open_share > 0.9
    assert many["paper"].open_share == few["paper"].open_share == 1.0
    assert few["calibrated"].hardest_weince > few["calibrated"].hardest_infonce


def test_rows_of_several_pairs_are_in_a_batch_once():
    rng = np.random.default_rng(3)
    pairs = np.stack([np.zeros(40, dtype=int), np.arange(1, 41)], axis=1)
    more = np.stack([np.arange(41, 100), np.arange(101, 160)], axis=1)
    found = corrections(
        rng.standard_normal((160, 8)), pairs=np.concatenate([pairs, more]), batch_size=50
    )
    assert found[0].views == 100 and found[0].negatives == 98


def test_too_few_negatives_is_an_error():
    rng = np.random.default_rng(4)
    labels = np.r_[np.zeros(58), np.ones(2)].astype(int)
    with pytest.raises(ValueError, match=r"2 negatives.*60"):
        corrections(rng.standard_normal((60, 8)), labels=labels)
