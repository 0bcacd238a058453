"""Sources become notebooks with stable ids; parameters are literals and checked by name."""

import re

import nbformat
import pytest
from sample_notebook import SOURCE

from weince_lib.publish import notebooks
from weince_lib.publish.notebooks import NotebookError


def notebook_of(*cells):
    """A notebook whose cells are tagged ``parameters``."""
    made = [nbformat.v4.new_code_cell(text, metadata={"tags": ["parameters"]}) for text in cells]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("other = 1"), *made])


@pytest.mark.parametrize("name", ["01_tiny", "01_tiny.py", "01_tiny.ipynb", "notebooks/01_tiny.py"])
def test_source_is_found_with_or_without_suffix(two_notebooks, name):
    assert notebooks.source_path(name) == two_notebooks / "notebooks" / "source" / "01_tiny.py"


@pytest.mark.parametrize("call", [notebooks.source_path, notebooks.build, notebooks.run])
def test_unknown_notebook_lists_the_known_ones(two_notebooks, call):
    with pytest.raises(NotebookError) as caught:
        call("03_tiny")
    for word in ("'03_tiny'", "01_tiny", "02_next"):
        assert word in str(caught.value)


def test_build_gives_a_valid_notebook_that_was_not_run(two_notebooks):
    notebook = notebooks.build("01_tiny")
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code", "code"]
    assert notebook.metadata == {"kernelspec": notebooks.KERNEL}
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


def test_parameters_are_the_literals_of_the_cell(two_notebooks):
    found = notebooks.parameters(notebooks.build("01_tiny"))
    assert found == {"count": 1, "word": "a", "scale": -0.5}


def test_parameters_may_be_any_literal():
    text = "# a comment\na = [7, 21]\nb = {'x': (1, 2.5)}\nc = True\nd = -1e-6\ne = ''"
    values = {"a": [7, 21], "b": {"x": (1, 2.5)}, "c": True, "d": -1e-6, "e": ""}
    assert notebooks.parameters(notebook_of(text)) == values


@pytest.mark.parametrize(
    "line",
    [
        "b = a",
        "b = a + 1",
        "b = int('3')",
        "b = [a]",
        "import os",
        "print(a)",
        "a.b = 1",
        "b, c = 1, 2",
        "b = c = 1",
        "if a: b = 1",
        "b = f'{a}'",
        "b = {[]: 1}",
    ],
)
def test_parameters_cell_with_more_than_literals_is_refused(line):
    with pytest.raises(NotebookError, match="literal"):
        notebooks.parameters(notebook_of(f"a = 1\n{line}"))


def test_misspelt_parameter_is_an_error_with_the_nearest_named(two_notebooks):
    with pytest.raises(NotebookError) as caught:
        notebooks.check_parameters("01_tiny", {"count": 1, "cuont": 3})
    for part in ("01_tiny", "'cuont'", "did you mean 'count'?", "known: count, word, scale"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parameter_like_none_there_is_lists_the_known_ones(two_notebooks):
    with pytest.raises(NotebookError) as caught:
        notebooks.check_parameters("01_tiny", {"zzz": 3})
    assert "did you mean" not in str(caught.value)
    # Two clauses of one sentence: not "no parameter 'zzz' known".
    assert re.search(r"'zzz'[;,.] known: count, word, scale", str(caught.value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e-3", 1e-3),
        ("3e-4", 3e-4),
        ("true", True),
        ("False", False),
        ("[7, 21]", [7, 21]),
        ("(7, 21)", (7, 21)),
        ("['a', 'b']", ["a", "b"]),
        ('"7"', "7"),
        ("'7'", "7"),
        ("weince", "weince"),
        ("auto", "auto"),
        ("line-aic", "line-aic"),
        ("imagefolder:/data/birds", "imagefolder:/data/birds"),
        ("fashion-mnist", "fashion-mnist"),
        ("", ""),
        ("007", "007"),
        ("a b", "a b"),
        ("1 +", "1 +"),
    ],
)
def test_value_from_the_command_line(text, value):
    found = notebooks.parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [
        ("05_weince_loss", {"pairs": "many"}, "valid integer"),
        ("05_weince_loss", {"pairs": 64.5}, "valid integer"),
        ("05_weince_loss", {"temperature": "hot"}, "valid number"),
        ("05_weince_loss", {"seed": True}, "valid integer"),
        ("09_link_selection", {"seeds": 7}, "valid list"),
        ("09_link_selection", {"seeds": []}, "at least 1 item"),
        ("09_link_selection", {"seeds": [7, "x"]}, "valid integer"),
        ("09_link_selection", {"sentences": 1}, "valid boolean"),
        ("08_tail_evidence", {"loss": 7}, "valid string"),
        ("12_what_drives_the_gain", {"studies": "cpu"}, "valid list"),
    ],
)
def test_a_value_of_another_kind_is_named_before_anything_runs(name, given, kind):
    ((parameter, value),) = given.items()
    with pytest.raises(NotebookError) as caught:
        notebooks.check_parameters(name, given)
    for part in (repr(parameter), f"got {value!r}", kind):
        assert part in str(caught.value)
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
