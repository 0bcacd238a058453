"""Training steps under bfloat16 autocast on a CPU: near float32's, and chunks change nothing."""

import math

import numpy as np
import pytest
import torch
from text_models import LOSSES, corpus, loss, model, train

from weince_lib.text.steps import ChunkPlan, SimCSEStep
from weince_lib.training.steps import GuardedOptimizer

#: Rounding of one bfloat16 number, which has eight significant bits: half a unit in the last.
ROUNDING = 2.0**-9


def step(name, precision, *, chunk=4, cached=True, dropout=True):
    """Loss and gradients of one step of the tiny encoder with float32 weights."""
    made = model("tiny").float().train()
    if not dropout:  # its draws depend on the precision
        for module in made.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif isinstance(module, torch.nn.MultiheadAttention):
                module.dropout = 0.0
    plan = ChunkPlan(16, chunk)
    taken = SimCSEStep(
        made,
        loss(name),
        GuardedOptimizer(torch.optim.SGD(made.parameters(), 0.0), torch.device("cpu")),
        plan,
        seed=3,
        precision=precision,
        cached=cached,
    )
    rows = np.arange(16)
    value = taken([corpus().batch(rows[plan.rows(c)]) for c in plan.own], 5)
    grads = [p.grad for p in made.parameters() if p.grad is not None]
    assert all(g.dtype == torch.float32 for g in grads)
    return float(value), torch.cat([g.flatten() for g in grads])


@pytest.mark.parametrize("name", LOSSES)
def test_bfloat16_is_near_float32(name):
    """A cosine is wrong by a few roundings, a logit by 1 / tau = 20 times that: about 0.1."""
    exact, exact_grad = step(name, "float32", dropout=False)
    found, grad = step(name, "bfloat16", dropout=False)
    assert math.isfinite(found) and torch.isfinite(grad).all()
    assert found != exact  # it was rounded
    assert abs(found - exact) < 20 * 4 * ROUNDING
    assert torch.nn.functional.cosine_similarity(grad, exact_grad, dim=0) > 0.95


def test_a_run_in_bfloat16_trains():
    made, history = train("weince", precision="bfloat16", chunk_size=8)
    assert all(math.isfinite(row["loss"]) for row in history)
    assert all(torch.isfinite(p).all() for p in made.parameters())
