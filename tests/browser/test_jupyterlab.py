"""A reader opens a notebook in JupyterLab: a kernel, no box, and a figure that moves once run.

That every cell runs and shows what is committed, the notebook regression tests.
"""

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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what notebooks need, as JupyterLab writes into the notebooks it has open."""
    home = tmp_path_factory.mktemp("lab") / "companion"
    shutil.copytree(ROOT / "notebooks", home / "notebooks")
    shutil.copytree(ROOT / "paper", home / "paper")
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


def test_notebook_opens_with_the_kernel_python3_and_without_a_box(page):
    page.wait_for_function(
        "document.querySelector('.jp-KernelName')?.innerText.startsWith('Python 3')",
        timeout=240_000,
    )
    page.wait_for_selector(".jp-RenderedMarkdown mjx-container", timeout=120_000)
    assert page.locator(".jp-Dialog, .Toastify__toast").all_inner_texts() == []


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
    page.close()
