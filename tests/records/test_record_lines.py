"""Beside each table, a line a record: what its numbers were made with."""

import json
import shutil

import pytest
from click.testing import CliRunner
from sample_records import save_record

from weince_lib.cli import main
from weince_lib.experiments import Metric, record_checks
from weince_lib.records import store
from weince_lib.records.record_lines import lines_path, read_lines, record_line
from weince_lib.studies.collect import collect


def collected(*records, keep=False):
    """Lines beside the quick table after collecting."""
    (table,) = collect([record.path for record in records], "quick", keep=keep).written
    return lines_path(table)


def test_a_line_says_what_the_record_was_made_with():
    labels = {"profile": "quick@1", "dataset": "digits", "seed": 7}
    details = {"data": {"train": "abc"}, "history": [1, 2, 3], "regime": "x"}
    config = {"seed": 7, "tail": {"floor": 1e-6}, "temperature": 0.1}
    record = store.save(
        "vision", config, [Metric("a", 1.0)], labels=labels, started=0.0, details=details
    )
    line = record_line(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found == {
        "key": record.key,
        "experiment": "vision",
        "profile": "quick@1",
        "labels": {"dataset": "digits", "seed": 7},
        "config": config,
        "provenance": record.provenance,
        "wall_seconds": record.wall_seconds,
        "data": {"train": "abc"},
    }
    assert {"commit", "dirty", "versions", "cpu", "cuda_device"} <= found["provenance"].keys()
    assert store.content_key(found["experiment"], found["config"]) == found["key"]


def test_one_line_a_record_in_the_order_of_keys_whatever_the_order_of_records(tmp_path):
    records = [save_record(seed=seed) for seed in (84, 7, 63, 21)]
    records.append(record_checks("05_weince_loss", {"gap": 0.0}, profile="quick"))
    path = collected(*records)
    assert path == tmp_path / "results" / "quick.records.jsonl"
    first = path.read_bytes()
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert keys == sorted(record.key for record in records)
    assert collected(*reversed(records)).read_bytes() == first
    assert sorted(p.name for p in path.parent.iterdir()) == ["quick.csv", "quick.records.jsonl"]


def test_lines_of_records_elsewhere_are_kept_with_their_rows_and_dropped_with_them():
    here, elsewhere = save_record(seed=7), save_record(seed=21)
    before = read_lines(collected(here, elsewhere))
    shutil.rmtree(elsewhere.folder)
    assert read_lines(collected(here, keep=True)) == before
    assert read_lines(collected(here)) == {here.key: before[here.key]}


def test_a_damaged_line_is_named_and_table_and_lines_stay():
    record = save_record()
    path = collected(record)
    table = path.with_name("quick.csv")
    path.write_text(path.read_text() + "{\n")
    before = table.read_bytes(), path.read_bytes()
    with pytest.raises(store.RecordError, match=r"quick\.records\.jsonl, line 2"):
        collected(record, save_record(seed=21))
    assert (table.read_bytes(), path.read_bytes()) == before


def test_claims_prints_the_line_of_a_key():
    record = save_record()
    collected(record)
    result = CliRunner().invoke(main, ["claims", "--record", record.key])
    assert result.exit_code == 0
    assert result.stdout == record_line(record) + "\n"


def test_an_unknown_key_is_one_clear_error():
    collected(save_record())
    result = CliRunner().invoke(main, ["claims", "--record", "0" * 16])
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "0" * 16 in line
