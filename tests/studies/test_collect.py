"""Records become tidy tables; damaged ones are named, skipped and kept."""

import shutil

import pandas as pd
import pytest
from sample_records import save_record

from weince_lib import files
from weince_lib.experiments import Metric, load_results, record_checks
from weince_lib.records import record_lines, store
from weince_lib.records.store import RecordError
from weince_lib.studies.collect import COLUMNS, collect, records_of, rows

HEADER = (
    "experiment,key,dataset,encoder,loss,temperature,seed,metric,split,replicate,value,low,high"
)


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_table_is_written_as_tidy_csv(tmp_path):
    record = save_record(metrics=[Metric("linear_accuracy", 91.0, "test", 3)])
    done = collect([record.path], "quick")
    target = tmp_path / "results" / "quick.csv"
    assert done.written == {target: 1}
    assert done.skipped == []
    row = f"vision,{record.key},digits,resnet-small,infonce,0.5,7,linear_accuracy,test,3,91,,"
    assert target.read_bytes() == f"{HEADER}\n{row}\n".encode()


def test_numbers_are_kept_to_seven_digits():
    metrics = [
        Metric("third", 1 / 3, low=-2 / 3, high=2e-9 / 3),
        Metric("large", 1234567.891),
        Metric("whole", 400),
    ]
    record = save_record(metrics=metrics)
    (target,) = collect([record.path], "quick").written
    large, third, whole = lines(target)[1:]
    assert third.endswith("third,,0,0.3333333,-0.6666667,6.666667e-10")
    assert large.endswith("large,,0,1234568,,")
    assert whole.endswith("whole,,0,400,,")


def test_order_is_stable_whatever_order_the_records_come_in():
    metrics = [
        Metric(name, 50.0, split, replicate)
        for name in ("recall_at_1", "linear_accuracy")
        for split in ("validation", "test")
        for replicate in (2, 10, 1)
    ]
    for loss in ("weince", "infonce"):
        for seed in (84, 7):
            save_record(loss=loss, seed=seed, metrics=metrics)
    save_record(experiment="tail", metrics=[Metric("shape", -0.5)])
    record_checks("05_weince_loss", {"gap": 0.0}, profile="quick")
    paths = list(store.record_files())
    (target,) = collect(paths, "quick").written
    first = target.read_bytes()
    assert collect(reversed(paths), "quick").written == {target: len(paths)}
    assert target.read_bytes() == first
    table = load_results("quick")
    assert len(table) == 4 * len(metrics) + 2
    assert list(dict.fromkeys(table["experiment"])) == ["check-05_weince_loss", "tail", "vision"]
    vision = table[table["experiment"] == "vision"]
    assert list(dict.fromkeys(vision["loss"])) == ["infonce", "weince"]
    one = vision[vision["key"] == vision["key"].iloc[0]]
    assert list(one["metric"]) == ["linear_accuracy"] * 6 + ["recall_at_1"] * 6
    assert list(one["split"]) == (["test"] * 3 + ["validation"] * 3) * 2
    assert list(one["replicate"]) == [1, 2, 10] * 4


def test_rows_come_back_from_the_table():
    metrics = [
        Metric("linear_accuracy", 91.25, "test", 3),
        Metric("shape", -0.390625, low=-0.5, high=-0.25),
    ]
    made = [save_record(seed=seed, metrics=metrics) for seed in (7, 21)]
    collect(store.record_files(), "quick")
    table = load_results("quick")
    assert tuple(table.columns) == COLUMNS
    # made is in the order of seeds, metrics in that of names: the table's order.
    written = pd.DataFrame([row for record in made for row in rows(record)])
    pd.testing.assert_frame_equal(table, written, check_dtype=False)


def test_key_of_digits_alone_stays_text(tmp_path):
    # Read as numbers, these would lose a zero, or become infinite.
    keys = ["0123456789012345", "12345678901234e9"]
    folder = tmp_path / "results"
    folder.mkdir()
    body = [f"vision,{key},digits,resnet-small,infonce,0.5,7,x,,0,1,," for key in keys]
    (folder / "quick.csv").write_text("\n".join([HEADER, *body]) + "\n")
    assert list(load_results("quick")["key"]) == keys


