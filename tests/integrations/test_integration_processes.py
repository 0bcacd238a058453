"""The integrations on two processes: the libraries' own gradients, and the whole batch's lambda."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS, PAIRS, WIDTH = 2, 12, 6
LIBRARIES = ["lightly", "open_clip", "sentence_transformers"]
PRELOAD = ["torch.distributed", *(f"weince_lib.integrations.{name}" for name in LIBRARIES)]


def batch():
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(RANKS * PAIRS, WIDTH, generator=generator, dtype=torch.float64)
    noise = torch.randn(3, *items.shape, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize
    return [unit(items + 0.6 * noise[view], dim=1) for view in range(3)]


def part(rank):
    rows = slice(rank * PAIRS, (rank + 1) * PAIRS)
    return [view[rows].clone().requires_grad_() for view in batch()]


def lightly(correction):
    from weince_lib.integrations.lightly import NTXentLoss

    def loss(views, gather):
        return NTXentLoss(0.5, gather_distributed=gather, correction=correction)(*views[:2])

    return loss


def lightly_own():
    from lightly.loss import NTXentLoss

    return lambda views, gather: NTXentLoss(0.5, gather_distributed=gather)(*views[:2])


def clip(cls, local, with_grad, **kwargs):
    def loss(views, gather):
        where = {"rank": dist.get_rank(), "world_size": RANKS} if gather else {}
        module = cls(local_loss=local, gather_with_grad=with_grad, **where, **kwargs)
        return module(*views[:2], torch.tensor(5.0, dtype=torch.float64))

    return loss


def sentences(cls, **kwargs):
    def loss(views, gather):
        module = cls(None, 10.0, gather_across_devices=gather, **kwargs)
        return module.compute_loss_from_embeddings(views, None)

    return loss


def cases(library, correction):
    """Name, our loss, the library's."""
    if library == "lightly":
        return [("gather", lightly(correction), lightly_own())]
    if library == "open_clip":
        from open_clip.loss import ClipLoss as Theirs

        from weince_lib.integrations.open_clip import ClipLoss

        return [
            (
                f"local={local} grad={grad}",
                clip(ClipLoss, local, grad, correction=correction),
                clip(Theirs, local, grad),
            )
            for local, grad in [(True, True), (False, True), (False, False), (True, False)]
        ]
    from sentence_transformers.sentence_transformer.losses import (
        MultipleNegativesRankingLoss as Theirs,
    )

    from weince_lib.integrations.sentence_transformers import MultipleNegativesRankingLoss

    ours = sentences(MultipleNegativesRankingLoss, correction=correction)
    return [("gather", ours, sentences(Theirs))]


def measure(loss, views, gather):
    value = loss(views, gather)
    gradients = torch.autograd.grad(value, views, allow_unused=True)
    return value.detach(), [torch.zeros(()) if g is None else g for g in gradients]


def work(rank, library, settings, rendezvous, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=RANKS)
    found = {"off": {}, "theirs": {}, "on": {}}
    for name, ours, theirs in cases(library, None):
        found["off"][name] = measure(ours, part(rank), True)
        found["theirs"][name] = measure(theirs, part(rank), True)
    for name, ours, _ in cases(library, settings):
        found["on"][name] = measure(ours, part(rank), True)
    torch.save(found, f"{results}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_gradients_are_the_librarys_and_the_whole_batchs(library, tmp_path):
    pytest.importorskip(library)
    from weince_lib import TailSettings

    on = TailSettings(evidence="likelihood", tail_index="hill", evidence_margin=-50.0, min_tail=5)
    # A server that has imported everything once, and run no backward pass, forks the processes.
    mp.get_context("forkserver").set_forkserver_preload(PRELOAD)
    mp.start_processes(
        work,
        (library, on, tmp_path / "rendezvous", tmp_path),
        nprocs=RANKS,
        start_method="forkserver",
    )
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(RANKS)]
    for found in ranks:
        assert found["off"].keys() == found["theirs"].keys()
        for name, (value, gradients) in found["off"].items():
            their_value, their_gradients = found["theirs"][name]
            torch.testing.assert_close(value, their_value, rtol=1e-9, atol=1e-10)
            for mine, their in zip(gradients, their_gradients, strict=True):
                torch.testing.assert_close(mine, their, rtol=1e-9, atol=1e-10, msg=name)
    # Corrected: the mean over processes is the loss of one process with everything, and every
    # process asks RANKS times its share, which averaging over processes takes back.
    for name, ours, _ in cases(library, on):
        whole = [view.clone().requires_grad_() for view in batch()]
        value, gradients = measure(ours, whole, False)
        values = torch.stack([found["on"][name][0] for found in ranks])
        torch.testing.assert_close(values.mean(), value, rtol=1e-9, atol=1e-10)
        if "grad=False" in name:
            continue  # open_clip's choice: each process sees a part of its gradient
        parts = [[g / RANKS for g in found["on"][name][1]] for found in ranks]
        for index, truth in enumerate(gradients):
            if truth.ndim:
                joined = torch.cat([mine[index] for mine in parts])
                torch.testing.assert_close(joined, truth, rtol=1e-9, atol=1e-10)
