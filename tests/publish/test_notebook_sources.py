"""Sources become notebooks with stable ids; parameters are literals and checked by name."""

import nbformat
import pytest
from sample_notebook import SOURCE

from weince_lib.publish import notebooks
from weince_lib.publish.notebooks import NotebookError


def notebook_of(*cells):
    """A notebook whose cells are tagged ``parameters``."""
    made = [nbformat.v4.new_code_cell(text, metadata={"tags": ["parameters"]}) for text in cells]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("other = 1"), *made])


def test_build_gives_a_valid_notebook_that_was_not_run(two_notebooks):
    notebook = notebooks.build("01_tiny")
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code", "code"]
    assert notebook.metadata.kernelspec.name == "python3"
    assert all(cell.execution_count is None for cell in notebook.cells if "outputs" in cell)


def test_cell_ids_are_unique_and_depend_on_their_own_text_alone(two_notebooks):
    before = [cell.id for cell in notebooks.build("01_tiny").cells]
    path = two_notebooks / "notebooks" / "source" / "01_tiny.py"
    path.write_text(SOURCE.replace("# %%\nimport os", "# %%\nassert count < 5\n\n# %%\nimport os"))
    after = [cell.id for cell in notebooks.build("01_tiny").cells]
    assert len(set(after)) == len(after)
    assert [after[i] for i in (0, 1, 3)] == before[:3]
    path.write_text(SOURCE.replace("A tiny", "A small"))
    changed = [cell.id for cell in notebooks.build("01_tiny").cells]
    assert changed[0] != before[0]
    assert changed[1:] == before[1:]


def test_parameters_may_be_any_literal():
    text = "# a comment\na = [7, 21]\nb = {'x': (1, 2.5)}\nc = True\nd = -1e-6\ne = ''"
    values = {"a": [7, 21], "b": {"x": (1, 2.5)}, "c": True, "d": -1e-6, "e": ""}
    assert notebooks.parameters(notebook_of(text)) == values


@pytest.mark.parametrize(
    "line", ["b = a + 1", "b = int('3')", "import os", "b, c = 1, 2", "b = c = 1", "b = {[]: 1}"]
)
def test_parameters_cell_with_more_than_literals_is_refused(line):
    with pytest.raises(NotebookError, match="literal"):
        notebooks.parameters(notebook_of(f"a = 1\n{line}"))


@pytest.mark.parametrize("cells", [(), ("a = 1", "b = 2")])
def test_there_is_one_cell_of_parameters(cells):
    with pytest.raises(NotebookError, match=str(len(cells))):
        notebooks.parameters(notebook_of(*cells))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-1", -1),
        ("0.5", 0.5),
        ("3e-4", 3e-4),
        ("true", True),
        ("False", False),
        ("[7, 21]", [7, 21]),
        ("(7, 21)", (7, 21)),
        ('"7"', "7"),
        ("line-aic", "line-aic"),
        ("imagefolder:/data/birds", "imagefolder:/data/birds"),
        ("", ""),
        ("007", "007"),
    ],
)
def test_value_from_the_command_line(text, value):
    found = notebooks.parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("05_weince_loss", {"pairs": 64.5}),
        ("05_weince_loss", {"temperature": "hot"}),
        ("05_weince_loss", {"seed": True}),
        ("09_link_selection", {"seeds": 7}),
        ("09_link_selection", {"seeds": []}),
        ("09_link_selection", {"seeds": [7, "x"]}),
        ("09_link_selection", {"sentences": 1}),
        ("08_tail_evidence", {"loss": 7}),
    ],
)
def test_a_value_of_another_kind_is_named_before_anything_runs(name, given):
    ((parameter, value),) = given.items()
    with pytest.raises(NotebookError) as caught:
        notebooks.check_parameters(name, given)
    assert repr(parameter) in str(caught.value) and repr(value) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("05_weince_loss", {"pairs": 64, "temperature": 1, "profile": "cpu"}),
        ("09_link_selection", {"seeds": (1, 2), "sentences": True, "batches": 8}),
        ("08_tail_evidence", {"batch_size": 64, "quantile": 0.9}),
        ("06_train_vision", {"dataset": "imagefolder:x", "epochs": 3, "floor": 1e-5}),
    ],
)
def test_values_of_the_same_kind_pass(name, given):
    notebooks.check_parameters(name, given)
