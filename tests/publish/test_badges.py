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
    changed, behind = badges.write("ada/we-ince", "fix/it")
    assert (len(changed), behind) == (5, [])
    assert "notebooks/00_overview.ipynb" in (companion / "README.md").read_text()
    first, setup = nbformat.read(companion / "notebooks/05_loss.ipynb", 4).cells[:2]
    assert "github/ada/we-ince/blob/fix/it/notebooks/05_loss.ipynb)" in first.source
    tree = "/v2/gh/ada/we-ince/fix%2Fit?urlpath=lab%2Ftree%2Fnotebooks%2F05_loss.ipynb)"
    assert tree in first.source
    assert "--branch=fix/it https://github.com/ada/we-ince weince" in setup.source
    # Sessions of Binder are not made for training.
    training = (companion / "notebooks/source/06_train_vision.py").read_text()
    assert "colab" in training
    assert "mybinder" not in training


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
    badges.write("ada/x")
    built = notebooks.build("05_loss")
    executed = nbformat.read(companion / "notebooks" / "05_loss.ipynb", 4)
    nbformat.validate(executed)
    for key in ("id", "source", "cell_type", "metadata"):
        assert [c[key] for c in executed.cells] == [c[key] for c in built.cells]
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [1, 2, 3]
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
    ("name", "ref"),
    [("weince", "v1"), ("a da/x", "v1"), ("-ada/x", "v1"), ("a/..", "v1"), ("ada/x", 'v"')],
)
def test_what_is_no_repository_or_tag_is_refused_and_nothing_written(companion, name, ref):
    before = contents(companion)
    with pytest.raises(NotebookError):
        badges.write(name, ref)
    assert contents(companion) == before


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


def test_the_command_writes_removes_and_refuses_bad_input_in_one_line(companion):
    def run(*words):
        return CliRunner().invoke(main, ["badges", *words])

    before = contents(companion)
    assert run("--repo", "ada/x", "--ref", "v1").exit_code == 0
    assert run("--remove").exit_code == 0
    assert contents(companion) == before
    bad = run("--repo", "weince")
    assert (bad.exit_code, len(bad.output.strip().splitlines())) == (1, 1)
    assert run("--repo", "ada/x", "--remove").exit_code == 2
