"""What Binder builds the image from, and that a notebook it offers fits into its memory."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from benchmarks import memory

ROOT = Path(__file__).parents[1]
BINDER = ROOT / ".binder"


def environment(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_environment_is_that_of_the_root_without_its_pip_section():
    own, root = environment(BINDER / "environment.yml"), environment(ROOT / "environment.yml")
    assert own["channels"] == root["channels"]
    assert own["dependencies"] == [d for d in root["dependencies"] if isinstance(d, str)]
    # What pip installs there: the package, as postBuild does, and what no notebook needs.
    (section,) = [d["pip"] for d in root["dependencies"] if isinstance(d, dict)]
    assert [re.split("[>=]", d)[0] for d in section] == ["snakemake", "-e ."]


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
