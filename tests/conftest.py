"""What tests of several rooms share."""

import signal
from collections.abc import Iterator

import pytest
from sample_notebook import SOURCE
from sample_runs import TINY


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as at a terminal, however the tests were started.

    A script starts what it puts into the background with SIGINT ignored, and the processes that
    this one starts would ignore it too.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Keep the checkout's records and tables out of reach."""
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    for name in ("RUNS", "RESULTS", "FIGURES", "ENCODERS"):
        monkeypatch.setenv(f"WEINCE_{name}", str(tmp_path / name.lower()))


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory):
    """The folder of one finished run of the tiny quick profile, and its config."""
    from weince_lib.experiments import PROFILES, run_vision, vision_config

    folder = tmp_path_factory.mktemp("tiny") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEINCE_RUNS", str(folder))
        patch.setitem(PROFILES, "quick", TINY)
        config = vision_config("quick")
        run_vision(config, profile="quick", device="cpu")
    return folder, config


@pytest.fixture
def tiny(tiny_runs, monkeypatch):
    """Config and record of the finished run, with its profile in force."""
    from weince_lib.experiments import PROFILES
    from weince_lib.records import store

    folder, config = tiny_runs
    monkeypatch.setenv("WEINCE_RUNS", str(folder))
    monkeypatch.setitem(PROFILES, "quick", TINY)
    return config, store.find("vision", config.canonical())


@pytest.fixture
def two_notebooks(tmp_path, monkeypatch):
    """A companion of two small notebooks."""
    home = tmp_path / "companion"
    source = home / "notebooks" / "source"
    source.mkdir(parents=True)
    (source / "01_tiny.py").write_text(SOURCE, encoding="utf-8")
    (source / "02_next.py").write_text(SOURCE.replace("count < 5", "True"), encoding="utf-8")
    (source / "helpers.py").write_text("x = 1\n")
    monkeypatch.setenv("WEINCE_HOME", str(home))
    return home
