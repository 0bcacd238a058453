"""Numbers that a notebook computes itself, as records."""

import math

import pytest

from weince_lib.experiments import ConfigError, record_checks, store
from weince_lib.experiments.collect import collect, load_results, records_of


def test_checks_are_a_record_of_their_notebook():
    record = record_checks("05_weince_loss", {"gap": 1e-9, "pairs": 4}, profile="quick")
    assert record.experiment == "check-05_weince_loss"
    assert record.metric("gap") == 1e-9
    assert record.metric("pairs") == 4.0
    assert record.config == {"notebook": "05_weince_loss", "profile": "quick"}


def test_checks_are_written_anew_each_time():
    for value in (1.0, 2.0):
        record_checks("05_weince_loss", {"gap": value}, profile="quick", settings={"seed": 7})
    (path,) = store.record_files()
    assert store.read(path).metric("gap") == 2.0


def test_settings_and_profile_are_part_of_the_key():
    for profile, settings in (("quick", None), ("quick", {"seed": 7}), ("cpu", None)):
        record_checks("05_weince_loss", {"gap": 1.0}, profile=profile, settings=settings)
    assert len(list(store.record_files())) == 3


def test_checks_are_collected_into_their_profile():
    record = record_checks("05_weince_loss", {"gap": 0.25}, profile="quick")
    record_checks("05_weince_loss", {"gap": 0.5}, profile="cpu")
    assert records_of("quick") == [record.path]
    collect(records_of("quick"), "quick")
    (row,) = load_results("quick").to_dict("records")
    assert (row["experiment"], row["key"]) == ("check-05_weince_loss", record.key)
    assert (row["metric"], row["value"]) == ("gap", 0.25)
    assert math.isnan(row["seed"])


def test_check_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="gap"):
        record_checks("05_weince_loss", {"gap": math.nan}, profile="quick")
    assert list(store.record_files()) == []


def test_unknown_profile_is_refused():
    with pytest.raises(ConfigError, match="qiuck"):
        record_checks("05_weince_loss", {"gap": 1.0}, profile="qiuck")
    assert list(store.record_files()) == []
