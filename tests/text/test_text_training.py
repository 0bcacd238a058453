"""Steps in replayed chunks, two processes, resuming, and which weights are kept."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import text_models
import torch
from text_models import LOSSES, corpus, dev_score, loss, model, step_gradients, train

from weince_lib.text import training
from weince_lib.text.steps import ChunkPlan, SimCSEStep, dropout_seed, replayed
from weince_lib.text.training import BEST, SimCSESettings, snapshot, train_simcse
from weince_lib.training import NonFiniteLossError
from weince_lib.training.checkpoints import CheckpointError, load_checkpoint
from weince_lib.training.processes import ProcessError, World
from weince_lib.training.steps import GuardedOptimizer
from weince_lib.training.stopping import TrainingInterrupted

#: Float64 sums in another order, through Adam, which divides by small numbers.
CLOSE = {"rtol": 1e-7, "atol": 1e-9}
#: 50 sentences make 3 steps of 16 an epoch.
STEPS = 6


def same(found, expected, **close):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **close)


@pytest.mark.parametrize("kind", ["tiny", "static"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_step_is_the_loss_of_the_whole_batch_by_hand(kind, name):
    """Sixteen candidates an anchor although chunks have four: both passes written out."""
    found = step_gradients(kind, name)
    made, tokens = model(kind).train(), corpus()
    views = []
    for view in (0, 1):
        parts = []
        for chunk in range(4):
            with replayed(dropout_seed(3, 5, view, chunk), torch.device("cpu")):
                parts.append(made(*tokens.batch(np.arange(4 * chunk, 4 * chunk + 4))))
        views.append(torch.nn.functional.normalize(torch.cat(parts), dim=1))
    if name == "infonce":
        logits = views[0] @ views[1].T / 0.05
        value = torch.nn.functional.cross_entropy(logits, torch.arange(16))
        narrow = loss(name)(views[0][:4], views[1][:4])
        assert abs(narrow - value) > 0.05  # accumulation over small batches is another loss
    else:
        value = loss(name)(*views)
    value.backward()
    expected = {"loss": value.detach()} | {n: p.grad for n, p in made.named_parameters()}
    same(found, expected, rtol=1e-9, atol=1e-11)


def test_dropout_differs_between_views_steps_chunks_and_not_between_replays():
    numbers = {}
    before = torch.get_rng_state()
    for where in [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]:
        for _ in range(2):
            with replayed(dropout_seed(7, *where), torch.device("cpu")):
                numbers.setdefault(where, set()).add(float(torch.rand(())))
    assert all(len(drawn) == 1 for drawn in numbers.values())
    assert len(set.union(*numbers.values())) == 4
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    folder = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.syspath_prepend(str(Path(__file__).parent))
        multiprocessing.set_forkserver_preload(["torch.distributed", "torch._dynamo"])
        torch.multiprocessing.start_processes(
            text_models.worker, (str(folder),), nprocs=2, start_method="forkserver"
        )
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_take_the_step_of_one(ranks, name):
    for found in ranks:
        same(found[name, "step"], step_gradients("tiny", name), **CLOSE)


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_train_as_one(ranks, name):
    made, history = train(name)
    for found in ranks:
        same(found[name]["model"], made.state_dict(), **CLOSE)
        for row, expected in zip(found[name]["history"], history, strict=True):
            # The score went over the processes in float32.
            assert row == pytest.approx(expected, rel=1e-5)


def test_history_has_each_evaluation_and_the_tail():
    _, history = train("weince")
    assert [row["step"] for row in history] == [4, 6]
    assert all(0 <= row["lam"] <= 1 and math.isfinite(row["loss"]) for row in history)
    assert "lam" not in train("infonce")[1][0]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("stop", [1, 4])
def test_stopped_and_resumed_is_the_run_that_was_not(tmp_path, monkeypatch, stop):
    whole, history = train("weince", checkpoint=tmp_path / "whole" / "c.safetensors")
    path = tmp_path / "stopped" / "c.safetensors"
    taken = 0

    class Stopping(training.SimCSEStep):
        def __call__(self, *args):
            nonlocal taken
            taken += 1
            if taken == stop:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__call__(*args)

    with monkeypatch.context() as patch:
        patch.setattr(training, "SimCSEStep", Stopping)
        with pytest.raises(TrainingInterrupted, match=f"stopped after {stop} of {STEPS} steps"):
            train("weince", checkpoint=path)
    resumed, again = train("weince", checkpoint=path)
    same(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)
    for row, expected in zip(again, history, strict=True):
        assert row == pytest.approx(expected)
    best = load_checkpoint(path.with_name(BEST))["model"]
    same(best, load_checkpoint(tmp_path / "whole" / BEST)["model"], rtol=0, atol=0)


def test_a_finished_run_is_only_read(tmp_path):
    path = tmp_path / "c.safetensors"
    made, history = train("infonce", checkpoint=path)

    def never(trained):
        raise AssertionError("trained again")

    again, same_history = train("infonce", checkpoint=path, evaluate=never)
    same(again.state_dict(), made.state_dict(), rtol=0, atol=0)
    assert same_history == history


def test_best_last_and_snapshot_are_kept(tmp_path):
    scores = iter([0.2, 0.9, 0.5])
    kept = []

    def evaluate(trained):
        kept.append({n: v.clone() for n, v in trained.state_dict().items()})
        return next(scores)

    path = tmp_path / "c.safetensors"
    made, history = train(
        "infonce", evaluate=evaluate, checkpoint=path, evaluate_every=2, snapshots={3}
    )
    assert [row["dev"] for row in history] == pytest.approx([0.2, 0.9, 0.5])
    same(load_checkpoint(path.with_name(BEST))["model"], kept[1], rtol=0, atol=0)
    same(load_checkpoint(path)["model"], made.state_dict(), rtol=0, atol=0)
    middle = load_checkpoint(snapshot(path, 3))["model"]
    assert not torch.equal(middle["encoder.norm.weight"], kept[1]["encoder.norm.weight"])


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    train("infonce", checkpoint=path)
    with pytest.raises(CheckpointError, match="another config"):
        train_simcse(
            model(),
            loss(),
            corpus(),
            SimCSESettings(**text_models.SETTINGS),
            dev_score,
            checkpoint=path,
            fingerprint={"seed": 1},
        )


def test_a_step_that_is_not_finite_is_not_taken():
    made = model("static")
    with torch.no_grad():
        made.encoder.words[:] = math.nan
    with pytest.raises(NonFiniteLossError, match="step 0 of 6"):
        train_simcse(
            made, loss("infonce"), corpus(), SimCSESettings(**text_models.SETTINGS), dev_score
        )


def test_learning_rate_rises_and_falls_to_nothing():
    settings = SimCSESettings(learning_rate=2.0, warm_up=0.25)
    rates = [settings.rate(step, 8) for step in range(8)]
    assert rates == pytest.approx([1.0, 2.0, *(2.0 * k / 6 for k in (6, 5, 4, 3, 2, 1))])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ChunkPlan(16, 5), ValueError, "chunk_size = 5"),
        (lambda: ChunkPlan(16, 16, World(0, 2)), ProcessError, "chunk_size to 8"),
        (lambda: SimCSESettings(warm_up=1.0), ValueError, "warm_up"),
        (lambda: SimCSESettings(precision="float16"), ValueError, "float16"),
        (lambda: SimCSESettings(evaluate_every=0), ValueError, "evaluate_every"),
        (lambda: train(batch_size=64, chunk_size=0), ValueError, "50 sentences"),
    ],
)
def test_bad_settings(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_bfloat16_is_near_float32_and_trains():
    """A cosine is wrong by a few roundings of 2^-9, a logit by 1 / tau = 20 times that: 0.1."""
    found = {}
    for precision in ("float32", "bfloat16"):
        made = model("tiny").float().train()
        for module in made.modules():  # dropout's draws depend on the precision
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif isinstance(module, torch.nn.MultiheadAttention):
                module.dropout = 0.0
        guarded = GuardedOptimizer(torch.optim.SGD(made.parameters(), 0.0), torch.device("cpu"))
        plan = ChunkPlan(16, 4)
        step = SimCSEStep(made, loss("weince"), guarded, plan, seed=3, precision=precision)
        value = step([corpus().batch(np.arange(16)[plan.rows(c)]) for c in plan.own], 5)
        grads = [p.grad.flatten() for p in made.parameters() if p.grad is not None]
        found[precision] = float(value), torch.cat(grads)
    (exact, exact_grad), (rounded, grad) = found.values()
    assert grad.dtype == torch.float32
    assert 0 < abs(rounded - exact) < 20 * 4 * 2.0**-9
    assert torch.nn.functional.cosine_similarity(grad, exact_grad, dim=0) > 0.95
    trained, history = train("weince", precision="bfloat16", chunk_size=8)
    assert all(math.isfinite(row["loss"]) for row in history)
    assert all(torch.isfinite(p).all() for p in trained.parameters())
