"""What importing loads: the bare library needs torch, numpy and scipy and nothing else."""

from __future__ import annotations

import subprocess
import sys

import weince_lib
from weince_lib import experiments, paths

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


def test_figures_load_no_library_of_records() -> None:
    script = "import sys, weince_lib.plots; print({'pandas', 'pydantic'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.stdout.strip() == "set()", result.stderr


def test_a_module_that_is_a_command_is_not_imported_before_it_runs() -> None:
    command = ["-W", "error::RuntimeWarning", "-m", "weince_lib.studies.sweep", "--help"]
    result = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_what_experiments_offers_is_there_under_its_name() -> None:
    for name in experiments.__all__:
        assert getattr(experiments, name) is not None
        assert name in dir(experiments)
    assert experiments.provenance() and experiments.paths is paths
