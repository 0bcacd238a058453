"""Badges and the setup cell: written, idempotent, taken out again; executed notebooks keep step."""

import ast
import re

import jupytext
import nbformat
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.publish import badges, notebooks
from weince_lib.publish.notebooks import NotebookError

SOURCE = """\
# %% [markdown]
# # 05 · A title
#
# Some words.

# %% tags=["parameters"]
profile = "quick"

# %%
profile
"""
README = "# A companion\n\nSome words.\n\n## A section\n"


@pytest.fixture
def companion(tmp_path, monkeypatch):
    """README, and two notebooks that look executed."""
    home = tmp_path / "companion"
    (home / "notebooks" / "source").mkdir(parents=True)
    (home / "README.md").write_text(README)
    monkeypatch.setenv("WEINCE_HOME", str(home))
    for name in ("05_loss", "06_train_vision"):
        (home / "notebooks" / "source" / f"{name}.py").write_text(SOURCE)
        built = notebooks.build(name)
        code = [cell for cell in built.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, 1):
            cell.execution_count = count
        code[-1].outputs = [
            nbformat.v4.new_output("execute_result", {"text/plain": "'quick'"}, execution_count=2)
        ]
        text = notebooks.tidy(nbformat.writes(built))
        (home / "notebooks" / f"{name}.ipynb").write_text(text)
    return home


def contents(home):
    return {
        str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()
    }


def test_badges_go_under_the_titles_and_open_the_notebook_at_the_tag(companion):
    changed, behind = badges.write("ada/we-ince", "v1.0")
    assert len(changed) == 5
    assert behind == []
    readme = (companion / "README.md").read_text()
    assert readme.startswith("# A companion\n\n<!-- badges -->\n[![")
    assert readme.endswith("<!-- /badges -->\n\nSome words.\n\n## A section\n")
    source = (companion / "notebooks/source/05_loss.py").read_text()
    first = nbformat.read(companion / "notebooks/05_loss.ipynb", 4).cells[0].source
    for text in (source, first):
        assert "github/ada/we-ince/blob/v1.0/notebooks/05_loss.ipynb)" in text
        assert "/v2/gh/ada/we-ince/v1.0?urlpath=lab%2Ftree%2Fnotebooks%2F05_loss.ipynb)" in text
    assert "notebooks/00_overview.ipynb" in readme


def test_every_picture_is_a_shield_and_every_link_has_one(companion):
    line = badges.badges("05_loss", "ada/x", "main")
    assert len(re.findall(r"\[!\[[^]]+\]\(https://img\.shields\.io/badge/[^)\s]+\)\]", line)) == 2
    assert "\n" not in line


def test_training_notebooks_are_not_for_binder(companion):
    badges.write("ada/x")
    text = (companion / "notebooks/source/06_train_vision.py").read_text()
    assert "colab" in text
    assert "mybinder" not in text


def test_writing_twice_is_writing_once(companion):
    badges.write("ada/x", "v1")
    once = contents(companion)
    assert badges.write("ada/x", "v1") == ([], [])
    assert contents(companion) == once


def test_another_address_takes_the_place_of_the_first(companion):
    badges.write("ada/x", "v1")
    badges.write("bob/y", "v2")
    texts = contents(companion)
    assert not any("ada/x" in text or "v1" in text for text in texts.values())
    badges.write("ada/x", "v1")
    badges.write("bob/y", "v2")
    assert contents(companion) == texts


def test_removing_leaves_the_setup_cell_without_an_address(companion):
    before = contents(companion)
    badges.write("ada/x", "v1")
    badges.write(None)
    after = contents(companion)
    assert after["README.md"] == before["README.md"]
    assert not any("badges -->" in text or "ada/x" in text for text in after.values())
    assert badges.setup_cell(None) in after["notebooks/source/05_loss.py"]


def test_sources_and_notebooks_stay_in_step_and_keep_their_outputs(companion):
    for repository in ("ada/x", "bob/longer-name", None):
        badges.write(repository)
        for name in ("05_loss", "06_train_vision"):
            built = notebooks.build(name)
            executed = nbformat.read(companion / "notebooks" / f"{name}.ipynb", 4)
            nbformat.validate(executed)
            for key in ("id", "source", "cell_type", "metadata"):
                assert [c[key] for c in executed.cells] == [c[key] for c in built.cells]
            code = [cell for cell in executed.cells if cell.cell_type == "code"]
            assert [cell.execution_count for cell in code] == [1, 2, 3]
            assert code[-1].outputs[0].data == {"text/plain": "'quick'"}
            assert code[-1].outputs[0].execution_count == 3
            assert code[0].outputs == []


def test_setup_cell_is_the_first_code_and_is_python(companion):
    badges.write("ada/x", "v1")
    code = [c for c in notebooks.build("05_loss").cells if c.cell_type == "code"]
    assert code[0].metadata.tags == ["setup"]
    assert code[1].metadata.tags == ["parameters"]
    values = [n.value for n in ast.walk(ast.parse(code[0].source)) if isinstance(n, ast.Constant)]
    assert "https://github.com/ada/x" in values
    assert "v1" in values


