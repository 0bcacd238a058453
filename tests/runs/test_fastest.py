"""Runs that take the fastest form of the training step: chosen by time, kept, and recorded."""

import json
import warnings

import pytest
import torch
from sample_runs import TINY

from weince_lib.experiments import vision_config
from weince_lib.records import record_lines
from weince_lib.runs import fastest
from weince_lib.runs.fastest import StepForm, layouts, step_form
from weince_lib.runs.vision import run_vision
from weince_lib.vision import Execution

#: Wide enough for channels_last.
WIDTH = 16
CPU = torch.device("cpu")
IMAGES = torch.zeros(64, 1, 8, 8, dtype=torch.uint8)


def config(**settings):
    return vision_config(
        "quick", **(TINY | {"batch_size": 32, "precision": "fastest", "width": WIDTH} | settings)
    )


@pytest.fixture
def seconds(monkeypatch):
    """Seconds that a step of each form takes; a form without an entry takes one."""
    table: dict[tuple[str, bool], float] = {}

    def timed(step, device, clock):
        last = step.layout is torch.channels_last
        return table.get((step.config.precision, last), 1.0)

    monkeypatch.setattr(fastest, "timed", timed)
    return table


@pytest.mark.parametrize(
    "form", [(p, last) for p in ("float32", "bfloat16") for last in (False, True)]
)
def test_the_fastest_form_is_taken(seconds, tmp_path, form):
    seconds[form] = 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = step_form(config(), IMAGES, CPU, tmp_path)
    assert (chosen.precision, chosen.channels_last) == form
    assert sorted(chosen.milliseconds.values()) == [500.0, 1000.0, 1000.0, 1000.0]


def test_a_processor_on_which_bfloat16_is_slow_falls_back_and_says_so_once(seconds, tmp_path):
    seconds[("float32", False)] = 0.2
    with pytest.warns(UserWarning, match="1000 ms a step against 200 ms in float32"):
        step_form(config(), IMAGES, CPU, tmp_path / "first")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = step_form(config(loss="infonce"), IMAGES, CPU, tmp_path / "second")
    assert again.precision == "float32"


def test_a_run_that_is_continued_keeps_its_form(seconds, tmp_path):
    seconds[("bfloat16", False)] = 0.2
    first = step_form(config(), IMAGES, CPU, tmp_path)
    seconds[("float32", True)] = 0.1
    assert step_form(config(), IMAGES, CPU, tmp_path) == first


def test_a_precision_of_its_own_is_kept_and_nothing_is_timed(monkeypatch, tmp_path):
    monkeypatch.setattr(fastest, "TrainingStep", None)
    assert step_form(config(precision="float32"), IMAGES, CPU, tmp_path) == StepForm(
        "float32", None
    )
    assert not list(tmp_path.iterdir())


def test_channels_last_is_tried_where_it_is_safe():
    assert layouts(config()) == (False, True)
    assert layouts(config(width=4)) == (False,)


def test_a_form_does_not_overrule_the_execution_asked_for():
    form = StepForm("bfloat16", True)
    assert form.apply(None).channels_last is True
    assert form.apply(Execution(channels_last=False)).channels_last is False


def test_the_record_says_which_form_it_was():
    record = run_vision(config(loss="infonce", seed=3), profile="quick")
    form = record.details["step_form"]
    assert form["precision"] in ("float32", "bfloat16")
    assert form["milliseconds"]
    assert json.loads(record_lines.record_line(record))["step_form"] == form
