"""Gathering over 2 and 4 processes gives one process's gradients, lambda and clear errors."""

from __future__ import annotations

import multiprocessing
from typing import Any

import gloo_ranks
import pytest
import torch
from gloo_ranks import CASES, FAMILY, N, family_case, one_case, whole_batch

from weince_lib.losses import InfoNCELoss, WEINCELoss, weince_loss

if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

WORLDS = (2, 4)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[Any, Any]]]:
    """What every rank of every world size found; one set of processes for all tests."""
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        # One import of torch for all ranks; most of their time would go there.
        multiprocessing.set_forkserver_preload(["torch.distributed", "torch._dynamo"])
        torch.multiprocessing.start_processes(
            gloo_ranks.worker, (str(folder),), nprocs=max(WORLDS), start_method="forkserver"
        )
    return {
        world: [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]
        for world in WORLDS
    }


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_gradients_are_the_full_batchs(ranks: Any, case: tuple[str, str, str], world: int) -> None:
    found = [rank[case] for rank in ranks[world]]
    full = one_case(*case)
    assert float(full["z0"].abs().max()) > 1e-3
    for view in ("z0", "z1"):
        gathered = torch.cat([rank[view] for rank in found]) / world
        torch.testing.assert_close(gathered, full[view], rtol=1e-9, atol=1e-12)
    for rank in found:  # after DistributedDataParallel's average, on every rank
        for shared in ("weight", "scale"):
            torch.testing.assert_close(rank[shared], full[shared], rtol=1e-9, atol=1e-12)
    mean = torch.stack([rank["loss"] for rank in found]).mean()
    torch.testing.assert_close(mean, full["loss"], rtol=1e-12, atol=0)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", [c for c in CASES if c[1] != "infonce"], ids=", ".join)
def test_lambda_does_not_depend_on_the_processes(ranks: Any, case: Any, world: int) -> None:
    full = one_case(*case)["lam"]
    sides = full.numel() // N  # both views, or both directions, follow each other on each rank
    parts = [rank[case]["lam"].view(sides, -1) for rank in ranks[world]]
    torch.testing.assert_close(torch.cat(parts, 1).flatten(), full, rtol=1e-9, atol=1e-14)
    assert full.max() > 0.05


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", FAMILY)
def test_the_other_losses_and_their_state(ranks: Any, name: str, world: int) -> None:
    full, parts = family_case(name), [rank[name] for rank in ranks[world]]
    mean = torch.stack([part["loss"] for part in parts]).mean()
    torch.testing.assert_close(mean, full["loss"], rtol=1e-6, atol=0)
    for view in ("z0", "z1"):
        assert float(full[view].abs().max()) > 1e-4
        gathered = torch.cat([part[view] for part in parts]) / world
        torch.testing.assert_close(gathered, full[view], rtol=1e-5, atol=1e-8)
    for part in parts:
        for key in full.keys() - {"loss", "z0", "z1"}:
            torch.testing.assert_close(part[key], full[key], rtol=1e-6, atol=0)
            assert torch.equal(part[key], parts[0][key])


@pytest.mark.parametrize("world", WORLDS)
def test_errors_reach_every_rank(ranks: Any, world: int) -> None:
    for rank, found in enumerate(ranks[world]):
        said = found["errors"]
        sizes = [4] * (world - 1) + [3]
        for unequal in (said["unequal"], said["infonce"]):
            assert f"the number of pairs N is {sizes} on ranks 0 to {world - 1}" in unequal
        assert f"the width d is {[5] * (world - 1) + [4]}" in said["width"]
        assert f"whether ids are given is {[1] * (world - 1) + [0]}" in said["ids"]
        if rank == world - 1:
            assert "z0: row 2 holds NaN or infinity" in said["bad row"]
        else:
            assert f"the batch of rank {world - 1} was rejected" in said["bad row"]


@pytest.mark.parametrize("world", WORLDS)
def test_without_gathering_a_rank_is_alone(ranks: Any, world: int) -> None:
    for rank, found in enumerate(ranks[world]):
        alone = one_case("two-view", "paper", "streaming", rank, world)
        for name, value in alone.items():
            torch.testing.assert_close(found["apart"][name], value)


@pytest.mark.parametrize("world", WORLDS)
def test_queues_stay_the_same_on_all_ranks(ranks: Any, world: int) -> None:
    data = whole_batch()
    for found in ranks[world]:
        rows, ids = found["queue"]
        torch.testing.assert_close(rows, torch.nn.functional.normalize(data["x1"]))
        assert torch.equal(ids, data["ids"])


@pytest.mark.parametrize("world", WORLDS)
def test_half_precision(ranks: Any, world: int) -> None:
    z0, z1 = (whole_batch()[x].half().float().requires_grad_() for x in ("x0", "x1"))
    weince_loss(z0, z1).backward()
    gathered = torch.cat([found["half"] for found in ranks[world]]) / world
    assert gathered.dtype == torch.float16
    torch.testing.assert_close(gathered.float(), z0.grad, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("loss", [InfoNCELoss, WEINCELoss])
def test_gather_without_a_process_group(loss: Any) -> None:
    data = whole_batch()
    with pytest.raises(RuntimeError, match=r"needs an initialised process group.*init_process"):
        loss(gather_distributed=True)(data["x0"], data["x1"])
