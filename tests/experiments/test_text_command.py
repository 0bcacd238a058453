"""``python -m weince_lib.experiments.text``: run to its end, and what wrong settings are told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from weince_lib.experiments import store, text
from weince_lib.experiments.text_config import text_config
from weince_lib.text import load_corpus
from weince_lib.text.tokens import word_tokenizer

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
        [sys.executable, "-m", "weince_lib.experiments.text", *WORDS, *given],
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


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epochs=none", "epochs = 'none'"),
        ("width=3", "unknown setting 'width'"),
        ("corpus=file:/no/such", "/no/such is not a file"),
        ("train_limit=20", "20 sentences make no batch"),
        ("epochs", "epochs = ''"),
    ],
)
def test_a_wrong_setting_is_one_line(setting, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path))
    assert text.main([*WORDS, setting]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("Error: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("said", ["", "stopped after 2 of 4 steps"])
def test_a_stop_is_one_line(said, monkeypatch, capsys):
    def stop(*args, **more):
        raise KeyboardInterrupt(*filter(None, [said]))

    monkeypatch.setattr(text, "run_text", stop)
    monkeypatch.setattr(text, "text_config", lambda *args, **more: None)
    assert text.main([]) == 75
    assert capsys.readouterr().err == f"{said or 'stopped; run again to continue'}\n"
