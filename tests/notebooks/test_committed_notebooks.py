"""The committed notebooks: in step with their sources, executed, and free of machine marks."""

import ast
import base64
import difflib
import re
from pathlib import Path

import jupytext
import nbformat
import pytest

from weince_lib.publish import notebooks, reading
from weince_lib.publish.site.notebook_pages import captions, spoken

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
    assert all(re.fullmatch(r"[01][0-9]_[a-z0-9_]+", name) for name in NAMES)


def test_every_notebook_has_a_source():
    # A hidden one is being executed; it moves into place when it is whole.
    committed = {path.stem for path in FOLDER.glob("*.ipynb") if path.name[0] != "."}
    assert committed - set(NAMES) == set(), "without a source in notebooks/source"
    assert not [path for path in FOLDER.iterdir() if path.suffix not in ("", ".ipynb")]


def test_notebook_is_valid(notebook):
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)


def test_every_plot_cell_holds_its_figure(notebook):
    for cell in code_cells(notebook):
        if "plt.show()" in cell.source:
            kinds = [set(out.data) for out in cell.outputs if "data" in out]
            assert any("image/png" in kind for kind in kinds), f"no figure below:\n{cell.source}"


def test_notebook_and_source_do_not_drift_apart(name, notebook):
    # Text is compared: `jupytext --test-strict` passes on a pair that has diverged.
    source = (FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8")
    assert drift(notebook, source) == [], f"edit the source, then `weince notebooks {name}`"


def test_source_survives_the_way_to_a_notebook_and_back(name):
    source = (FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8")
    assert drift(notebooks.build(name), source) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1", "x = 2"),
        ("x = 1", "x = 1\ny = 2"),
        ("x = 1", "x = 1\n\ny = 2"),
        ("# Some words.", "# Other words."),
        ("\n# %%\nx = 1\n", ""),
        ('# %% tags=["parameters"]', "# %%"),
        ("# %%\nx", "# %% [markdown]\n# x"),
        ("    return 3", "    return 4"),
    ],
)
def test_drift_is_seen(tmp_path, old, new):
    source = (
        "# %% [markdown]\n# Some words.\n\n"
        '# %% tags=["parameters"]\nn = 1\n\n# %%\nx = 1\n\n\n# %%\ndef f():\n    return 3\n'
    )
    assert old in source
    notebook = jupytext.reads(source, fmt="py:percent")
    assert drift(notebook, source) == []
    assert drift(notebook, source.replace(old, new)) != []


def test_header_and_contents_are_what_the_table_says(name):
    source = (FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8")
    assert reading.with_generated(name, source) == source, "run `weince notebooks --headers`"


def test_every_figure_has_a_caption_that_can_be_spoken(notebook):
    for cell, caption in captions(notebook):
        assert len(caption) > 30, f"no caption below:\n{cell.source}"
        text = spoken(caption)
        assert not re.search(r"[\\\\${}]", text), text


def test_figures_are_embedded_at_twice_their_size(notebook):
    for cell, _ in captions(notebook):
        for out in cell.outputs:
            if "image/png" in out.get("data", {}):
                png = base64.b64decode(out.data["image/png"])
                pixels = int.from_bytes(png[16:20], "big")
                shown = out.metadata.get("image/png", {}).get("width")
                assert shown is not None, "execute the notebook again for sharp figures"
                assert abs(pixels - 2 * shown) <= 1


def test_notebook_is_light(text):
    assert len(text.encode()) < 2_000_000


def test_cells_have_stable_unique_ids(name, notebook):
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert ids == [cell.id for cell in notebooks.build(name).cells]


def test_exactly_one_cell_holds_parameters_as_literals(name, notebook):
    for version in (notebook, notebooks.build(name)):
        tagged = [c for c in version.cells if "parameters" in c.metadata.get("tags", [])]
        assert [cell.cell_type for cell in tagged] == ["code"]
        # Parsed here and not by the library, whose reading of the cell is tested elsewhere.
        values = {}
        for node in ast.parse(tagged[0].source).body:
            assert isinstance(node, ast.Assign), ast.unparse(node)
            (target,) = node.targets
            values[target.id] = ast.literal_eval(node.value)
        assert values == notebooks.parameters(version)
        assert values["profile"] == "quick"
        # Papermill would take the type of a parameter without a value for anything.
        assert None not in values.values()
        assert not any(c.metadata.get("tags") == ["injected-parameters"] for c in version.cells)


def test_every_code_cell_was_executed_in_order(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_no_output_is_an_error_or_a_warning(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output


def test_some_output_is_there(notebook):
    assert any(cell.outputs for cell in code_cells(notebook))


def test_kernel_is_the_one_every_front_end_has(notebook):
    assert notebook.metadata.kernelspec == notebooks.KERNEL
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info.name == "python"
    assert notebook.metadata.language_info.file_extension == ".py"


def test_nothing_of_the_machine_or_of_widgets_is_left(notebook, text):
    assert notebook.metadata.keys() == {"kernelspec", "language_info"}
    assert all(cell.metadata.keys() <= {"tags", "jupyter"} for cell in notebook.cells)
    assert "widget" not in text
    # Base64 holds every word sooner or later: images are not searched.
    words = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not MACHINE_PATH.search(words), MACHINE_PATH.search(words)


@pytest.mark.parametrize(
    "path", ["/home/ada/x", "/root/x", "/tmp/x1/y", "/Users/ada", r"C:\\Users\\ada"]
)
def test_paths_of_machines_are_recognised(path):
    assert MACHINE_PATH.search(f'"text": "in {path}/record.json"')


def test_provenance_is_shown_and_not_compared(name):
    # Commit, versions and hardware differ on every machine, so that regression must not see them.
    # Notebooks that load a run show the run's own.
    shown = re.compile(r"^(provenance\(\)|.*\w\S*\.provenance)$", re.M)
    code = [c for c in notebooks.build(name).cells if c.cell_type == "code"]
    cells = [c for c in code if shown.search(c.source)]
    assert len(cells) == 1
    assert "nbval-ignore-output" in cells[0].metadata.get("tags", [])


def test_notebook_asserts_what_it_shows(name):
    source = (FOLDER / "source" / f"{name}.py").read_text(encoding="utf-8")
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


def test_links_between_notebooks_lead_somewhere(name):
    for cell in notebooks.build(name).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", cell.source):
                linked = FOLDER / target
                assert linked.exists() or linked.stem in NAMES, target
