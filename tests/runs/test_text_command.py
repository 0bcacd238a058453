"""``python -m weince_lib.runs.text``: run to its end, and what wrong settings are told."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from weince_lib.records import store
from weince_lib.runs import text
from weince_lib.runs.text_config import text_config
from weince_lib.text import load_corpus
from weince_lib.text.tokens import word_tokenizer
from weince_lib.training import NonFiniteLossError
from weince_lib.training.processes import ProcessError
from weince_lib.training.stopping import TrainingInterrupted

pytest.importorskip("tokenizers")
# Word embeddings in place of the transformer: these are judged in no time.
SMALL = {
    "encoder": "static",
    "token_dropout": 0.5,
    "train_limit": 128,
    "batch_size": 32,
    "epochs": 1,
    "evaluate_every": 2,
}
WORDS = ["--profile", "quick", "--loss", "infonce", "--seed", "3"]


@pytest.fixture
def folder(tmp_path):
    """A model's folder, random and of four dimensions."""
    made = tmp_path / "small"
    made.mkdir()
    words = word_tokenizer(load_corpus("grammar"))
    words.save(str(made / "tokenizer.json"))
    (made / "config.json").write_text("{}")
    table = torch.randn(words.get_vocab_size(), 4, generator=torch.Generator().manual_seed(0))
    save_file({"word_embeddings.weight": table}, made / "model.safetensors")
    return made


def test_one_run_from_the_command_line(tmp_path, folder):
    own = os.environ | {"WEINCE_RUNS": str(tmp_path / "runs"), "CUDA_VISIBLE_DEVICES": ""}
    small = SMALL | {"model": str(folder)}
    given = [f"{name}={value}" for name, value in small.items()]
    done = subprocess.run(
        [sys.executable, "-m", "weince_lib.runs.text", *WORDS, *given],
        capture_output=True,
        text=True,
        env=own | {"OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    path = Path(done.stdout.strip())
    assert path.is_relative_to(tmp_path) and path.name == "record.json"
    record = store.read(path)
    config = text_config("quick", loss="infonce", seed=3, **small)
    assert record.config == json.loads(json.dumps(config.canonical()))
    assert [row["step"] for row in record.details["history"]] == [2, 4]
    assert -100 <= record.metric("sts_spearman", "test") <= 100
    assert record.labels["profile"] == "custom"  # in no table


def run(*words):
    """Exit status, what was printed, and what was said of an error."""
    done = CliRunner().invoke(text.main, words)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epochs=none", "epochs = 'none'"),
        ("width=3", "unknown setting 'width'"),
        ("corpus=file:/no/such", "/no/such is not a file"),
        ("train_limit=20", "20 sentences make no batch"),
        ("epochs", "epochs = ''"),
        ("seed=3", "'seed=3': give --seed 3 instead"),
        ("loss=weince", "give --loss weince instead"),
        ("preset=release", "give --preset release instead"),
        ("profile=cpu", "give --profile cpu instead"),
        ("sts=", "sts = "),
        ("sts=grammar,stsc", "unknown STS data 'stsc'"),
    ],
)
def test_a_wrong_setting_is_one_line(setting, message):
    code, out, err = run(*WORDS, setting)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("word", "sets"),
    [
        ("sts=stsb", ("stsb",)),
        ("sts=grammar,stsb", ("grammar", "stsb")),
        ('sts=["grammar"]', ("grammar",)),
    ],
)
def test_sets_are_named_with_commas(word, sets, monkeypatch):
    asked = []

    def noted(config, *, profile):
        asked.append((config.sts, config.seed, profile))
        return SimpleNamespace(path="record.json")

    monkeypatch.setattr(text, "run_text", noted)
    assert run(*WORDS, word) == (0, "record.json\n", "")
    assert asked == [(sets, 3, "quick")]


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        (NonFiniteLossError("step 3"), 1, "Error: step 3\n"),
        (ProcessError("too many\nof them"), 1, "Error: too many of them\n"),
        (TrainingInterrupted("stopped after 3 of 6 steps"), 130, "stopped after 3 of 6 steps\n"),
        (KeyboardInterrupt(), 130, "stopped; run again to continue\n"),
        (signal.SIGTERM, 130, "stopped; run again to continue\n"),
    ],
)
def test_what_stops_a_run_is_one_line(raised, status, told, monkeypatch):
    def stopped(config, *, profile):
        if isinstance(raised, signal.Signals):
            signal.raise_signal(raised)
        raise raised

    monkeypatch.setattr(text, "run_text", stopped)
    assert run(*WORDS) == (status, "", told)


def test_arguments_explain_themselves():
    code, out, _ = run("--help")
    assert code == 0 and "sts=stsb,sickr" in out
    for words, known in ((["--profile", "fast"], "colab"), (["--preset", "best"], "calibrated")):
        code, _, err = run(*words)
        assert code == 2 and known in err
