"""Checkpoints: resumed to the bit on one machine, and refused with one clear line."""

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
    LOSSES,
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
from weince_lib.training import CheckpointError, load_checkpoint, restore_model
from weince_lib.vision import TwoViewAugment, train
from weince_lib.vision.training import snapshot_path

NAME = "checkpoint.safetensors"
each_loss = pytest.mark.parametrize("name", LOSSES)


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


@each_loss
def test_the_checkpoint_changes_nothing(name: str, tmp_path: Path) -> None:
    with_it, history = run(name, checkpoint=tmp_path / NAME, epochs=2)
    without, other_history = run(name, epochs=2)
    assert_identical(dict(with_it.state_dict()), dict(without.state_dict()))
    assert_identical(history, other_history)


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


@pytest.mark.parametrize("done", range(EPOCHS + 1))
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
    for words in (str(path), "could not be written", "last good one is still there", "Make room"):
        assert words in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == [NAME]
    assert len(load_checkpoint(path)["history"]) == 2
    run("weince", checkpoint=path)
    assert_identical(load_checkpoint(path), uninterrupted)


def test_a_disk_that_was_full_from_the_start(tmp_path: Path) -> None:
    with full_disk() as limit, pytest.raises(CheckpointError, match="none was written before"):
        limit(100)
        run(checkpoint=tmp_path / NAME, epochs=1)
    assert list(tmp_path.iterdir()) == []


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


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.9, -1])
def test_truncated_checkpoint(kept: float, tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole)) if 0 < kept < 1 else int(kept)])
    assert_refused(path, "truncated or not a checkpoint")


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / NAME
    for content in (b"not a checkpoint\n", bytes(2000), b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        assert_refused(path, "not a checkpoint")
    for value in ([1, 2], torch.ones(3), {"model": {}}):
        torch.save(value, path)
        assert_refused(path, "not a checkpoint")


@pytest.mark.parametrize("missing", ["format", "fingerprint", "history", "optimizer", "model/"])
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
    message = assert_refused(path, "seed is 5, wanted 6", "tail", seed=6, tail=[1])
    assert "temperature" not in message


def test_a_setting_that_is_none_is_not_one_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    assert_refused(path, "another config", "tail", tail=None)


def test_checkpoint_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    before = small_model(5)
    assert_refused(path, "another model", "encoder.stem.0.weight is (4, 1, 3, 3)", width=5)
    other = small_model(5)
    with pytest.raises(CheckpointError, match=r"stem\.0\.weight is absent, wanted"):
        restore_model(other.encoder, load_checkpoint(path), path)
    assert_identical(dict(other.state_dict()), dict(before.state_dict()))


def test_order_of_the_settings_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run(checkpoint=path, epochs=1)
    turned = dict(reversed(FINGERPRINT.items()))
    _, history = run(checkpoint=path, epochs=2, fingerprint=turned)
    assert len(history) == 2


def test_missing_checkpoint_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / NAME)
