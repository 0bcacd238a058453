"""The first loss of a process is not kept waiting by the import of the compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
before = set(sys.modules)
from weince_lib import InfoNCELoss, WEINCELoss
loss = {make}
for _ in range(2):
    z0, z1 = (torch.randn(8, 4, requires_grad=True) for _ in range(2))
    loss(z0, z1).backward()
names = ("torch._dynamo", "torch._inductor", "pandas", "pydantic")
print(*(name for name in names if name in set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    "make", ["InfoNCELoss()", "WEINCELoss()", "WEINCELoss.from_preset('calibrated')"]
)
def test_a_loss_and_its_gradient_load_no_compiler(make: str) -> None:
    command = [sys.executable, "-c", SCRIPT.format(make=make)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
