"""Records: keyed by content, whole or absent, and readable or named as damaged."""

import hashlib
import json
import math
import time

import pytest
from sample_records import save_record

from weince_lib import paths
from weince_lib.experiments import Metric, RecordError
from weince_lib.records import store

CONFIG = {"loss": "infonce", "seed": 7, "tau": 0.5, "seeds": [1, 2], "tail": {"q": 0.2, "m": None}}


def saved(config=CONFIG, metrics=None, **more):
    metrics = metrics or [Metric("linear_accuracy", 91.5, "test", 1)]
    given = {"labels": {"profile": "quick@0"}, "started": time.time()} | more
    return store.save("vision", config, metrics, **given)


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def test_key_is_the_sha256_of_canonical_json_in_every_process():
    # Tables name records by it: it may change with SCHEMA and with nothing else. The literal was
    # computed in another process, with another hash seed.
    text = '{"config":{"a":"x","b":[1,2.5,null]},"experiment":"vision","schema":1}'
    assert store.SCHEMA == 1
    key = store.content_key("vision", {"b": [1, 2.5, None], "a": "x"})
    assert key == hashlib.sha256(text.encode()).hexdigest()[:16] == "dee9e09bf28734d7"


@pytest.mark.parametrize(
    "changed",
    [{"tau": 0.5000001}, {"seeds": [2, 1]}, {"tail": {"q": 0.2, "m": 0}}, {"new": None}],
    ids=str,
)
def test_key_changes_with_any_setting(changed):
    assert store.content_key("vision", CONFIG | changed) != store.content_key("vision", CONFIG)


def test_key_refuses_a_setting_that_json_has_no_word_for():
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            store.content_key("vision", CONFIG | {"tau": value})


def test_record_lies_under_experiment_and_key(tmp_path):
    record = saved()
    assert record.key == store.content_key("vision", CONFIG)
    assert record.path == tmp_path / "runs" / "vision" / record.key / "record.json"
    assert record.path == store.record_path("vision", CONFIG)
    assert record.folder == record.path.parent
    assert files_below(tmp_path / "runs") == [record.path]


def test_record_comes_back_as_it_was_saved():
    metrics = [
        Metric("linear_accuracy", 1 / 3, "test", 2),
        Metric("shape", -0.39, low=-0.5, high=-0.1),
        Metric("half_open", 1.0, low=-math.inf, high=2.0),
        Metric("exceedances", 400),
    ]
    assert store.find("vision", CONFIG) is None
    record = saved(metrics=metrics, details={"history": [{"loss": 5.1}]})
    again = store.read(record.path)
    assert again == record
    assert again == store.find("vision", CONFIG)
    assert again.config == CONFIG
    assert again.labels == {"profile": "quick@0"}
    assert again.details == {"history": [{"loss": 5.1}]}
    assert again.metrics[0].value == 1 / 3
    assert (again.metrics[0].split, again.metrics[0].replicate) == ("test", 2)
    assert math.isnan(again.metrics[0].low)
    assert again.metrics[1] == metrics[1]
    assert math.isnan(again.metrics[2].low)
    assert again.metrics[2].high == 2.0
    assert again.metrics[3].value == 400


def test_metric_is_the_mean_over_replicates():
    metrics = [
        Metric("accuracy", 90.0, "test", 1),
        Metric("accuracy", 93.0, "test", 2),
        Metric("accuracy", 10.0, "validation", 1),
        Metric("shape", -0.5),
    ]
    record = saved(metrics=metrics)
    assert record.metric("accuracy", "test") == 91.5
    assert record.metric("accuracy", "validation") == 10.0
    assert record.metric("shape") == -0.5


def test_unknown_metric_lists_those_there_are():
    record = saved(metrics=[Metric("accuracy", 90.0, "test"), Metric("shape", -0.5)])
    with pytest.raises(KeyError) as caught:
        record.metric("acuracy", "test")
    for word in ("acuracy", "accuracy/test", "shape", str(record.path)):
        assert word in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_metric_that_is_no_number_is_refused_and_leaves_nothing(value, tmp_path):
    with pytest.raises(ValueError, match="linear_accuracy") as caught:
        saved(metrics=[Metric("recall_at_1", 80.0), Metric("linear_accuracy", value)])
    assert str(value) in str(caught.value)
    assert files_below(tmp_path) == []


def test_crash_while_writing_leaves_the_earlier_record(monkeypatch):
    record = saved(metrics=[Metric("linear_accuracy", 91.5)])
    before = record.path.read_bytes()
    with pytest.raises(TypeError):
        saved(details={"history": {object()}})
    assert record.path.read_bytes() == before
    assert files_below(record.folder) == [record.path]


def damaged(change):
    """A function that rewrites a record's content with ``change`` applied."""

    def write(path):
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return write


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(b"\xff\xfe\x00\x80" * 20),
        lambda path: path.write_text("[1, 2]"),
        damaged(lambda c: c.update(schema=store.SCHEMA + 1)),
        damaged(lambda c: c["metrics"][0].pop("value")),
        damaged(lambda c: c["metrics"][0].update(value=None)),
        damaged(lambda c: c["metrics"][0].update(unit="%")),
        damaged(lambda c: c.update(labels=None)),
        damaged(lambda c: c.pop("provenance")),
    ],
)
def test_damaged_record_is_an_error_that_names_the_file(damage):
    record = saved()
    damage(record.path)
    with pytest.raises(RecordError) as caught:
        store.read(record.path)
    assert str(record.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert record.path.exists()


def test_damaged_record_is_not_taken_for_a_run_that_is_missing():
    record = saved()
    record.path.write_text("{")
    with pytest.raises(RecordError, match="remove it"):
        store.find("vision", CONFIG)


def test_record_files_are_listed_in_a_stable_order(tmp_path):
    made = [
        save_record(experiment=experiment, seed=seed).path
        for experiment, seed in (("vision", 7), ("tail", 21), ("vision", 1), ("check-05", 3))
    ]
    (paths.runs() / "notebooks").mkdir()
    (paths.runs() / "notebooks" / "record.json").write_text("{}")
    assert list(store.record_files()) == sorted(made)
    assert list(store.record_files(tmp_path / "elsewhere")) == []


def test_a_detail_that_is_not_finite_does_not_lose_the_run():
    details = {"temperature": math.inf, "curve": [1.0, math.nan, (2, -math.inf)], "name": "x"}
    record = store.save("e", {}, [], labels={}, started=0.0, details=details)
    assert record.details == {"temperature": None, "curve": [1.0, None, [2, None]], "name": "x"}
