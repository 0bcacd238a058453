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
    assert paths.reported() == companion / "paper" / "reported"


@pytest.mark.parametrize("variable", NAMED)
def test_generated_folders_can_be_named_one_by_one(variable, companion, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, str(tmp_path / "mine"))
    for name, folder in NAMED.items():
        assert (folder() == tmp_path / "mine") == (name == variable)


@pytest.mark.parametrize("variable", ["WEINCE_HOME", *NAMED])
def test_paths_do_not_depend_on_the_working_directory(variable, companion, tmp_path, monkeypatch):
    # A kernel runs in notebooks/ and the command that started it elsewhere: both must agree.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "companion" if variable == "WEINCE_HOME" else "mine")
    folders = (paths.root, paths.runs, paths.results, paths.figures)
    if variable == "WEINCE_HOME":
        # There is nothing else a relative home could start from; it has to be absolute at once.
        assert all(folder().is_absolute() for folder in folders)
        return
    here = [folder() for folder in folders]
    assert all(folder.is_absolute() for folder in here)
    monkeypatch.chdir(companion / "notebooks")
    assert [folder() for folder in folders] == here


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
    assert (drive / "weince").is_dir()
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


@pytest.mark.parametrize("variable", NAMED)
def test_an_empty_variable_is_one_that_is_not_set(variable, companion, monkeypatch):
    before = NAMED[variable]()
    monkeypatch.setenv(variable, "")
    assert NAMED[variable]() == before != companion


@pytest.mark.parametrize("variable", ["WEINCE_HOME", "WEINCE_DATA", *NAMED])
def test_a_tilde_is_the_users_home(variable, companion, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "~/companion")
    folder = {"WEINCE_HOME": paths.root, "WEINCE_DATA": paths.data, **NAMED}[variable]
    assert folder() == companion


@pytest.mark.parametrize("variable", NAMED)
def test_a_file_in_a_folders_place_is_named(variable, companion, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError, match=f"{variable}.*file.*no folder"):
        NAMED[variable]()
