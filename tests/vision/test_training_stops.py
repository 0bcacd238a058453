"""Signals stop training cleanly; from any step it continues to the bits of this machine."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_runs import (
    EPOCHS,
    STEPS,
    Views,
    assert_identical,
    noisy,
    numbered_images,
    run,
    settings,
    small_model,
)

from weince_lib.losses import InfoNCELoss
from weince_lib.training import CheckpointError, TrainingInterrupted, load_checkpoint
from weince_lib.training.stopping import sigterm_interrupts, stop_requests
from weince_lib.vision import Execution, TwoViewAugment, train

pytestmark = pytest.mark.usefixtures("ctrl_c")

NAME = "checkpoint.safetensors"
LAST = EPOCHS * STEPS - 1


def interrupting(step: int, number: int = signal.SIGINT) -> Any:
    """The usual views; before those of one step the process gets a signal."""
    steps = itertools.count()

    def augment(batch: Tensor, generator: torch.Generator) -> Views:
        if next(steps) == step:
            os.kill(os.getpid(), number)
        return TwoViewAugment()(batch, generator)

    return augment


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("uninterrupted") / NAME
    run("weince", checkpoint=path)
    return load_checkpoint(path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [0, STEPS - 1, STEPS + 1, LAST - 1])
def test_stopped_at_any_step_and_resumed_ends_in_the_same_bits(
    step: int, number: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path, before = tmp_path / NAME, signal.getsignal(number)
    with pytest.raises(TrainingInterrupted) as stopped:
        run("weince", checkpoint=path, augment=interrupting(step, number))
    assert signal.getsignal(number) is before
    epochs, steps = divmod(step + 1, STEPS)
    for words in (f"{epochs} of {EPOCHS} epochs", f"{steps} of {STEPS} steps", str(path), "again"):
        assert words in str(stopped.value)
    kept = load_checkpoint(path)
    assert len(kept["history"]) == epochs
    assert len(kept["progress"].losses) == steps  # the step under way was finished
    done = itertools.count()

    def counting(batch: Tensor, generator: torch.Generator) -> Views:
        next(done)
        return TwoViewAugment()(batch, generator)

    run("weince", checkpoint=path, augment=counting)
    assert next(done) == EPOCHS * STEPS - step - 1
    assert_identical(load_checkpoint(path), uninterrupted)


def test_stopped_at_every_step_ends_in_the_same_bits(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path, stops = tmp_path / NAME, 0
    while True:
        try:
            run("weince", checkpoint=path, augment=interrupting(0))
        except TrainingInterrupted:
            stops += 1
        else:
            break
    assert stops == LAST
    assert_identical(load_checkpoint(path), uninterrupted)


def test_a_stop_at_the_very_last_step_is_a_finished_run(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    run("weince", checkpoint=tmp_path / NAME, augment=interrupting(LAST))
    assert_identical(load_checkpoint(tmp_path / NAME), uninterrupted)


def test_an_old_checkpoint_is_renewed_within_an_epoch(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path, seen = tmp_path / NAME, []

    def watching(batch: Tensor, generator: torch.Generator) -> Views:
        kept = load_checkpoint(path) if path.exists() else None
        seen.append((len(kept["history"]), len(kept["progress"].losses)) if kept else None)
        return TwoViewAugment()(batch, generator)

    run("weince", checkpoint=path, augment=watching, execution=Execution(save_minutes=1e-9))
    assert seen == [None, *[divmod(step, STEPS) for step in range(1, LAST + 1)]]
    assert_identical(load_checkpoint(path), uninterrupted)


def test_the_stop_is_a_keyboard_interrupt() -> None:
    # So that "except Exception" around a run does not swallow it.
    assert issubclass(TrainingInterrupted, KeyboardInterrupt)


def test_a_second_signal_interrupts_at_once() -> None:
    with stop_requests() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.asked
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert not isinstance(caught.value, TrainingInterrupted)


def test_without_a_checkpoint_a_signal_does_what_it_did() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        run(augment=interrupting(1))
    assert not isinstance(caught.value, TrainingInterrupted)


def test_what_a_script_had_ignored_stays_ignored(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    """As ``command &`` in a script: Ctrl-C there means the script; SIGTERM still stops cleanly."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run("weince", checkpoint=tmp_path / "ignored" / NAME, augment=interrupting(1))
    assert_identical(load_checkpoint(tmp_path / "ignored" / NAME), uninterrupted)
    with pytest.raises(TrainingInterrupted, match=f"1 of {EPOCHS} epochs"):
        stop = interrupting(STEPS, signal.SIGTERM)
        run("weince", checkpoint=tmp_path / NAME, augment=stop)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_commands_end_at_sigterm_as_at_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_training_within_a_command_stops_cleanly_at_sigterm(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted), sigterm_interrupts():
        run("weince", checkpoint=tmp_path / NAME, augment=interrupting(1, signal.SIGTERM))
    assert (tmp_path / NAME).exists()


def test_other_threads_leave_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def elsewhere() -> None:
        with stop_requests() as request:
            seen.append((signal.getsignal(signal.SIGINT), request.asked))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


def test_a_disk_that_has_no_room_for_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint of the same epoch was written just before, and the message says so."""
    path = tmp_path / NAME

    def full(self: Path, content: bytes) -> int:
        if "epoch-" in self.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(self, content)

    write_bytes = Path.write_bytes
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(CheckpointError, match=r"epoch-001.*last good one is still there"):
        train(
            small_model(),
            InfoNCELoss(),
            numbered_images(),
            noisy,
            settings(),
            checkpoint=path,
            snapshots=(1,),
        )
    assert [p.name for p in tmp_path.iterdir()] == [NAME]
    assert len(load_checkpoint(path)["history"]) == 1
