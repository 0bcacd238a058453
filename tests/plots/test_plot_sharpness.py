"""Figures embed sharply in a notebook, and the reader's own choice of format stands."""

import IPython
import pytest
from IPython.core.interactiveshell import InteractiveShell
from matplotlib_inline.config import InlineBackend

from weince_lib.plots.style import sharp_in_notebooks


@pytest.fixture
def shell(monkeypatch):
    """A shell with a kernel, as in a notebook, and a matplotlib backend's settings of its own."""
    InlineBackend.clear_instance()
    notebook = InteractiveShell()
    notebook.kernel = object()
    monkeypatch.setattr(IPython, "get_ipython", lambda: notebook)
    yield notebook
    InlineBackend.clear_instance()


def formats(shell):
    return InlineBackend.instance(parent=shell).figure_formats


def test_a_notebook_gets_two_pixels_for_each_shown(shell):
    sharp_in_notebooks()
    assert formats(shell) == {"retina"}


def test_a_readers_own_format_stands(shell):
    InlineBackend.instance(parent=shell).figure_formats = {"svg"}
    sharp_in_notebooks()
    assert formats(shell) == {"svg"}


def test_a_shell_without_a_notebook_is_left_alone(shell):
    shell.kernel = None
    sharp_in_notebooks()
    assert formats(shell) == {"png"}
