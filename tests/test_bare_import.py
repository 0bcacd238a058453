"""The bare library needs torch, numpy and scipy and nothing else."""

from __future__ import annotations

import subprocess
import sys

import weince_lib

BLOCKED = (
    "torchvision",
    "sklearn",
    "pandas",
    "matplotlib",
    "pydantic",
    "click",
    "tqdm",
    "papermill",
    "snakemake",
)

SCRIPT = """
import sys

BLOCKED = {blocked!r}

# None makes an import fail, and a look for the package (torch makes some) come back empty.
for name in BLOCKED:
    sys.modules[name] = None

import torch
import weince_lib
import weince_lib.choice, weince_lib.evt, weince_lib.links

torch.manual_seed(0)
z0, z1 = torch.randn(2, 20, 5).requires_grad_()
for loss_fn in (
    weince_lib.InfoNCELoss(),
    *(weince_lib.WEINCELoss.from_preset(name) for name in ("paper", "release", "calibrated")),
):
    loss = loss_fn(z0, z1)
    loss.backward(retain_graph=True)
    assert torch.isfinite(loss)
assert all(sys.modules[name] is None for name in BLOCKED)
print(weince_lib.__version__)
"""


def test_losses_work_without_the_optional_packages() -> None:
    script = SCRIPT.format(blocked=set(BLOCKED))
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == weince_lib.__version__
