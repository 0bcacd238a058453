"""JupyterLab's command: this environment's Python and kernel, in the notebooks' folder."""

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from weince_lib import paths
from weince_lib.cli import main
from weince_lib.publish import lab


@pytest.fixture
def started(monkeypatch, tmp_path):
    """What the process would become: program, command, environment and folder."""
    seen = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execve", lambda *call: seen.append((*call, str(Path.cwd()))))
    return seen


def test_the_process_becomes_the_server_in_the_notebooks_folder(two_notebooks, started):
    result = CliRunner().invoke(main, ["lab", "01_tiny.ipynb", "--port", "9000", "--no-browser"])
    assert result.exit_code == 0, result.output
    ((program, command, environment, folder),) = started
    assert program == command[0] == sys.executable
    assert command[1:4] == ["-m", "jupyterlab", "01_tiny.ipynb"]
    assert {"--port=9000", "--ServerApp.port_retries=0", "--no-browser"} <= set(command)
    # Kernels of the environment go before those of the user's home.
    assert environment["JUPYTER_PREFER_ENV_PATH"] == "1"
    assert environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0] == str(lab.SETTINGS)
    assert folder == str(paths.notebooks())


def test_unknown_notebook_and_missing_jupyterlab_are_one_line(two_notebooks, started, monkeypatch):
    for name, words in (("03_nothing", "01_tiny, 02_next"), ("01_tiny", "[companion]")):
        result = CliRunner().invoke(main, ["lab", name])
        assert result.exit_code == 1
        assert words in result.output
        assert len(result.output.strip().splitlines()) == 1
        monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert started == []
