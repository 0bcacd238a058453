"""Where things are, whatever the working directory."""

from pathlib import Path

import pytest

import weince_lib
from weince_lib import paths

CHECKOUT = Path(weince_lib.__file__).resolve().parents[1]
pytestmark = pytest.mark.usefixtures("own_folders")

NAMED = {
    "WEINCE_RUNS": paths.runs,
    "WEINCE_RESULTS": paths.results,
    "WEINCE_FIGURES": paths.figures,
}


@pytest.fixture
def companion(tmp_path, monkeypatch):
    """A companion somewhere else, with nothing in it yet."""
    home = tmp_path / "companion"
    (home / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.setenv("WEINCE_HOME", str(home))
    for name in NAMED:
        monkeypatch.delenv(name)
    return home


def test_root_is_the_checkout(monkeypatch):
    monkeypatch.delenv("WEINCE_DATA", raising=False)
    assert paths.root() == CHECKOUT
    assert paths.data() == CHECKOUT / "data"
    assert paths.notebooks() == CHECKOUT / "notebooks"
    assert paths.reported() == CHECKOUT / "paper" / "reported"


def test_everything_lies_below_a_named_home(companion):
    assert paths.root() == companion
    assert paths.notebooks() == companion / "notebooks"
    assert paths.runs() == companion / "runs"
    assert paths.results() == companion / "paper" / "results"
    assert paths.figures() == companion / "figures"


@pytest.mark.parametrize("variable", NAMED)
def test_generated_folders_can_be_named_one_by_one(variable, companion, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    for name, folder in NAMED.items():
        assert (folder() == tmp_path / "mine") == (name == variable)


def test_paths_do_not_depend_on_the_working_directory(companion, tmp_path, monkeypatch):
    # A kernel runs in notebooks/ and the command that started it elsewhere: both must agree.
    monkeypatch.setenv("WEINCE_RUNS", "mine")
    for folder in (tmp_path, companion / "notebooks"):
        monkeypatch.chdir(folder)
        assert paths.runs() == companion / "mine"
    # There is nothing else a relative home could start from; it has to be absolute at once.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEINCE_HOME", "companion")
    assert paths.root() == companion
    assert paths.runs() == companion / "mine"


def test_a_home_without_notebooks_is_named_with_the_mend(tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="WEINCE_HOME") as caught:
        paths.root()
    assert str(tmp_path / "nowhere") in str(caught.value)


def test_data_lies_below_the_home_or_where_it_is_named(companion, tmp_path, monkeypatch):
    monkeypatch.delenv("WEINCE_DATA", raising=False)
    assert paths.data() == companion / "data"
    monkeypatch.setenv("WEINCE_DATA", "sets")
    assert paths.data() == companion / "sets"
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "mine"))
    assert paths.data() == tmp_path / "mine"


def test_runs_can_be_kept_in_a_folder_that_outlasts_the_session(companion, tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_RUNS", "before")  # put back after the test
    drive = tmp_path / "drive"
    drive.mkdir()
    assert paths.keep_runs_in(drive / "weince") == paths.runs() == drive / "weince"
    (drive / "weince" / "record.json").touch()
    paths.keep_runs_in(drive / "weince")  # a second session finds what the first left
    assert (paths.runs() / "record.json").exists()
    assert paths.keep_runs_in("mine") == companion / "mine"


def test_a_drive_that_is_not_mounted_is_named_and_changes_nothing(companion, tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_RUNS", "before")
    with pytest.raises(FileNotFoundError, match="mount the drive") as caught:
        paths.keep_runs_in(tmp_path / "MyDrive" / "weince")
    assert str(tmp_path / "MyDrive") in str(caught.value)
    assert not (tmp_path / "MyDrive").exists()
    assert paths.runs() == companion / "before"


def test_an_empty_variable_is_one_that_is_not_set(companion, monkeypatch):
    before = paths.results()
    monkeypatch.setenv("WEINCE_RESULTS", "")
    assert paths.results() == before != companion


@pytest.mark.parametrize("variable", ["WEINCE_HOME", "WEINCE_DATA", "WEINCE_RUNS"])
def test_a_tilde_is_the_users_home(variable, companion, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "~/companion")
    folder = {"WEINCE_HOME": paths.root, "WEINCE_DATA": paths.data, **NAMED}[variable]
    assert folder() == companion


def test_a_file_in_a_folders_place_is_named(companion, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("WEINCE_FIGURES", str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError, match=r"WEINCE_FIGURES.*file"):
        paths.figures()