def test_no_records_leave_the_table_as_it_is(tmp_path):
    save_record("quick")
    (target,) = collect(records_of("quick"), "quick").written
    before = target.read_bytes()
    with pytest.raises(FileNotFoundError, match="unchanged"):
        collect([], "quick")
    assert target.read_bytes() == before


def test_profiles_have_tables_of_their_own(tmp_path):
    quick, cpu = save_record("quick"), save_record("cpu")
    assert records_of("quick") == [quick.path]
    assert records_of("cpu") == [cpu.path]
    assert records_of("paper") == []
    for profile in ("quick", "cpu"):
        collect(records_of(profile), profile)
    tables = sorted(p.name for p in (tmp_path / "results").glob("*.csv"))
    assert tables == ["cpu.csv", "quick.csv"]
    assert list(load_results("cpu")["key"]) == [cpu.key]


@pytest.mark.parametrize("content", ["{", "[]"])
def test_damaged_record_is_named_skipped_and_kept(content):
    good, bad = save_record(seed=7), save_record(seed=21)
    bad.path.write_text(content)
    done = collect(records_of("quick"), "quick")
    assert list(done.written.values()) == [1]
    assert list(load_results("quick")["key"]) == [good.key]
    assert len(done.skipped) == 1
    assert str(bad.path) in done.skipped[0]
    assert "\n" not in done.skipped[0]
    assert bad.path.read_text() == content


def test_damage_is_named_also_where_no_record_is_whole():
    bad = save_record()
    bad.path.write_text("{")
    with pytest.raises(RecordError, match="table is unchanged") as caught:
        collect(records_of("quick"), "quick")
    assert str(bad.path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_crash_while_collecting_leaves_the_earlier_table(monkeypatch):
    record = save_record()
    (target,) = collect([record.path], "quick").written
    before = target.read_bytes()
    save_record(seed=21)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        collect(store.record_files(), "quick")
    assert target.read_bytes() == before
    lines = record_lines.lines_path(target)
    assert sorted(target.parent.iterdir()) == sorted([target, lines])
    assert list(record_lines.read_lines(lines)) == [record.key]


def test_records_named_one_by_one_are_added_and_replace_their_own_rows():
    first, second = save_record("quick", seed=7), save_record("quick", seed=21)
    (target,) = collect([first.path, second.path], "quick").written
    whole = target.read_bytes()
    collect([first.path], "quick", keep=True)
    assert target.read_bytes() == whole
    collect([first.path], "quick")
    assert set(load_results("quick")["key"]) == {first.key}
    collect([second.path], "quick", keep=True)
    assert target.read_bytes() == whole


def test_checks_made_again_replace_those_of_other_settings():
    old = record_checks("05_weince_loss", {"gap": 3.0}, profile="quick", settings={"seed": 7})
    other = record_checks("04_misspecification", {"bias": 1.0}, profile="quick")
    collect(records_of("quick"), "quick")
    for record in (old, other):
        shutil.rmtree(record.folder)
    record_checks("05_weince_loss", {"gap": 1.0}, profile="quick", settings={"seed": 8})
    collect(records_of("quick"), "quick", keep=True)
    table = load_results("quick")
    assert dict(zip(table["metric"], table["value"], strict=True)) == {"bias": 1.0, "gap": 1.0}


def test_seeds_stay_whole_numbers_beside_checks_without_one():
    record = save_record(seed=7)
    record_checks("05_weince_loss", {"gap": 0.5}, profile="quick")
    (target,) = collect(records_of("quick"), "quick").written
    whole = target.read_bytes()
    assert b",7," in whole and b"7.0" not in whole
    shutil.rmtree(record.folder)  # its rows are kept, and read back with those of the check
    collect(records_of("quick"), "quick", keep=True)
    assert target.read_bytes() == whole
