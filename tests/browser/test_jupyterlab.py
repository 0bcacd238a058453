"""A reader opens a notebook in JupyterLab and runs all cells: outputs and figures, no error."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from weince_lib import plots
from weince_lib.publish import notebooks

ROOT = Path(__file__).parents[2]
NOTEBOOK = "05_weince_loss"
TOKEN = "of-this-test"
#: Seconds: the notebook takes two minutes on a quiet core, and a busy machine several times that.
PATIENCE = 1500


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what notebooks need, as JupyterLab writes into the notebooks it has open."""
    home = tmp_path_factory.mktemp("lab") / "companion"
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    shutil.copytree(ROOT / "paper", home / "paper")
    # Without outputs, so that those seen later are the browser's.
    nbformat.write(notebooks.build(NOTEBOOK), home / "notebooks" / f"{NOTEBOOK}.ipynb")
    return home


@pytest.fixture(scope="module")
def server(browser, checkout):
    """The address of JupyterLab as `make lab` starts it, with settings of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    environment |= {
        "WEINCE_HOME": str(checkout),
        "WEINCE_RUNS": str(checkout / "runs"),
        "WEINCE_FIGURES": str(checkout / "figures"),
        "PYTHONPATH": str(ROOT),
        "JUPYTER_TOKEN": TOKEN,
        "HOME": str(checkout.parent),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "weince_lib.cli", "lab", NOTEBOOK, "--port", str(port)]
    log = checkout.parent / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--no-browser", "--allow-root"],
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        began = time.monotonic()
        while f"127.0.0.1:{port}/lab" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() - began < 300, log.read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}", log
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # at once, kernels of its group included
        process.wait(60)


@pytest.fixture(scope="module")
def page(browser, server):
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto(f"{server[0]}/lab/tree/{NOTEBOOK}.ipynb?token={TOKEN}", timeout=120_000)
    opened.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=240_000)
    yield opened
    opened.close()


def boxes(page):
    """Texts of dialogues and notifications that are open."""
    found = page.locator(".jp-Dialog, .Toastify__toast")
    return found.all_inner_texts()


def saved(page, path):
    """The code cells of the notebook, saved from the browser."""
    before = path.stat().st_mtime_ns
    page.keyboard.press("Control+s")
    notebook = None
    for _ in range(120):
        time.sleep(0.25)
        try:
            notebook = nbformat.read(path, as_version=4)
        except nbformat.reader.NotJSONError:  # the server is writing it
            continue
        if path.stat().st_mtime_ns != before:
            break
    assert notebook is not None, f"{path.name} is never whole"
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def errors(cells):
    return [out for cell in cells for out in cell.outputs if out.output_type == "error"]


def test_notebook_opens_with_the_kernel_python3_and_without_a_box(page):
    page.wait_for_function(
        "document.querySelector('.jp-KernelName')?.innerText.startsWith('Python 3')",
        timeout=240_000,
    )
    page.wait_for_selector(".jp-RenderedMarkdown mjx-container", timeout=120_000)
    assert boxes(page) == []


def test_all_cells_run_and_show_outputs_and_figures(page, checkout):
    path = checkout / "notebooks" / f"{NOTEBOOK}.ipynb"
    assert not any(cell.outputs for cell in nbformat.read(path, 4).cells if "outputs" in cell)
    page.locator(".lm-MenuBar-item", has_text="Run").first.click()
    page.locator(".lm-Menu-item", has_text="Run All Cells").first.click()
    began = time.monotonic()
    cells = saved(page, path)
    while not cells[-1].execution_count or not cells[-1].outputs:
        assert not errors(cells), errors(cells)
        assert boxes(page) == []
        assert time.monotonic() - began < PATIENCE, [cell.execution_count for cell in cells]
        time.sleep(5)
        cells = saved(page, path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert errors(cells) == []
    outputs = [out for cell in cells for out in cell.outputs]
    # What Jupyter shows on red ground: warnings and whatever else goes to stderr.
    assert [out.text for out in outputs if out.get("name") == "stderr"] == []
    plots = [cell for cell in cells if "plt.show()" in cell.source]
    assert plots
    for cell in plots:
        assert any("image/png" in out.get("data", {}) for out in cell.outputs), cell.source
    assert boxes(page) == []
    # In the page too, and drawn. Cells far from view are not in it.
    page.wait_for_function(
        "[...document.querySelectorAll('.jp-RenderedImage img')].some(i => i.naturalWidth > 100)",
        timeout=60_000,
    )


def test_a_figure_with_sliders_is_words_until_trusted_and_moves_once_run(browser, server, checkout):
    code = "from weince_lib import plots\nplots.explorer()"
    data = {"text/html": plots.explorer()._repr_html_(), "text/plain": "Explorer(...)"}
    saved_output = nbformat.v4.new_output("execute_result", data, execution_count=1)
    cell = nbformat.v4.new_code_cell(code, execution_count=1, outputs=[saved_output])
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": notebooks.KERNEL})
    nbformat.write(notebook, checkout / "notebooks" / "sliders.ipynb")

    page = browser.new_page(viewport={"width": 1280, "height": 900})
    # A workspace of its own: the usual one opens what other tests have opened.
    address = f"{server[0]}/lab/workspaces/sliders/tree/sliders.ipynb"
    page.goto(f"{address}?token={TOKEN}", timeout=120_000)
    output = page.locator(".jp-OutputArea-output")
    output.get_by_text("Run this cell, or trust the notebook").wait_for(timeout=240_000)
    assert page.locator(".jp-OutputArea-output iframe[srcdoc]").count() == 0

    # What is run before the kernel is connected is lost.
    page.get_by_text("| Idle").wait_for(timeout=240_000)
    page.locator(".jp-CodeCell .jp-Editor").first.click()
    page.keyboard.press("Shift+Enter")
    figure = page.frame_locator(".jp-OutputArea-output iframe")
    figure.locator(".candidate").first.wait_for(timeout=240_000)
    figure.get_by_label("Blend weight λ").press("Home")
    assert figure.locator("main").get_attribute("data-weight") == "0"
    # All of it shows: the frame has taken the figure's height.
    assert abs(page.locator(".jp-OutputArea-output iframe").bounding_box()["height"]
               - figure.locator("main").bounding_box()["height"]) < 2  # fmt: skip
    page.close()
