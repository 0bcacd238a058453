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
    result = CliRunner().invoke(main, ["lab", "01_tiny.ipynb", "--no-browser"])
    assert result.exit_code == 0, result.output
    ((program, command, environment, folder),) = started
    assert program == command[0] == sys.executable
    assert command[1:4] == ["-m", "jupyterlab", "01_tiny.ipynb"]
    assert command[-1] == "--no-browser"
    # Kernels of the environment go before those of the user's home.
    assert environment["JUPYTER_PREFER_ENV_PATH"] == "1"
    assert environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0] == str(lab.SETTINGS)
    assert folder == str(paths.notebooks())


def test_a_port_that_is_named_is_the_only_one_tried(two_notebooks, started):
    assert CliRunner().invoke(main, ["lab", "--port", "9000", "01_tiny"]).exit_code == 0
    assert {"--port=9000", "--ServerApp.port_retries=0"} <= set(started[0][1])


def test_without_a_name_the_overview_opens(started, monkeypatch):
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    assert CliRunner().invoke(main, ["lab"]).exit_code == 0
    assert "00_overview.ipynb" in started[0][1]


def test_unknown_notebook_and_missing_jupyterlab_are_one_line(two_notebooks, started, monkeypatch):
    for name, words in (("03_nothing", "01_tiny, 02_next"), ("01_tiny", "[companion]")):
        result = CliRunner().invoke(main, ["lab", name])
        assert result.exit_code == 1
        assert words in result.output
        assert len(result.output.strip().splitlines()) == 1
        monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert started == []


def test_jupyterlab_reads_our_defaults(monkeypatch, tmp_path):
    handlers = pytest.importorskip("jupyterlab_server.settings_utils")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(lab.SETTINGS))
    found, error = handlers._get_overrides(str(tmp_path))
    assert not error
    assert found["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
