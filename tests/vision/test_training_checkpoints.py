"""Checkpoints and signals: resumed to the bit on one machine, or refused with one clear line."""

from __future__ import annotations

import itertools
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from training_runs import (
    EPOCHS,
    FINGERPRINT,
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
from weince_lib.training import (
    CheckpointError,
    TrainingInterrupted,
    load_checkpoint,
    restore_model,
)
from weince_lib.training.stopping import sigterm_interrupts, stop_requests
from weince_lib.vision import Execution, TwoViewAugment, train
from weince_lib.vision.training import snapshot_path

NAME = "checkpoint.safetensors"
LAST = EPOCHS * STEPS - 1


# Resuming ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The last checkpoint of a run with WEINCE that nothing disturbed."""
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("uninterrupted") / NAME
    model, history = run("weince", checkpoint=path)
    content = load_checkpoint(path)
    assert_identical(dict(content["model"]), dict(model.state_dict()))
    assert_identical(content["history"], history)
    assert len(history) == EPOCHS
    return content


def test_a_checkpoint_is_written_after_every_epoch(tmp_path: Path) -> None:
    path = tmp_path / "folder" / NAME
    epochs: list[int] = []

    def watching(batch: Tensor, generator: torch.Generator) -> Views:
        epochs.append(len(load_checkpoint(path)["history"]) if path.exists() else 0)
        return noisy(batch, generator)

    run(augment=watching, checkpoint=path)
    assert epochs == [0] * STEPS + [1] * STEPS + [2] * STEPS + [3] * STEPS
    assert len(load_checkpoint(path)["history"]) == EPOCHS
    assert [p.name for p in path.parent.iterdir()] == [NAME]


def test_snapshots_keep_the_weights_after_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / NAME
    model = small_model()
    train(
        model,
        InfoNCELoss(),
        numbered_images(),
        noisy,
        settings(),
        checkpoint=path,
        snapshots=(1, EPOCHS, EPOCHS + 1),
    )
    names = {path.name, "epoch-001.safetensors", f"epoch-{EPOCHS:03d}.safetensors"}
    assert {p.name for p in tmp_path.iterdir()} == names
    first, last = (load_checkpoint(snapshot_path(path, epoch)) for epoch in (1, EPOCHS))
    assert_identical(last["model"], dict(model.state_dict()))
    expected, _ = run(augment=noisy, epochs=1)
    assert_identical(first["model"], dict(expected.state_dict()))


@pytest.mark.parametrize("done", [1, EPOCHS])
def test_resumed_from_any_epoch_ends_in_the_same_bits(
    done: int, tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path = tmp_path / NAME
    run("weince", checkpoint=path, epochs=done)
    steps = 0

    def counting(batch: Tensor, generator: torch.Generator) -> Views:
        nonlocal steps
        steps += 1
        return TwoViewAugment()(batch, generator)

    model, history = run("weince", checkpoint=path, augment=counting)
    assert steps == (EPOCHS - done) * STEPS
    assert_identical(load_checkpoint(path), uninterrupted)
    assert_identical(dict(model.state_dict()), dict(uninterrupted["model"]))
    assert_identical(history, uninterrupted["history"])


def train_until_killed(path: Path, step: int) -> None:
    """In a process of its own: train with WEINCE and kill the process at a step."""
    torch.set_num_threads(1)
    torch.manual_seed(99)  # a run does not depend on the state of its process
    steps = itertools.count()

    def augment(batch: Tensor, generator: torch.Generator) -> Views:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return TwoViewAugment()(batch, generator)

    run("weince", augment=augment, checkpoint=path)


def test_killed_in_an_epoch_and_resumed_ends_in_the_same_bits(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path = tmp_path / NAME
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from {Path(__file__).stem} import train_until_killed
train_until_killed(Path({str(path)!r}), {2 * STEPS + 1})
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(load_checkpoint(path)["history"]) == 2
    model, history = run("weince", checkpoint=path)
    assert_identical(load_checkpoint(path), uninterrupted)
    assert_identical(dict(model.state_dict()), dict(uninterrupted["model"]))
    assert_identical(history, uninterrupted["history"])


@contextmanager
def full_disk() -> Iterator[Callable[[int], None]]:
    """Call it to let files grow to so many bytes and no further, as on a full disk.

    The limit is lifted before pytest reports the test: its own output may be a file.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_last_good_checkpoint(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    path, steps = tmp_path / NAME, itertools.count(1)
    with full_disk() as limit, pytest.raises(CheckpointError) as error:

        def filling(batch: Tensor, generator: torch.Generator) -> Views:
            if next(steps) == 2 * STEPS + 1:
                limit(path.stat().st_size // 2)
            return TwoViewAugment()(batch, generator)

        run("weince", checkpoint=path, augment=filling)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == [NAME]
    assert len(load_checkpoint(path)["history"]) == 2
    run("weince", checkpoint=path)
    assert_identical(load_checkpoint(path), uninterrupted)


# Signals ------------------------------------------------------------------------------------


def interrupting(step: int, number: int = signal.SIGINT) -> Any:
    """The usual views; before those of one step the process gets a signal."""
    steps = itertools.count()

    def augment(batch: Tensor, generator: torch.Generator) -> Views:
        if next(steps) == step:
            os.kill(os.getpid(), number)
        return TwoViewAugment()(batch, generator)

    return augment


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(
    ("step", "number"), [(STEPS - 1, signal.SIGINT), (STEPS + 1, signal.SIGTERM)]
)
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


@pytest.mark.usefixtures("ctrl_c")
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


@pytest.mark.usefixtures("ctrl_c")
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


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_signal_interrupts_at_once() -> None:
    with stop_requests() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.asked
        with pytest.raises(KeyboardInterrupt) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert not isinstance(caught.value, TrainingInterrupted)


@pytest.mark.usefixtures("ctrl_c")
def test_without_a_checkpoint_a_signal_does_what_it_did() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        run(augment=interrupting(1))
    assert not isinstance(caught.value, TrainingInterrupted)


@pytest.mark.usefixtures("ctrl_c")
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


# Checkpoints that cannot be resumed from -----------------------------------------------------


class RunsCode:
    """Makes a folder when unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def assert_refused(path: Path, *says: str, width: int = 4, **changes: Any) -> str:
    """Training stops with one clear line and leaves the file as it was."""
    before = path.read_bytes()
    model = small_model(width)
    with pytest.raises(CheckpointError) as error:
        train(
            model,
            InfoNCELoss(),
            numbered_images(),
            noisy,
            settings(),
            checkpoint=path,
            fingerprint=FINGERPRINT | changes,
        )
    assert path.read_bytes() == before
    message = str(error.value)
    assert "\n" not in message
    for words in (str(path), "remove it", *says):
        assert words in message
    return message


@pytest.mark.parametrize("kept", [0, 0.5, -1])
def test_truncated_checkpoint(kept: float, tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if 0 < kept < 1 else int(kept)])
    assert_refused(path, "truncated")


@pytest.mark.parametrize("missing", ["format", "history", "model/"])
def test_checkpoint_whose_header_lacks_a_part(missing: str, tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    with safe_open(path, framework="pt") as file:
        header = {name: text for name, text in file.metadata().items() if name != missing}
        names = [name for name in file.keys() if not name.startswith(missing)]  # noqa: SIM118
        save_file({name: file.get_tensor(name) for name in names}, tmp_path / "other", header)
    (tmp_path / "other").replace(path)
    assert_refused(path, "not a checkpoint")


@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_a_checkpoint_never_runs_code(how: str, tmp_path: Path) -> None:
    path, folder = tmp_path / NAME, tmp_path / "made-by-the-checkpoint"
    content = {"fingerprint": "{}", "model": RunsCode(folder)}
    if how == "pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path)
    assert_refused(path, "not a checkpoint")
    assert not folder.exists()


def test_checkpoint_of_another_config_names_the_settings_that_differ(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    message = assert_refused(path, "another config", "temperature", "0.5", "0.2", temperature=0.2)
    assert "seed" not in message
    assert "loss" not in message
    message = assert_refused(path, "seed", "5", "6", "tail", seed=6, tail=[1])
    assert "temperature" not in message


def test_checkpoint_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    before = small_model(5)
    assert_refused(path, "another model", "encoder.stem.0.weight", "(4, 1, 3, 3)", width=5)
    other = small_model(5)
    with pytest.raises(CheckpointError, match=r"stem\.0\.weight"):
        restore_model(other.encoder, load_checkpoint(path), path)
    assert_identical(dict(other.state_dict()), dict(before.state_dict()))


def test_missing_checkpoint_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / NAME)
