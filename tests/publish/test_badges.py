"""Badges and the setup cell: written, idempotent, taken out again; executed notebooks keep step."""

import re

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
        source = badges.stamped(SOURCE, name, None)
        (home / "notebooks" / "source" / f"{name}.py").write_text(source)
        built = notebooks.build(name)
        code = [cell for cell in built.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, 1):
            cell.execution_count = count
        code[-1].outputs = [
            nbformat.v4.new_output("execute_result", {"text/plain": "'quick'"}, execution_count=3)
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
    assert (len(changed), behind) == (5, [])
    readme = (companion / "README.md").read_text()
    assert readme.startswith("# A companion\n\n<!-- badges -->\n[![")
    assert readme.endswith("<!-- /badges -->\n\nSome words.\n\n## A section\n")
    assert "notebooks/00_overview.ipynb" in readme
    source = (companion / "notebooks/source/05_loss.py").read_text()
    first, setup = nbformat.read(companion / "notebooks/05_loss.ipynb", 4).cells[:2]
    for text in (source, first.source):
        assert "github/ada/we-ince/blob/v1.0/notebooks/05_loss.ipynb)" in text
        assert "/v2/gh/ada/we-ince/v1.0?urlpath=lab%2Ftree%2Fnotebooks%2F05_loss.ipynb)" in text
    for text in (source, setup.source):
        assert "--branch=v1.0 https://github.com/ada/we-ince weince" in text
    # Sessions of Binder are not made for training.
    training = (companion / "notebooks/source/06_train_vision.py").read_text()
    assert "colab" in training
    assert "mybinder" not in training


def test_a_branch_with_a_slash_is_escaped_for_binder():
    line = badges.badges("05_loss", "ada/x", "fix/it")
    assert "/blob/fix/it/notebooks/" in line
    assert "/ada/x/fix%2Fit?" in line


def test_writing_again_changes_nothing_and_removing_takes_all_out(companion):
    before = contents(companion)
    badges.write("ada/x", "v1")
    once = contents(companion)
    assert badges.write("ada/x", "v1") == ([], [])
    assert contents(companion) == once
    badges.write("bob/longer-name", "v2")
    assert not any("ada/x" in text or "v1" in text for text in contents(companion).values())
    badges.write("ada/x", "v1")
    assert contents(companion) == once
    badges.write(None)
    assert contents(companion) == before


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
            assert [cell.metadata.get("tags") for cell in code] == [["setup"], ["parameters"], None]
            assert code[-1].outputs[0].data == {"text/plain": "'quick'"}


def test_readme_and_notebooks_are_as_the_command_writes_them():
    sources = {name: notebooks.source_path(name).read_text() for name in notebooks.names()}
    address = r"--branch=(\S+) https://github\.com/(\S+) weince"
    ((ref, repository),) = {
        found.groups() if (found := re.search(address, text)) else ("main", None)
        for text in sources.values()
    }
    for name, text in sources.items():
        assert badges.stamped(text, name, repository, ref) == text, "run `weince badges`"
    readme = (badges.paths.root() / "README.md").read_text()
    assert badges.with_badges(readme, badges.OVERVIEW, repository, ref) == readme


@pytest.mark.parametrize(
    "name",
    ["", "weince", "ada/", "/x", "ada/x/y", "a da/x", "-ada/x", "a/..", "ada/x.git", "ada--b/x"],
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
    bad = run(main, ["badges", "--repo", "weince"])
    assert bad.exit_code == 1
    assert len(bad.output.strip().splitlines()) == 1
    assert run(main, ["badges"]).exit_code == 2
    assert run(main, ["badges", "--repo", "ada/x", "--remove"]).exit_code == 2
