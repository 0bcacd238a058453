"""Loss metrics added to runs that lack them: the numbers the run itself would have recorded."""

import json

import pytest

from weince_lib.experiments import amend, grid, store
from weince_lib.experiments.grid import Setting, Study


def test_an_amended_record_is_the_one_a_run_writes_now(tiny, tmp_path, monkeypatch, capsys):
    config, record = tiny
    original = record.path.read_text(encoding="utf-8")
    content = json.loads(original)
    content["metrics"] = [m for m in content["metrics"] if m.get("split") != "train"]
    record.path.write_text(json.dumps(content), encoding="utf-8")
    only = Study("only", "?", "quick", {"weince": (Setting("weince"),)}, (), seeds=(config.seed,))
    monkeypatch.setitem(grid.STUDIES, "only", only)
    try:
        assert amend.main(["only"]) == 0
        assert capsys.readouterr().out == "1 finished runs, 1 of them amended\n"
        again = store.read(record.path)
        assert again.metrics == record.metrics
        assert again.details["added"][0]["metrics"] == ["mean_lambda", "negative_entropy"]
        assert again.provenance == record.provenance
        assert amend.main(["only"]) == 0
        assert capsys.readouterr().out == "1 finished runs, 0 of them amended\n"
        with pytest.raises(ValueError, match="already"):
            store.add_metrics(again, again.metrics[:1])
    finally:
        record.path.write_text(original, encoding="utf-8")


def test_an_unknown_study_is_one_line(capsys):
    assert amend.main(["nothing"]) == 1
    assert "unknown study" in capsys.readouterr().err
