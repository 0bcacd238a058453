"""Notebooks run in batch: checked first, and output whole or as it was."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import nbclient.exceptions
import nbformat
import papermill
import pytest

from weince_lib import paths
from weince_lib.publish import notebooks
from weince_lib.publish.notebooks import NotebookError


@pytest.fixture
def executed(monkeypatch):
    """Papermill replaced by a stand-in that records its calls; ``fail`` makes it raise."""
    calls = []

    def execute(source, target, **given):
        notebook = nbformat.read(source, as_version=4)
        calls.append(given | {"source": notebook})
        for number, cell in enumerate(c for c in notebook.cells if c.cell_type == "code"):
            cell.execution_count = number + 1
        notebook.metadata["papermill"] = {"start_time": "now", "input_path": source}
        nbformat.write(notebook, target)
        if execute.fail:
            raise execute.fail

    execute.fail = None
    execute.calls = calls
    monkeypatch.setattr(papermill, "execute_notebook", execute)
    return execute


def test_output_moves_into_place_and_replaces_the_earlier_one(
    two_notebooks, executed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "out" / "x.ipynb"
    target.parent.mkdir()
    target.write_text("old")
    (target.parent / "x.failed.ipynb").write_text("old failure")
    assert notebooks.run("01_tiny", output=Path("out/x.ipynb")) == target
    assert nbformat.read(target, as_version=4).cells[1].execution_count == 1
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    "error",
    [
        papermill.PapermillExecutionError(3, 2, "assert count < 5", "AssertionError", "", []),
        nbclient.exceptions.CellTimeoutError("A cell timed out"),
        nbclient.exceptions.DeadKernelError("Kernel died"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failed_run_leaves_the_earlier_output_and_its_own_copy_beside(
    two_notebooks, executed, tmp_path, error
):
    target = tmp_path / "out" / "x.ipynb"
    target.parent.mkdir()
    target.write_text("old")
    executed.fail = error
    with pytest.raises(type(error)):
        notebooks.run("01_tiny", output=target)
    assert target.read_text() == "old"
    failed = target.parent / "x.failed.ipynb"
    assert nbformat.read(failed, as_version=4).cells[1].execution_count == 1
    assert sorted(target.parent.iterdir()) == [failed, target]


def test_reference_is_the_notebook_of_the_source_with_default_parameters(two_notebooks, executed):
    target = notebooks.execute_reference("01_tiny")
    assert target == two_notebooks / "notebooks" / "01_tiny.ipynb"
    assert executed.calls[0]["parameters"] == {}
    kept, built = nbformat.read(target, as_version=4), notebooks.build("01_tiny")
    for key in ("id", "source", "metadata"):
        assert [c[key] for c in kept.cells] == [c[key] for c in built.cells]
    assert "input_path" not in target.read_text(encoding="utf-8")  # where it was made


def test_a_real_run_from_another_folder(two_notebooks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = notebooks.run("01_tiny", {"count": 4, "word": "ümlaut"})
    assert target == paths.runs() / "notebooks" / "01_tiny--count=4,word=_mlaut.ipynb"
    assert list(target.parent.iterdir()) == [target]
    notebook = nbformat.read(target, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    # The cell with the parameters given is papermill's own.
    assert [cell.execution_count for cell in code] == [1, 2, 3, 4]
    assert code[2].outputs[0].text == "8 ümlaut notebooks\n"
    assert notebook.metadata.language_info.version == "3"
    assert str(tmp_path) not in target.read_text(encoding="utf-8")
    assert "papermill" not in json.dumps(notebook.metadata)


@pytest.mark.parametrize("variable", notebooks.NOT_FOR_KERNELS)
def test_kernels_do_not_take_over_what_would_spoil_a_notebook(
    variable, two_notebooks, executed, monkeypatch
):
    seen = []
    execute = papermill.execute_notebook

    def watching(*words, **given):
        seen.append(os.environ.get(variable))
        return execute(*words, **given)

    monkeypatch.setattr(papermill, "execute_notebook", watching)
    monkeypatch.setenv(variable, "1")
    notebooks.run("01_tiny")
    assert seen == [None]
    assert os.environ[variable] == "1"


@pytest.mark.parametrize("renew", [notebooks.execute_reference, notebooks.refresh])
def test_an_edit_in_the_notebook_alone_is_not_lost(renew, two_notebooks, executed):
    target = notebooks.execute_reference("01_tiny")
    notebook = nbformat.read(target, as_version=4)
    notebook.cells[0].source += "\n\nA thought of mine."
    nbformat.write(notebook, target)
    with pytest.raises(NotebookError, match=r"source/01_tiny\.py"):
        renew("01_tiny")
    assert "A thought of mine." in target.read_text(encoding="utf-8")


def test_an_edit_in_the_source_is_taken_over(two_notebooks, executed):
    target = notebooks.execute_reference("01_tiny")
    source = notebooks.source_path("01_tiny")
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("# # A tiny notebook", "# # A small notebook"), encoding="utf-8")
    notebooks.refresh("01_tiny")
    assert "A small notebook" in target.read_text(encoding="utf-8")
    source.write_text(text.replace("count = 1", "count = 2"), encoding="utf-8")
    with pytest.raises(NotebookError, match="other code"):  # the outputs would not be its
        notebooks.refresh("01_tiny")


#: Cells that say that they run, then wait as a long training does.
WAITING = """\
# %% tags=["parameters"]
profile = "quick"

# %%
import pathlib, time

pathlib.Path("running").touch()
time.sleep(120)
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [False, True], ids=["at a terminal", "in a script"])
def test_a_stopped_command_says_so_and_leaves_nothing_behind(two_notebooks, script):
    """A script starts what it puts into the background with SIGINT ignored; SIGTERM stops it."""
    source = two_notebooks / "notebooks" / "source" / "03_waiting.py"
    source.write_text(WAITING, encoding="utf-8")
    with started("run", "03_waiting", ignoring=script) as command:
        wait_for(two_notebooks / "notebooks" / "running")
        command.send_signal(signal.SIGINT)
        if script:
            with pytest.raises(subprocess.TimeoutExpired):
                command.wait(timeout=2)
            command.send_signal(signal.SIGTERM)
        said = command.communicate(timeout=60)[1]
    assert command.returncode == 130, said
    assert said.startswith("stopped; 03_waiting was not written")
    assert said.count("\n") == 1
    assert list((paths.runs() / "notebooks").iterdir()) == []


@contextmanager
def started(*words, ignoring):
    """A ``weince`` command with SIGINT ignored, or as at a terminal; killed if it is left over."""
    handling = signal.SIG_IGN if ignoring else signal.SIG_DFL
    program = "from weince_lib.cli import main; main()"
    command = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handling),
    )
    try:
        yield command
    finally:
        command.kill()
        command.wait()


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)
