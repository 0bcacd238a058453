"""What the tests of the integrations share: settings that correct, and the comparison."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from weince_lib import TailSettings

#: Gates that are open on small batches, so that the correction has a part in the loss.
ON = TailSettings(evidence="likelihood", tail_index="hill", evidence_margin=-50.0)


def assert_same(
    ours: Tensor, theirs: Tensor, inputs: Sequence[Tensor], tolerance: float = 1e-10
) -> None:
    """Value, dtype and every gradient, also which inputs have none."""
    torch.testing.assert_close(ours, theirs, rtol=10 * tolerance, atol=tolerance)
    mine, their = (
        torch.autograd.grad(value, inputs, allow_unused=True) for value in (ours, theirs)
    )
    assert any(g is not None for g in their)
    for a, b in zip(mine, their, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=tolerance)