def address_of(source):
    """Repository and ref in a source's setup cell; no repository where its address is empty."""
    (address, ref) = re.search(r'repository, ref = "(.*)", "(.*)"', source).groups()
    if not address:
        assert ref == ""
        return None, "main"
    return address.removeprefix("https://github.com/"), ref


def faults_of_stamps():
    """Sources, notebooks and README that differ from what the setup cells' address makes."""
    sources = {name: notebooks.source_path(name).read_text() for name in notebooks.names()}
    found = {address_of(text) for text in sources.values()}
    assert len(found) == 1, f"addresses differ: {found}; run `weince badges`"
    ((repository, ref),) = found
    faults = [
        name for name, text in sources.items()
        if badges.stamped(text, name, repository, ref) != text
        or (repository is None and ("img.shields.io" in text or badges.START in text))
    ]  # fmt: skip
    readme = (badges.paths.root() / "README.md").read_text()
    expected = badges.with_badges(readme, badges.OVERVIEW, repository, ref)
    if expected != readme or (repository is None and "img.shields.io" in readme):
        faults.append("README.md")
    return faults


def test_readme_and_notebooks_are_as_the_command_writes_them():
    assert len(notebooks.names()) > 5
    assert faults_of_stamps() == [], "run `weince badges`"


def test_so_they_are_after_the_command(companion):
    for repository, ref in (("ada/x", "v1"), ("bob/y", "main"), (None, "main")):
        badges.write(repository, ref)
        assert faults_of_stamps() == []


@pytest.mark.parametrize("stamp", [("ada/x", "v1"), (None, "main")])
@pytest.mark.parametrize("file", ["README.md", "notebooks/source/05_loss.py"])
def test_a_badge_that_the_address_does_not_make_is_seen(companion, stamp, file):
    badges.write(*stamp)
    path = companion / file
    other = badges.with_badges(
        path.read_text(), path.stem, "eve/z", comment="# " if path.suffix == ".py" else ""
    )
    path.write_text(other)
    assert faults_of_stamps() == ["README.md" if path.suffix == ".md" else path.stem]


def test_badge_lines_survive_the_way_to_a_notebook_and_back():
    text = badges.stamped(SOURCE, "05_loss", "ada/x", "v1")
    notebook = jupytext.reads(text, fmt="py:percent")
    again = jupytext.writes(notebook, fmt="py:percent")
    assert badges.badges("05_loss", "ada/x", "v1") in again
    assert badges.setup_cell("ada/x", "v1").strip() in again


@pytest.mark.parametrize(
    "name",
    [
        "",
        "weince",
        "ada/",
        "/x",
        "ada/x/y",
        "a da/x",
        "-ada/x",
        'ada/x"',
        "https://x/ada/x",
        "a/..",
        "ada/x.git",
        "ada--b/x",
    ],
)
def test_a_name_that_is_not_owner_and_name_is_refused_and_nothing_written(companion, name):
    before = contents(companion)
    with pytest.raises(NotebookError, match="OWNER/NAME"):
        badges.write(name)
    assert contents(companion) == before


@pytest.mark.parametrize("ref", ["", "a b", "-x", "a..b", 'v"', "x/", "x.lock"])
def test_a_ref_that_cannot_be_one_is_refused(companion, ref):
    with pytest.raises(NotebookError, match="tag or branch"):
        badges.write("ada/x", ref)


def test_a_branch_with_a_slash_is_escaped_for_binder(companion):
    line = badges.badges("05_loss", "ada/x", "fix/it")
    assert "/blob/fix/it/notebooks/" in line
    assert "/ada/x/fix%2Fit?" in line


def test_a_notebook_behind_its_source_is_named_and_left_alone(companion):
    source = companion / "notebooks/source/06_train_vision.py"
    source.write_text(SOURCE + "\n# %%\n1 + 1\n")
    executed = companion / "notebooks/06_train_vision.ipynb"
    before = executed.read_text()
    changed, behind = badges.write("ada/x")
    assert behind == [executed]
    assert executed.read_text() == before
    assert len(changed) == 4
    assert badges.START in source.read_text()
    done = CliRunner().invoke(main, ["badges", "--repo", "ada/x"])
    assert done.exit_code == 1
    assert "weince notebooks 06_train_vision" in done.output


def test_the_command_prints_what_it_changed_and_refuses_bad_input_in_one_line(companion):
    run = CliRunner().invoke
    done = run(main, ["badges", "--repo", "ada/x", "--ref", "v1"])
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) == 5
    assert run(main, ["badges", "--repo", "ada/x", "--ref", "v1"]).output == ""
    bad = run(main, ["badges", "--repo", "weince"])
    assert bad.exit_code == 1
    assert "OWNER/NAME" in bad.output
    assert len(bad.output.strip().splitlines()) == 1
    assert run(main, ["badges"]).exit_code == 2
    assert run(main, ["badges", "--repo", "ada/x", "--remove"]).exit_code == 2
