"""Every test in this folder has runs, results and figures of its own."""

import pytest
from sample_notebook import SOURCE

from weince_lib.experiments import PROFILES, run_vision, store, vision_config

#: A quick profile that trains in a second.
TINY = {
    "dataset": "digits",
    "train_limit": 120,
    "encoder": "resnet-small",
    "width": 4,
    "projection_dim": 8,
    "epochs": 2,
    "batch_size": 32,
    "probe_epochs": 2,
    "probe_seeds": (1, 2),
    "split_seeds": (1, 2),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """Keep the checkout's records and tables out of reach."""
    monkeypatch.delenv("WEINCE_HOME", raising=False)
    for name in ("RUNS", "RESULTS", "FIGURES", "ENCODERS"):
        monkeypatch.setenv(f"WEINCE_{name}", str(tmp_path / name.lower()))


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory):
    """The folder of one finished run of the tiny quick profile, and its config."""
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
