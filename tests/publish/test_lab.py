"""JupyterLab's command: this environment's Python, a free port, or one clear line."""

import os
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from weince_lib import paths
from weince_lib.cli import main
from weince_lib.publish import lab
from weince_lib.publish.lab import LabError, free_port, lab_command
from weince_lib.publish.notebooks import NotebookError


@pytest.fixture
def taken():
    """A port that something listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_taken_port_is_passed_over(taken):
    assert taken < free_port(taken, 200) <= taken + 200


def test_without_a_free_port_the_ones_tried_are_named(taken):
    with pytest.raises(LabError, match=rf"port {taken} is all taken.*make lab PORT=") as caught:
        free_port(taken, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(port):
    with pytest.raises(LabError, match=str(port)):
        free_port(port, 1)


def test_command_runs_this_python_on_a_free_port(two_notebooks, taken):
    free = free_port(taken, 200)
    command = lab_command("02_next.ipynb", port=free, more=("--no-browser",))
    assert command[:4] == [sys.executable, "-m", "jupyterlab", "02_next.ipynb"]
    assert f"--port={free}" in command
    assert "--ServerApp.port_retries=0" in command  # else another one, silently
    assert command[-1] == "--no-browser"


def test_unknown_notebook_is_refused(two_notebooks):
    with pytest.raises(NotebookError, match="03_nothing"):
        lab_command("03_nothing")


def test_without_jupyterlab_the_extra_is_named(two_notebooks, monkeypatch):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    with pytest.raises(LabError, match="companion"):
        lab_command("01_tiny")


def test_the_process_becomes_the_server_in_the_notebooks_folder(
    two_notebooks, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    seen = []
    monkeypatch.setattr(os, "execve", lambda *call: seen.append((*call, str(Path.cwd()))))
    result = CliRunner().invoke(main, ["lab", "01_tiny", "--no-browser"])
    assert result.exit_code == 0, result.output
    ((program, command, environment, folder),) = seen
    assert program == command[0] == sys.executable
    assert "01_tiny.ipynb" in command
    assert command[-1] == "--no-browser"
    # Kernels of the environment go before those of the user's home.
    assert environment["JUPYTER_PREFER_ENV_PATH"] == "1"
    assert environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0] == str(lab.SETTINGS)
    assert folder == str(paths.notebooks())


def test_jupyterlab_reads_our_defaults(monkeypatch, tmp_path):
    handlers = pytest.importorskip("jupyterlab_server.settings_utils")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(lab.SETTINGS))
    found, error = handlers._get_overrides(str(tmp_path))
    assert not error
    assert found["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_a_taken_port_is_one_line_on_the_command_line(two_notebooks, taken):
    result = CliRunner().invoke(main, ["lab", "01_tiny", "--port", str(taken)])
    assert result.exit_code == 1
    assert f"port {taken} is" in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_without_a_name_the_overview_opens(monkeypatch):
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    seen = []
    monkeypatch.setattr(os, "chdir", lambda folder: None)
    monkeypatch.setattr(os, "execve", lambda *call: seen.append(call))
    result = CliRunner().invoke(main, ["lab"])
    assert result.exit_code == 0, result.output
    assert "00_overview.ipynb" in seen[0][1]
