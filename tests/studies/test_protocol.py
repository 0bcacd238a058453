"""The protocol's checks are zero for our code, and see what they should see."""

import torch

from weince_lib.evaluation.splits import Split
from weince_lib.studies import protocol


def labels():
    return torch.arange(3).repeat_interleave(torch.tensor([11, 23, 40]))


def test_every_check_is_zero():
    found = protocol.protocol_checks(labels())
    assert found.keys() == {
        "split_rows_misplaced",
        "held_out_rows_in_bank",
        "rows_lost",
        "choices_changed_by_test",
        "probe_interval_gap",
        "settings_off_the_text",
        "settings_apart",
    }
    assert all(0 <= value < 1e-9 for value in found.values()), found


def test_a_leaking_split_is_seen(monkeypatch):
    rows = torch.arange(74)
    monkeypatch.setattr(protocol, "stratified_split", lambda y, seed: Split(rows[:70], rows[:20]))
    found = protocol.protocol_checks(labels(), seeds=(1,))
    assert found["held_out_rows_in_bank"] == 20
    assert found["rows_lost"] == 4
    # 11 and 9 rows of the first two classes, where a fifth is 2 and 4, and none of the third.
    assert found["split_rows_misplaced"] == 9


def test_a_choice_made_on_test_is_seen(monkeypatch):
    def on_test(frame, settings, metric):
        swapped = frame.assign(
            split=frame["split"].map({"test": "validation"} | {"validation": "test"})
        )
        return protocol_choose(swapped, settings, metric)

    protocol_choose = protocol.choose
    monkeypatch.setattr(protocol, "choose", on_test)
    # By chance one in five draws chooses the same again; none of 8 does with 0.2^8.
    assert protocol.choices_changed_by_test(tables=8) > 0


def test_other_settings_are_seen(monkeypatch):
    monkeypatch.setitem(protocol.STATED, "weight_decay", 0.0)
    assert protocol.settings_off_the_text() == ["infonce.weight_decay", "weince.weight_decay"]
