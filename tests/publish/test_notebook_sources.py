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


def test_names_are_the_numbered_sources_in_reading_order(two_notebooks):
    assert notebooks.names() == ["01_tiny", "02_next"]


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
    assert [cell.id for cell in notebooks.build("01_tiny").cells] == before
    assert len(set(before)) == len(before)
    path = two_notebooks / "notebooks" / "source" / "01_tiny.py"
    path.write_text(SOURCE.replace("# %%\nimport os", "# %%\n1 + 1\n\n# %%\nimport os"))
    after = [cell.id for cell in notebooks.build("01_tiny").cells]
    assert [after[i] for i in (0, 1, 3, 4)] == before
    path.write_text(SOURCE.replace("A tiny", "A small"))
    changed = [cell.id for cell in notebooks.build("01_tiny").cells]
    assert changed[0] != before[0]
    assert changed[1:] == before[1:]


def test_equal_cells_get_different_ids(two_notebooks):
    path = two_notebooks / "notebooks" / "source" / "01_tiny.py"
    path.write_text(SOURCE + "\n# %%\nprint(1)\n\n# %%\nprint(1)\n\n# %% [markdown]\n# print(1)\n")
    notebook = notebooks.build("01_tiny")
    nbformat.validate(notebook)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


def test_parameters_are_the_literals_of_the_cell(two_notebooks):
    found = notebooks.parameters(notebooks.build("01_tiny"))
    assert found == {"count": 1, "word": "a", "scale": -0.5}


def test_parameters_may_be_any_literal():
    text = "# a comment\na = [7, 21]\nb = {'x': (1, 2.5)}\nc = True\nd = -1e-6\ne = ''"
    values = {"a": [7, 21], "b": {"x": (1, 2.5)}, "c": True, "d": -1e-6, "e": ""}
    assert notebooks.parameters(notebook_of(text)) == values


@pytest.mark.parametrize("cells", [(), ("a = 1", "b = 2")], ids=["none", "two"])
def test_there_has_to_be_exactly_one_parameters_cell(cells):
    with pytest.raises(NotebookError, match=f"{len(cells)} cells"):
        notebooks.parameters(notebook_of(*cells))


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


def test_line_that_is_no_literal_is_shown():
    with pytest.raises(NotebookError, match=re.escape("b = a + 1")):
        notebooks.parameters(notebook_of("a = 1\nb = a + 1"))


def test_parameters_that_a_notebook_has_are_accepted(two_notebooks):
    notebooks.check_parameters("01_tiny", {})
    notebooks.check_parameters("01_tiny", {"count": 3, "scale": 1.0})


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
    ("name", "given", "message"),
    [
        ("05_weince_loss", {"pairs": "many"}, r"'pairs' must be a whole number.*128; got 'many'"),
        ("05_weince_loss", {"pairs": 64.5}, r"'pairs' must be a whole number.*got 64\.5"),
        ("05_weince_loss", {"temperature": "hot"}, r"'temperature' must be a number.*'hot'"),
        ("05_weince_loss", {"seed": True}, "'seed' must be a whole number.*got True"),
        ("09_link_selection", {"seeds": 7}, r"'seeds' must be a list of whole numbers.*got 7"),
        ("09_link_selection", {"seeds": []}, r"'seeds' must be a list of whole numbers.*got \[\]"),
        ("09_link_selection", {"seeds": [7, "x"]}, r"'seeds' must be a list of whole numbers"),
        ("09_link_selection", {"sentences": "no"}, "'sentences' must be a flag.*got 'no'"),
        ("09_link_selection", {"sentences": 1}, "'sentences' must be a flag.*got 1"),
        ("08_tail_evidence", {"loss": 7}, "'loss' must be text.*got 7"),
        ("12_what_drives_the_gain", {"studies": "cpu"}, "'studies' must be a list of names"),
    ],
)
def test_a_value_of_another_kind_is_named_before_anything_runs(name, given, message):
    with pytest.raises(NotebookError, match=message):
        notebooks.check_parameters(name, given)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("05_weince_loss", {"pairs": 64, "temperature": 1, "profile": "cpu"}),
        ("09_link_selection", {"seeds": [1], "sentences": True, "batches": 8}),
        ("08_tail_evidence", {"batch_size": 64, "quantile": 0.9}),
        ("06_train_vision", {"dataset": "imagefolder:x", "epochs": 3, "floor": 1e-5}),
    ],
)
def test_values_of_the_same_kind_pass(name, given):
    notebooks.check_parameters(name, given)
