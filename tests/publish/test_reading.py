"""Headers and contents: what they say, that they settle, and that nothing is executed for them."""

import nbformat
import pytest

from weince_lib.experiments import ConfigError
from weince_lib.publish import notebooks, reading
from weince_lib.publish.notebooks import NotebookError

SOURCE = """\
# %% [markdown]
# # {title}
#
# *Paper: section 2.*
#
# Why it matters.

# %% tags=["parameters"]
seed = 7

# %%
from weince_lib.losses import infonce_loss

print(seed)
"""
READING = """
[[notebook]]
name = "{0}"
paper = "section 3, Equation 3.1"
about = "one step"
longer = {{ cpu = "an hour" }}
"""
CLAIM = """
[[claim]]
id = "it-holds"
label = "Theorem 2"
section = "2"
notebook = "01_first"
statement = "It holds."
"""
NAMES = ("00_overview", "01_first", "02_second")


@pytest.fixture(autouse=True)
def companion(tmp_path, monkeypatch):
    home = tmp_path / "companion"
    (home / "notebooks" / "source").mkdir(parents=True)
    (home / "paper").mkdir()
    (home / "weince_lib" / "losses").mkdir(parents=True)
    (home / "weince_lib" / "losses" / "__init__.py").touch()
    for name, title in zip(NAMES, ("The map", "01 · First", "02 · Second"), strict=True):
        source = SOURCE.format(title=title)
        if name == reading.OVERVIEW:
            source += '\n# %% [markdown] tags=["contents"]\n# generated\n'
        (home / "notebooks" / "source" / f"{name}.py").write_text(source)
    (home / "paper" / "reading.toml").write_text("".join(READING.format(n) for n in NAMES))
    (home / "paper" / "claims.toml").write_text(CLAIM)
    monkeypatch.setenv("WEINCE_HOME", str(home))
    return home


def executed(home, name):
    """A notebook with an output, as an execution would leave it."""
    notebook = notebooks.build(name)
    for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.execution_count = count
    cell.outputs = [nbformat.v4.new_output("stream", text="7\n")]
    path = home / "notebooks" / f"{name}.ipynb"
    path.write_text(notebooks.tidy(nbformat.writes(notebook)))
    return path


def source(name):
    return notebooks.source_path(name).read_text()


def test_header_says_where_when_and_what_next():
    reading.note_seconds("01_first", 55)
    said = reading.header("01_first")
    assert "section 3, Equation 3.1" in said
    assert "`quick` a minute (one core); `cpu` an hour" in said
    assert "[one of the paper's](../paper/claims.toml)" in said
    assert "[losses](../weince_lib/losses/__init__.py)" in said
    assert "[← 00 · Overview](00_overview.ipynb)" in said
    assert "[02 · Second →](02_second.ipynb)" in said


def test_ends_of_the_order_have_one_neighbour():
    assert "←" not in reading.header("00_overview")
    last = reading.header("02_second")
    assert "→" not in last
    assert "[Contents](00_overview.ipynb)" in last


def test_header_goes_below_the_title_and_takes_the_place_of_the_authors_line():
    text = reading.with_generated("01_first", source("01_first"))
    title, header, intro = text.split("# %% ")[1:4]
    assert title == "[markdown]\n# # 01 · First\n\n"
    assert header.startswith('[markdown] tags=["header"]\n# **Paper:**')
    assert intro == "[markdown]\n# Why it matters.\n\n"
    assert "*Paper: section 2.*" not in text


def test_generated_cells_settle():
    for name in NAMES:
        once = reading.with_generated(name, source(name))
        assert once != source(name)
        assert reading.with_generated(name, once) == once


def test_an_old_header_is_replaced_and_nothing_else(companion):
    before = reading.with_generated("01_first", source("01_first"))
    toml = companion / "paper" / "reading.toml"
    toml.write_text(toml.read_text().replace("section 3", "section 9"))
    after = reading.with_generated("01_first", before)
    changed = [
        (a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b
    ]
    assert len(changed) == 1
    assert "section 9" in changed[0][1]


def test_contents_list_every_notebook_but_the_overview():
    lines = reading.contents().splitlines()[2:]
    assert [line.split("](")[0] for line in lines] == ["| [01 · First", "| [02 · Second"]
    text = reading.with_generated("00_overview", source("00_overview"))
    assert reading.contents().replace("\n", "\n# ") in text
    assert "generated" not in text


def test_update_keeps_outputs_and_executes_nothing(companion):
    paths = {name: executed(companion, name) for name in NAMES}
    assert reading.update() == list(NAMES)
    for name, path in paths.items():
        notebook = nbformat.read(path, 4)
        assert [c.id for c in notebook.cells] == [c.id for c in notebooks.build(name).cells]
        assert notebook.cells[1].metadata.tags == ["header"]
        code = [c for c in notebook.cells if c.cell_type == "code"]
        assert [c.execution_count for c in code] == [1, 2]
        assert code[-1].outputs[0].text == "7\n"
    texts = [path.read_text() for path in paths.values()]
    assert reading.update() == []
    assert [path.read_text() for path in paths.values()] == texts


def test_update_of_some_leaves_the_others(companion):
    executed(companion, "01_first")
    assert reading.update(["01_first"]) == ["01_first"]
    assert 'tags=["header"]' not in source("02_second")


def test_outputs_never_stand_below_other_code(companion):
    path = executed(companion, "01_first")
    file = notebooks.source_path("01_first")
    file.write_text(file.read_text().replace("print(seed)", "print(seed + 1)"))
    text = path.read_text()
    with pytest.raises(NotebookError, match=r"01_first\.ipynb has other code.*weince notebooks"):
        notebooks.refresh("01_first")
    assert path.read_text() == text


def test_a_notebook_without_a_file_is_named():
    with pytest.raises(NotebookError, match=r"02_second\.ipynb does not exist"):
        notebooks.refresh("02_second")


def test_a_notebook_that_is_not_in_the_table_is_named(companion):
    (companion / "notebooks" / "source" / "03_third.py").write_text(SOURCE.format(title="03 · X"))
    with pytest.raises(NotebookError, match="says nothing about 03_third"):
        reading.header("03_third")


def test_a_source_without_a_title_is_named(companion):
    (companion / "notebooks" / "source" / "01_first.py").write_text("# %%\nx = 1\n")
    with pytest.raises(NotebookError, match="01_first has no markdown cell that begins"):
        reading.title("01_first")


def test_a_profile_that_does_not_exist_is_named(companion):
    toml = companion / "paper" / "reading.toml"
    toml.write_text(toml.read_text().replace("cpu =", "laptop ="))
    with pytest.raises(NotebookError, match=r"no profile.*laptop"):
        reading.header("01_first")


def test_a_misspelt_field_is_named(companion):
    toml = companion / "paper" / "reading.toml"
    toml.write_text(toml.read_text().replace("about =", "abuot ="))
    with pytest.raises(ConfigError, match="abuot"):
        reading.load_reading()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3, "seconds"),
        (30, "half a minute"),
        (60, "a minute"),
        (100, "2 minutes"),
        (290, "5 minutes"),
    ],
)
def test_durations_are_told_in_words(seconds, words):
    assert reading.spell(seconds) == words


def test_a_measured_time_replaces_one_that_reads_otherwise():
    reading.note_seconds("02_second", 60)
    reading.note_seconds("01_first", 60)
    reading.note_seconds("01_first", 70.4)  # still a minute
    assert reading.load_seconds() == {"01_first": 60, "02_second": 60}
    reading.note_seconds("01_first", 130.4)
    assert reading.load_seconds() == {"01_first": 130, "02_second": 60}
