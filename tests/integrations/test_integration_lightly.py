"""The lightly integration against lightly's own loss, and in a SimCLR loop."""

from __future__ import annotations

import copy

import pytest
import torch

pytest.importorskip("lightly")

from against_library import ON, assert_same
from lightly.loss import NTXentLoss as Theirs

from weince_lib import weince_loss
from weince_lib.integrations.lightly import NTXentLoss
from weince_lib.losses import SelfSettingLoss


def views(n=24, d=8, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    items = torch.randn(n, d, dtype=dtype)
    return [(items + 0.5 * torch.randn(n, d, dtype=dtype)).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_off_is_lightlys_loss(temperature, dtype, tolerance):
    z = views(dtype=dtype)
    ours = NTXentLoss(temperature, correction=None)(*z)
    assert_same(ours, Theirs(temperature)(*z), z, tolerance)


def test_off_is_lightlys_loss_with_a_memory_bank_that_fills_and_wraps():
    torch.manual_seed(0)
    theirs = Theirs(0.2, memory_bank_size=(40, 8))
    ours = NTXentLoss(0.2, memory_bank_size=(40, 8), correction=None)
    ours.memory_bank.bank = theirs.memory_bank.bank.clone()
    for step in range(4):
        z = views(dtype=torch.float32, seed=step)
        value = theirs(*z)
        assert_same(ours(*z), value, z, 1e-6)
        torch.testing.assert_close(ours.memory_bank.bank, theirs.memory_bank.bank)


def test_on_is_weince_of_the_two_views():
    z = views()
    ours = NTXentLoss(0.5, correction=ON)(*z)
    torch.testing.assert_close(ours, weince_loss(*z, 0.5, ON, impl="reference"))
    assert abs(ours - NTXentLoss(0.5, correction=None)(*z)) > 1e-3


@pytest.mark.parametrize("rule", ["tail", "median", "kl"])
def test_a_loss_that_sets_itself_is_the_same_here(rule):
    z = views()
    ours, truth = NTXentLoss(correction=SelfSettingLoss(rule)), SelfSettingLoss(rule)
    assert_same(ours(*z), truth(*z), z)
    assert ours.settings.statistics() == truth.statistics()
    banked = NTXentLoss(memory_bank_size=(40, 8), correction=SelfSettingLoss(rule))
    value = banked(*(one.float() for one in z))
    value.backward()
    assert torch.isfinite(value) and torch.isfinite(z[0].grad).all()


def test_the_bank_is_the_tail_and_the_other_keys_are_not():
    """With the keys of the other rows replaced, one row's correction does not change."""
    torch.manual_seed(0)
    loss = NTXentLoss(0.5, memory_bank_size=(40, 8), correction=ON)
    plain = copy.deepcopy(loss)
    plain.settings = None
    z0, z1 = (z.detach().float() for z in views())  # no gradient: the bank stays as it is
    value = loss(z0, z1)
    assert abs(value - plain(z0, z1)) > 1e-3
    order = torch.randperm(len(z0))
    torch.testing.assert_close(loss(z0[order], z1[order]), value)
    # The mean over rows splits: candidates of a row are its own key and the bank only.
    off = [plain(z0[i : i + 1], z1[i : i + 1]) for i in range(len(z0))]
    torch.testing.assert_close(torch.stack(off).mean(), plain(z0, z1))


def test_half_precision_zero_rows_are_finite():
    z0, z1 = (z.detach().half() for z in views())
    z0[3] = 0
    z0.requires_grad_()
    NTXentLoss(0.5)(z0, z1).backward()
    assert torch.isfinite(z0.grad).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NTXentLoss(-0.1), "temperature"),
        (lambda: NTXentLoss(correction="papre"), "'papre'"),
        (lambda: NTXentLoss(correction=3), "correction"),
        (
            lambda: NTXentLoss()(torch.ones(3, 2), torch.ones(2, 2)),
            "out1",
        ),
        (lambda: NTXentLoss()(*torch.ones(2, 3, 2, dtype=torch.long)), "floating point"),
        (lambda: NTXentLoss()(*torch.full((2, 3, 2), torch.nan)), "row 0"),
    ],
)
def test_bad_input_is_one_clear_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
