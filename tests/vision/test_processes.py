"""Two processes on the CPU train what one process trains, up to rounding."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
import training_ranks
from torch import nn
from training_ranks import AUGMENTS, EPOCHS, STOP, WORLD, norm_layers, normalised, trained
from training_runs import LOSSES, STEPS, noisy, run

from weince_lib.losses import WEINCELoss
from weince_lib.training import ProcessError, TrainingInterrupted, join_processes
from weince_lib.training.processes import World, own_device

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

#: Sums of float64 in another order, carried through six steps of Adam, which divides by small
#: numbers; the history's loss may be added up in float32.
CLOSE = {"rtol": 1e-7, "atol": 1e-8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def ranks(folder: Path) -> list[dict[Any, Any]]:
    """What both processes found; one start for all tests."""
    torch.set_num_threads(1)
    with pytest.raises(TrainingInterrupted):  # one process, to be continued by two
        alone = training_ranks.stopping(1)
        trained("weince", alone, gather=False, checkpoint=folder / "one.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.syspath_prepend(str(Path(__file__).parent))
        multiprocessing.set_forkserver_preload(["torch.distributed", "torch._dynamo"])
        torch.multiprocessing.start_processes(
            training_ranks.worker, (str(folder),), nprocs=WORLD, start_method="forkserver"
        )
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def alone() -> dict[Any, Any]:
    """The same runs by one process."""
    torch.set_num_threads(1)
    runs = [(name, how) for name in LOSSES for how in AUGMENTS]
    return {(name, how): trained(name, AUGMENTS[how], gather=False) for name, how in runs}


def assert_same_run(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["model"].keys() == expected["model"].keys()
    for name, value in expected["model"].items():
        torch.testing.assert_close(found["model"][name], value, **CLOSE)
    for row, other in zip(found["history"], expected["history"], strict=True):
        assert row == pytest.approx(other, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("how", AUGMENTS)
@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_train_what_one_trains(ranks: Any, alone: Any, name: str, how: str) -> None:
    for found in ranks:
        assert_same_run(found[name, how], alone[name, how])
    for key, value in ranks[0][name, how]["model"].items():  # and the same on both, to the bit
        assert torch.equal(value, ranks[1][name, how]["model"][key])


def test_batch_normalisation_sees_the_batch_of_all(ranks: Any) -> None:
    norm, x, slope = norm_layers()
    expected = normalised(nn.Sequential(norm), x, slope)
    found = [rank["norm"] for rank in ranks]
    for name in ("y", "grad x"):
        whole = torch.cat([rank[name] for rank in found])
        torch.testing.assert_close(whole, expected[name], rtol=1e-9, atol=1e-11)
    for name in ("0.running_mean", "0.running_var", "0.num_batches_tracked"):
        for rank in found:
            torch.testing.assert_close(rank[name], expected[name], rtol=1e-12, atol=0)
    for name in ("grad 0.weight", "grad 0.bias"):
        total = sum(rank[name] for rank in found)
        torch.testing.assert_close(total, expected[name], rtol=1e-9, atol=1e-11)
    norm.eval()
    for rank in found:
        torch.testing.assert_close(rank["evaluated"], norm(x).detach(), rtol=1e-12, atol=1e-12)


def test_a_signal_to_one_process_stops_all_at_one_step(ranks: Any, alone: Any) -> None:
    for found in ranks:
        assert f"1 of {EPOCHS} epochs" in found["stopped"]
        assert f"{STOP - STEPS + 1} of {STEPS} steps" in found["stopped"]
        assert_same_run(found["resumed"], alone["weince", "cut"])


def test_one_process_continues_what_two_began_and_the_other_way(
    ranks: Any, alone: Any, folder: Path
) -> None:
    for found in ranks:
        assert_same_run(found["from one"], alone["weince", "cut"])
    found = trained("weince", noisy, gather=False, checkpoint=folder / "kept.safetensors")
    assert_same_run(found, alone["weince", "cut"])


def test_what_one_process_finds_wrong_all_report(ranks: Any) -> None:
    for found in ranks:
        assert f"step {STOP} of 6" in found["bad"]
        assert f"step {STOP} of 6" in found["bad ahead"]
        assert "gather_distributed=True" in found["alone"]
        assert "9 pairs" in found["uneven"] and "2 processes" in found["uneven"]
        assert "/dev/full/checkpoint" in found["unwritten"]


def test_processes_that_run_ahead_train_the_same(ranks: Any, alone: Any) -> None:
    for found in ranks:
        assert_same_run(found["ahead"], alone["weince", "cut"])


# Devices -------------------------------------------------------------------------------------


def cuda_devices(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_more_processes_than_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_devices(monkeypatch, 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with pytest.raises(ProcessError) as error:
        own_device()
    for words in ("4 processes", "2 CUDA device(s)", "--nproc-per-node=2", "'cpu'"):
        assert words in str(error.value)
    assert own_device("cpu") == torch.device("cpu")


def test_each_process_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_devices(monkeypatch, 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert own_device() == own_device("cuda") == torch.device("cuda", 1)
    assert own_device("cuda:0") == torch.device("cuda", 0)
    cuda_devices(monkeypatch, 0)
    assert own_device() == torch.device("cpu")


def test_a_process_that_torchrun_did_not_start_is_alone() -> None:
    with join_processes("cpu") as (world, device):
        assert world == World(0, 1)
        assert device == torch.device("cpu")
        assert not torch.distributed.is_initialized()
        loss = WEINCELoss()
        assert run(loss=loss, augment=noisy, epochs=1)[1]


def test_a_process_group_is_joined_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with join_processes("cpu") as (world, _):
        assert torch.distributed.is_initialized()
        assert world == World(0, 1)
    assert not torch.distributed.is_initialized()
