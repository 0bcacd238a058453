"""``sweep evidence``: tails along training of a sentence study's finished runs, by one command."""

from __future__ import annotations

import pytest

from weince_lib.records import store
from weince_lib.runs.config import ConfigError
from weince_lib.runs.text import run_text
from weince_lib.runs.text_config import text_config
from weince_lib.studies import grid, sweep, text_evidence
from weince_lib.studies.study_evidence import evidence_runs

pytest.importorskip("tokenizers")
SMALL = {"train_limit": 160, "epochs": 1, "batch_size": 32, "evaluate_every": 5}


@pytest.fixture
def study(monkeypatch):
    """Two settings that are measured and one that is not, of the quick profile and two seeds."""
    made = grid.TextStudy(
        name="small",
        question="Does it work?",
        profile="quick",
        methods={
            "infonce": (grid.Setting("infonce", 0.05),),
            "weince": (grid.Setting("weince", 0.05),),
            "infonce-other": (grid.Setting("infonce", 0.07),),
        },
        compare=(),
        seeds=(1, 2),
        settings=SMALL,
    )
    monkeypatch.setitem(grid.STUDIES, "small", made)
    return made


def small_bank(monkeypatch):
    """Banks of a size that a test has time for; notes the encoders that were embedded."""
    made = []
    bank = text_evidence.dropout_bank

    def smaller(model, corpus, *, batches, batch_size, seed):
        made.append(next(model.parameters()).device.type)
        return bank(model, corpus, batches=4, batch_size=32, seed=seed)

    public = text_evidence.TextEvidenceConfig(
        run=text_config("quick", loss="infonce", seed=9, **SMALL), stage="start", batches=4
    )
    monkeypatch.setattr(text_evidence, "dropout_bank", smaller)
    monkeypatch.setattr(text_evidence, "ready_made", lambda: public)
    return made


def test_evidence_of_finished_runs_once(study, monkeypatch, capsys):
    made = small_bank(monkeypatch)
    runs = evidence_runs(study, (1,))
    assert [run.config.loss for run in runs] == ["infonce", "weince"]
    run_text(runs[0].config, profile="quick", device="cpu")
    words = ["evidence", "small", "--seed", "1", "--device", "cpu"]
    assert sweep.main(words) == 0
    assert made == ["cpu"] * 4  # three stages, and the ready-made encoder
    err = capsys.readouterr().err
    assert [line for line in err.splitlines() if line.startswith("not finished")] == [
        f"not finished, left out: {runs[1].setting}, seed 1"
    ]
    found = text_evidence.evidence_of(study.runs())
    stages = sorted((setting, record.metric("stage")) for record, setting in found)
    assert stages == [("ready-made", 0.0), *((runs[0].setting, s) for s in (0.0, 0.5, 1.0))]
    assert sweep.main(words) == 0
    assert len(made) == 4  # found, not measured again
    assert len(list(store.record_files())) == 5


def test_which_runs_are_measured(study):
    assert [(r.setting, r.seed) for r in evidence_runs(study)] == [
        (r.setting, r.seed) for r in study.runs() if "0.07" not in r.setting
    ]
    with pytest.raises(ConfigError, match="small has no seed 5; it has 1, 2"):
        evidence_runs(study, (1, 5))
    assert len(evidence_runs(grid.study("cpu-static"))) == 10
