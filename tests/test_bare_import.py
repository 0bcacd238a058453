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
from importlib.abc import MetaPathFinder

BLOCKED = {blocked!r}

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError("blocked: " + name, name=name)

sys.meta_path.insert(0, Block())
for name in BLOCKED:
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert str(error).startswith("blocked"), error
    else:
        raise AssertionError(name + " was not blocked")

import torch
import weince_lib

torch.manual_seed(0)
z0, z1 = torch.randn(2, 20, 5).requires_grad_()
for loss_fn in (
    weince_lib.InfoNCELoss(),
    *(weince_lib.WEINCELoss.from_preset(name) for name in ("paper", "release", "calibrated")),
):
    loss = loss_fn(z0, z1)
    loss.backward(retain_graph=True)
    assert torch.isfinite(loss)
assert not BLOCKED & {{name.partition(".")[0] for name in sys.modules}}
print(weince_lib.__version__)
"""


def test_losses_work_without_the_optional_packages() -> None:
    script = SCRIPT.format(blocked=set(BLOCKED))
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == weince_lib.__version__
