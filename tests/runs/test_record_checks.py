"""Numbers that a notebook computes itself, as records."""

import math

import pytest

from weince_lib.evaluation import Interval
from weince_lib.experiments import ConfigError, by_profile, record_checks
from weince_lib.records import store
from weince_lib.studies.collect import collect, load_results, records_of


def test_checks_are_a_record_of_their_notebook_written_anew_each_time():
    for gap in (1.0, 1e-9):
        record = record_checks("05_weince_loss", {"gap": gap, "pairs": 4}, profile="quick")
    assert record.experiment == "check-05_weince_loss"
    assert (record.metric("gap"), record.metric("pairs")) == (1e-9, 4.0)
    assert record.config == {"notebook": "05_weince_loss", "profile": "quick"}
    assert list(store.record_files()) == [record.path]
    for profile, settings in (("quick", {"seed": 7}), ("cpu", None)):  # each has its own key
        record_checks("05_weince_loss", {"gap": 1.0}, profile=profile, settings=settings)
    assert len(list(store.record_files())) == 3


def test_checks_are_collected_into_their_profile():
    gap = Interval(0.25, 0.125, 0.5, 400)
    record = record_checks("05_weince_loss", {"gap": gap}, profile="quick")
    record_checks("05_weince_loss", {"gap": 0.5}, profile="cpu")
    assert records_of("quick") == [record.path]
    collect(records_of("quick"), "quick")
    (row,) = load_results("quick").to_dict("records")
    assert (row["experiment"], row["key"]) == ("check-05_weince_loss", record.key)
    assert (row["metric"], row["split"], row["value"]) == ("gap", "", 0.25)
    assert (row["low"], row["high"]) == (0.125, 0.5)
    assert math.isnan(row["seed"])


def test_check_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="gap"):
        record_checks("05_weince_loss", {"gap": math.nan}, profile="quick")
    assert list(store.record_files()) == []


def test_a_profile_without_a_size_takes_the_next_smaller_one():
    assert [by_profile(name, quick=1, cpu=5) for name in ("quick", "cpu", "paper")] == [1, 5, 5]
    assert by_profile("gpu", quick=1, paper=9) == 1
    with pytest.raises(ConfigError, match="qiuck"):
        by_profile("qiuck", quick=1)
    with pytest.raises(ConfigError, match="cpuu"):
        by_profile("quick", quick=1, cpuu=2)
    with pytest.raises(TypeError, match="quick"):
        by_profile("cpu", cpu=2)
