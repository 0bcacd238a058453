"""What Binder builds the image from, and that a notebook it offers fits into its memory."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from benchmarks import memory

ROOT = Path(__file__).parents[1]
BINDER = ROOT / ".binder"


def environment(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_folder_holds_only_what_repo2docker_reads():
    # Where this folder is, repo2docker reads no such file of the root.
    assert {path.name for path in BINDER.iterdir()} == {"environment.yml", "apt.txt", "postBuild"}
    assert not (ROOT / "binder").exists()


def test_environment_is_that_of_the_root_without_its_pip_section():
    own, root = environment(BINDER / "environment.yml"), environment(ROOT / "environment.yml")
    assert own["channels"] == root["channels"]
    assert own["dependencies"] == [d for d in root["dependencies"] if isinstance(d, str)]
    # What pip installs there: the package, as postBuild does, and what no notebook needs.
    (section,) = [d["pip"] for d in root["dependencies"] if isinstance(d, dict)]
    assert [re.split("[>=]", d)[0] for d in section] == ["snakemake", "-e ."]


def test_system_packages_are_plain_names():
    names = (BINDER / "apt.txt").read_text().splitlines()
    assert names == ["dataset-fashion-mnist"]


def test_post_build_is_a_script_that_bash_understands():
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_post_build_trains_nothing():
    # The encoders that notebooks read are committed.
    assert "weince" not in (BINDER / "postBuild").read_text()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs that the notebooks share, as in a session."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    "name",
    # Theory, tables, loss, diagnostics; `python -m tests.benchmarks.memory` measures them all.
    [
        "01_plackett_luce",
        "11_tables",
        "12_what_drives_the_gain",
        "05_weince_loss",
        "08_tail_evidence",
    ],
)
def test_a_notebook_fits_into_binders_memory(name, kept, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    monkeypatch.setenv("WEINCE_RUNS", str(kept))
    monkeypatch.setenv("WEINCE_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setenv("WEINCE_RESULTS", str(tmp_path / "results"))
    shutil.copytree(ROOT / "paper" / "results", tmp_path / "results")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    taken = memory.take(name)
    with capsys.disabled():
        print(f"\n{taken.line()}")
    assert taken.error == ""
    assert taken.trained == 0
    assert 100 < taken.peak_mb < memory.LIMIT_MB - memory.SERVER_MB
