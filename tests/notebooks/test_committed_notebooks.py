"""The committed notebooks: in step with their sources, executed, and free of machine marks."""

import difflib
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from weince_lib.publish import notebooks

FOLDER = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted((FOLDER / "source").glob("*.py"))
NAMES = [path.stem for path in SOURCES]
#: Home folders and temporary folders, of whatever system.
MACHINE_PATH = re.compile(r"/(?:home|root|Users|tmp|private|workspace|opt|mnt)/\w|[A-Z]:\\\\\w")


@pytest.fixture(autouse=True)
def checkout(monkeypatch):
    monkeypatch.delenv("WEINCE_HOME", raising=False)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def text(name):
    path = FOLDER / f"{name}.ipynb"
    if not path.exists():
        pytest.fail(f"notebooks/{name}.ipynb is missing; make it with `weince notebooks {name}`")
    return path.read_text(encoding="utf-8")


@pytest.fixture
def notebook(text):
    return nbformat.reads(text, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def as_source(notebook):
    """A notebook as py:percent text with tags and without any other metadata."""
    copy = nbformat.reads(nbformat.writes(notebook), as_version=4)
    filters = {"notebook_metadata_filter": "-all", "cell_metadata_filter": "tags,-all"}
    copy.metadata = nbformat.from_dict({"jupytext": filters})
    return jupytext.writes(copy, fmt="py:percent")


def drift(notebook, source):
    """What differs between a notebook and its source, as a unified diff; empty if in step.

    The converter and the formatter leave different numbers of blank lines before a cell that
    starts with a function; between cells these mean nothing, so that they are counted as one.
    """
    texts = [re.sub(r"\n{2,}(?=# %%)", "\n\n", t) for t in (source, as_source(notebook))]
    names = ("notebooks/source", "notebooks")
    lines = (re.sub(r"^(# %%.*\n)\n+", r"\1", t, flags=re.MULTILINE).splitlines() for t in texts)
    return list(difflib.unified_diff(*lines, *names, lineterm=""))


def test_there_are_notebooks_and_the_library_knows_them_all():
    assert NAMES
    assert notebooks.names() == NAMES
    overview = (FOLDER / "source" / "00_overview.py").read_text(encoding="utf-8")
    for name in NAMES[1:]:
        assert f"]({name}.ipynb)" in overview


def test_every_plot_cell_holds_its_figure(notebook):
    for cell in code_cells(notebook):
        # One that shows a figure only once there are runs has it indented.
        if re.search(r"^plt\.show\(\)", cell.source, re.MULTILINE):
            kinds = [set(out.data) for out in cell.outputs if "data" in out]
            assert any("image/png" in kind for kind in kinds), f"no figure below:\n{cell.source}"


def test_notebook_and_source_do_not_drift_apart(name, notebook):
    # Text is compared: `jupytext --test-strict` passes on a pair that has diverged.
    source = (FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8")
    assert drift(notebook, source) == [], f"edit the source, then `weince notebooks {name}`"
    assert [c.id for c in notebook.cells] == [c.id for c in notebooks.build(name).cells]


def test_parameters_are_literals_of_the_quick_profile(name):
    values = notebooks.parameters(notebooks.build(name))
    assert values["profile"] == "quick"
    # Papermill would take the type of a parameter without a value for anything.
    assert None not in values.values()


def test_every_code_cell_was_executed_in_order(notebook):
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_no_output_is_an_error_or_a_warning(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output


def test_nothing_of_the_machine_or_of_widgets_is_left(notebook, text):
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert all(cell.metadata.keys() <= {"tags", "jupyter"} for cell in notebook.cells)
    assert "widget" not in text
    # Base64 holds every word sooner or later: images are not searched.
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not MACHINE_PATH.search(words), MACHINE_PATH.search(words)


def test_provenance_is_shown_and_not_compared(name):
    # Commit, versions and hardware differ on every machine, so that regression must not see them.
    # Notebooks that load a run show the run's own.
    shown = re.compile(r"^(provenance\(\)|.*\w\S*\.provenance)$", re.M)
    code = [c for c in notebooks.build(name).cells if c.cell_type == "code"]
    cells = [c for c in code if shown.search(c.source)]
    assert len(cells) == 1
    assert "nbval-ignore-output" in cells[0].metadata.get("tags", [])


def test_links_between_notebooks_lead_somewhere(name):
    for cell in notebooks.build(name).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", cell.source):
                linked = FOLDER / target
                assert linked.exists() or linked.stem in NAMES, target
