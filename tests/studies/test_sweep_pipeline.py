"""The Snakemake rules of the studies: dry runs, and a run that fails, is retried and reported."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weince_lib.records import store
from weince_lib.runs.vision import labels
from weince_lib.studies import grid, sweep

ROOT = Path(__file__).parents[2]
RULES = ROOT / "weince_lib" / "studies" / "sweep.smk"
pytestmark = pytest.mark.slow


def snakemake(folder, *words):
    """Run Snakemake on the studies' rules alone, in a folder of its own."""
    (folder / "Snakefile").write_text(f'include: "{RULES}"\n')
    found = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, found))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def count(result, rule):
    """How many jobs of a rule a dry run lists."""
    for line in result.stdout.splitlines():
        if line.split()[:1] == [rule]:
            return int(line.split()[1])
    return 0


def test_dry_run_lists_every_run(tmp_path):
    result = snakemake(tmp_path, "--cores", "2", "-n", "study-cpu-fashion")
    assert result.returncode == 0, result.stderr
    assert count(result, "study_run") == 48
    assert count(result, "study_table") == 1


@pytest.mark.skipif(
    importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
    reason="snakemake-executor-plugin-slurm is not installed",
)
def test_dry_run_through_slurm(tmp_path):
    words = ["--executor", "slurm", "--jobs", "4", "--default-resources", "slurm_account=a"]
    words += ["slurm_partition=p", "-n", "--", "study-paper-cifar10-resnet18"]
    result = snakemake(tmp_path, *words)
    assert result.returncode == 0, result.stderr
    assert count(result, "study_run") == 112
    listed = [line for line in result.stdout.splitlines() if line.startswith("    resources:")]
    asked = [line for line in listed if "gpu=1," in line]
    assert len(asked) == 112
    assert all("slurm_partition=p" in line for line in asked)


def test_a_record_that_is_there_is_found_and_a_failure_is_told(tmp_path):
    """One run is there; another has a checkpoint that nothing can read."""
    there, broken = grid.study("quick-digits").runs()[:2]
    described = labels(there.config, "quick")
    metrics = [store.Metric("linear_accuracy", 90.0, "test", 1)]
    record = store.save("vision", there.config.canonical(), metrics, labels=described, started=0.0)
    made = record.path.stat().st_mtime_ns
    home = store.run_folder("vision", broken.key)
    home.mkdir(parents=True)
    (home / "checkpoint.safetensors").write_text("cut off")
    marks = [str(sweep.mark("quick-digits", run.key)) for run in (there, broken)]
    result = snakemake(tmp_path, "--cores", "2", "--keep-going", *marks)
    assert result.returncode != 0
    told = [line for line in result.stderr.splitlines() if line.startswith("failed in study")]
    assert told, result.stderr[-2000:]
    assert broken.setting in told[0]
    assert "heckpoint" in told[0]
    assert result.stderr.count("Trying to restart job") == 2
    assert sweep.mark("quick-digits", there.key).exists()
    assert record.path.stat().st_mtime_ns == made
    assert [s.stage for s in sweep.states(grid.study("quick-digits"))][:2] == ["done", "failed"]
