"""What Binder builds the image from, and that a notebook it offers fits into its memory."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from benchmarks import memory
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.experiments import SEEDS, notebooks, vision_config

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


def test_post_build_trains_the_encoders_of_the_quick_profile(monkeypatch, tmp_path):
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    ran = []
    monkeypatch.setattr(notebooks, "run", lambda name, given, **more: ran.append((name, given)))
    text = (BINDER / "postBuild").read_text()
    (seeds,) = re.findall(r"^for seed in ([\d ]+); do$", text, re.MULTILINE)
    (words,) = re.findall(r"^  weince (run .+) > /dev/null$", text, re.MULTILINE)
    for seed in seeds.split():
        done = CliRunner().invoke(main, words.replace('"$seed"', seed).split())
        assert done.exit_code == 0, done.output
    assert [name for name, _ in ran] == ["06_train_vision"] * len(SEEDS)
    configs = [vision_config("quick", **given) for _, given in ran]
    assert configs == [vision_config("quick", loss="infonce", seed=seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Runs that the notebooks share, as in a session."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize(
    ("name", "encoders"),
    # Theory, tables, loss, diagnostics; `python -m tests.benchmarks.memory` measures them all. The
    # encoders that postBuild would have made are trained by the first that needs them.
    [
        ("01_plackett_luce", 0),
        ("11_tables", 0),
        ("12_what_drives_the_gain", 0),
        ("05_weince_loss", 1),
        ("08_tail_evidence", 4),
    ],
)
def test_a_notebook_fits_into_binders_memory(name, encoders, kept, monkeypatch, tmp_path, capsys):
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
    assert taken.trained <= encoders
    assert 100 < taken.peak_mb < memory.LIMIT_MB - memory.SERVER_MB
