"""What a record says about the code and the machine it came from."""

import json
import subprocess
from importlib import metadata

import pytest
import torch

from weince_lib.records.provenance import PACKAGES, cpu_name, git_state, provenance


def git(folder, *words):
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout of a companion with a line of code, a table and a figure in it."""
    home = tmp_path / "companion"
    for name in ("weince_lib/code.py", "paper/results/quick.csv", "figures/one.png", "README.md"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("1\n")
    (home / "notebooks").mkdir()
    git(home, "init", "--quiet")
    git(home, "add", ".")
    git(home, "commit", "--quiet", "-m", "First")
    monkeypatch.setenv("WEINCE_HOME", str(home))
    return home


@pytest.mark.parametrize(
    ("name", "dirty"),
    [("paper/results/quick.csv", False), ("figures/one.png", False), ("weince_lib/code.py", True)],
)
def test_changed_code_is_dirt_and_generated_results_are_none(checkout, name, dirty):
    assert git_state() == (git(checkout, "rev-parse", "HEAD"), False)
    (checkout / name).write_text("2\n")
    assert git_state() == (git(checkout, "rev-parse", "HEAD"), dirty)


def test_outside_a_checkout_the_commit_is_unknown(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("WEINCE_HOME", str(tmp_path))
    # A temporary folder may lie inside some other checkout.
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state() == ("unknown", None)


@pytest.mark.parametrize("variable", ["WEINCE_HOME", "PATH"])
def test_without_companion_or_git_the_commit_is_unknown(variable, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, str(tmp_path / "nowhere"))
    assert git_state() == ("unknown", None)


def test_provenance_names_versions_and_hardware(checkout):
    made = provenance()
    assert made["commit"] == git(checkout, "rev-parse", "HEAD")
    assert made["dirty"] is False
    for package in PACKAGES:
        assert made["versions"][package] == metadata.version(package)
    assert made["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert made["versions"]["python"].startswith("3.")
    assert made["cpu"] == cpu_name() != ""
    assert made["cpu_count"] >= 1
    assert made["torch_threads"] == torch.get_num_threads()
    assert (made["cuda_device"] is None) == (not torch.cuda.is_available())


def test_provenance_holds_no_path_of_the_machine(checkout):
    assert str(checkout.parent) not in json.dumps(provenance())
