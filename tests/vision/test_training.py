"""The training loop: its arithmetic, its batches, its history, and how it stops."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from training_runs import (
    BATCH,
    COUNT,
    EPOCHS,
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

from weince_lib.losses import InfoNCELoss, WEINCELoss
from weince_lib.training import NonFiniteLossError, load_checkpoint
from weince_lib.vision import TrainingSettings, train

each_loss = pytest.mark.parametrize("name", LOSSES)


# Arithmetic ----------------------------------------------------------------------------------


def explicit_infonce(z0: Tensor, z1: Tensor) -> Tensor:
    """InfoNCE at temperature 0.5, anchor by anchor."""
    z = torch.cat([z0, z1])
    z = z / z.square().sum(dim=1, keepdim=True).sqrt()
    terms = []
    for i in range(len(z)):
        logits = [(z[i] * z[j]).sum() / 0.5 for j in range(len(z)) if j != i]
        positive = (z[i] * z[(i + len(z0)) % len(z)]).sum() / 0.5
        terms.append(torch.logsumexp(torch.stack(logits), dim=0) - positive)
    return torch.stack(terms).mean()


@each_loss
def test_two_epochs_equal_hand_written_steps_of_adam(name: str) -> None:
    seen: list[Views] = []

    def recorded(batch: Tensor, generator: torch.Generator) -> Views:
        seen.append(tuple(view.double() for view in noisy(batch, generator)))
        return seen[-1]

    model = small_model().double()
    twin = copy.deepcopy(model)
    own = settings(epochs=2, batch_size=4, weight_decay=0.1)
    history = train(model, LOSSES[name](), numbered_images(4 * STEPS + 1), recorded, own)

    parameters = list(twin.parameters())
    m = [torch.zeros_like(p) for p in parameters]
    v = [torch.zeros_like(p) for p in parameters]
    losses = []
    for t, (view0, view1) in enumerate(seen, start=1):
        z0, z1 = twin(view0), twin(view1)
        value = explicit_infonce(z0, z1) if name == "infonce" else WEINCELoss()(z0, z1)
        losses.append(value.item())
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            for k, p in enumerate(parameters):
                g = gradients[k] + 0.1 * p
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g * g
                p -= 0.01 * (m[k] / (1 - 0.9**t)) / ((v[k] / (1 - 0.999**t)).sqrt() + 1e-8)
    assert len(losses) == 2 * STEPS
    for key, value in twin.state_dict().items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=1e-8, atol=1e-10)
    means = [sum(losses[:STEPS]) / STEPS, sum(losses[STEPS:]) / STEPS]
    assert [row["loss"] for row in history] == pytest.approx(means, rel=1e-9)


def test_the_model_trains_in_training_mode() -> None:
    model = small_model().eval()
    before = copy.deepcopy(model.state_dict())
    train(model, InfoNCELoss(), numbered_images(), noisy, settings(epochs=1))
    assert model.training
    assert int(model.encoder.stem[1].num_batches_tracked) == 2 * STEPS  # each view by itself
    changed = {key for key, value in model.state_dict().items() if not value.equal(before[key])}
    assert changed == before.keys()


def test_bfloat16_runs_the_encoder_in_half_precision() -> None:
    seen: list[torch.dtype] = []

    class Watching(InfoNCELoss):
        def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
            value = super().forward(z0, z1)
            seen.extend([z0.dtype, z1.dtype, value.dtype])
            return value

    model, history = run(loss=Watching(), augment=noisy, precision="bfloat16")
    assert set(seen[0::3]) | set(seen[1::3]) == {torch.bfloat16}
    assert set(seen[2::3]) == {torch.float32}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(bool(torch.isfinite(value).all()) for value in model.state_dict().values())
    _, full = run(augment=noisy)
    assert history[0]["loss"] != full[0]["loss"]
    assert history[0]["loss"] == pytest.approx(full[0]["loss"], rel=0.05)


def test_unknown_precision_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"float16.*float32, bfloat16"):
        run(precision="float16", epochs=1)


# Batches and history -------------------------------------------------------------------------


def seen_by(name: str, **changes: Any) -> tuple[list[list[list[int]]], list[Views]]:
    """Numbers of the images in each batch of each epoch, and all the views."""
    numbers: list[list[int]] = []
    views: list[Views] = []

    def recorded(batch: Tensor, generator: torch.Generator) -> Views:
        numbers.append(batch[:, 0, 0, 0].tolist())
        views.append(noisy(batch, generator))
        return views[-1]

    run(name, augment=recorded, **changes)
    return [numbers[k : k + STEPS] for k in range(0, len(numbers), STEPS)], views


def test_an_epoch_shows_an_image_once_and_drops_the_last_incomplete_batch() -> None:
    epochs, _ = seen_by("infonce")
    assert len(epochs) == EPOCHS
    for batches in epochs:
        assert [len(batch) for batch in batches] == [BATCH] * STEPS
        shown = list(itertools.chain(*batches))
        assert len(set(shown)) == len(shown) == BATCH * STEPS
    # Which images are left over changes: over a few epochs each has its turn.
    assert set(itertools.chain(*itertools.chain(*epochs))) == set(range(COUNT))


def test_order_differs_between_epochs_and_seeds() -> None:
    epochs, views = seen_by("infonce")
    other, _ = seen_by("infonce", seed=6)
    orders = [str(epoch) for epoch in epochs + other]
    assert len(set(orders)) == 2 * EPOCHS
    assert not views[0][0].equal(views[0][1])


def test_both_losses_see_the_same_views_with_one_seed() -> None:
    state = torch.get_rng_state()
    order, views = seen_by("infonce")
    assert torch.equal(torch.get_rng_state(), state)  # nothing comes from the global generator
    torch.rand(1)
    other_order, other_views = seen_by("weince")
    assert order == other_order
    for one, two in zip(views, other_views, strict=True):
        assert one[0].equal(two[0])
        assert one[1].equal(two[1])


def test_history_holds_means_of_what_the_steps_saw() -> None:
    class Recording(WEINCELoss):
        def forward(self, z0: Tensor, z1: Tensor, *, return_evidence: bool = False) -> Any:
            value, evidence = super().forward(z0, z1, return_evidence=True)
            seen.append((value.item(), evidence))
            return (value, evidence) if return_evidence else value

    seen: list[Any] = []
    _, history = run(loss=Recording(), epochs=2)
    assert len(history) == 2
    for epoch, row in enumerate(history):
        steps = seen[epoch * STEPS : (epoch + 1) * STEPS]
        expected = {
            "loss": [value for value, _ in steps],
            "lam": [sum(e.lam.tolist()) / (2 * BATCH) for _, e in steps],
            # torch's median of 16 values is the 8th smallest
            "beta": [sorted(e.beta.tolist())[BATCH - 1] for _, e in steps],
            "rho": [sorted(e.rho.tolist())[BATCH - 1] for _, e in steps],
            # and a tenth of 16 values ends with the 2nd smallest
            "beta_q10": [sorted(e.beta.tolist())[1] for _, e in steps],
            "rho_q90": [sorted(e.rho.tolist())[-2] for _, e in steps],
            "gate_open": [(e.delta_aic > 2).double().mean().item() for _, e in steps],
        }
        means = {key: sum(values) / STEPS for key, values in expected.items()}
        assert {key: row[key] for key in means} == pytest.approx(means, rel=1e-6)
    assert 0.0 < history[0]["lam"] < 1.0


def test_history_of_infonce_has_no_evidence() -> None:
    _, history = run("infonce", epochs=2)
    assert [row.keys() for row in history] == [{"loss"}] * 2


@pytest.mark.parametrize("count", [0, BATCH - 1])
def test_fewer_images_than_a_batch_is_an_error(count: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(ValueError, match=f"{count} images.*8.*batch_size"):
        train(
            small_model(),
            InfoNCELoss(),
            numbered_images()[:count],
            noisy,
            settings(),
            checkpoint=path,
        )
    assert not path.exists()


# Losses that are not finite ------------------------------------------------------------------


class Breaks(nn.Module):
    """InfoNCE until one step; there, it keeps the weights and multiplies by something."""

    def __init__(self, step: int, factor: float) -> None:
        super().__init__()
        self.calls, self.step, self.factor = 0, step, factor
        self.model: nn.Module | None = None
        self.weights: list[Tensor] = []

    def forward(self, z0: Tensor, z1: Tensor) -> Tensor:
        value = InfoNCELoss()(z0, z1)
        if self.calls == self.step:
            self.weights = [p.detach().clone() for p in self.model.parameters()]
            value = value * self.factor
        self.calls += 1
        return value


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_step(factor: float, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    model, loss = small_model(), Breaks(2 * STEPS + 1, factor)
    loss.model = model
    with pytest.raises(NonFiniteLossError) as error:
        train(model, loss, numbered_images(), noisy, settings(), checkpoint=path)
    for words in (str(factor), "step 7 ", "epoch 2", "step 1 of 3", str(path)):
        assert words in str(error.value)
    assert loss.calls == 2 * STEPS + 2
    for before, after in zip(loss.weights, model.parameters(), strict=True):
        assert torch.equal(before, after)
    # The last good checkpoint is the one after two epochs.
    content = load_checkpoint(path)
    assert len(content["history"]) == 2
    expected, _ = run(augment=noisy, epochs=2)
    assert_identical(dict(content["model"]), dict(expected.state_dict()))


@each_loss
@pytest.mark.parametrize("validate", [True, False])
def test_embeddings_that_are_not_finite_name_step_and_checkpoint(
    name: str, validate: bool, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.safetensors"
    calls = itertools.count()

    def breaking(batch: Tensor, generator: torch.Generator) -> Views:
        view0, view1 = noisy(batch, generator)
        return view0, view1 * (math.nan if next(calls) == STEPS + 1 else 1.0)

    loss = type(LOSSES[name]())(validate=validate)
    with pytest.raises(NonFiniteLossError) as error:
        run(loss=loss, augment=breaking, checkpoint=path)
    for words in ("step 4 ", "epoch 1", str(path)):
        assert words in str(error.value)
    assert len(load_checkpoint(path)["history"]) == 1


def test_defaults_are_the_papers() -> None:
    assert dataclasses.asdict(TrainingSettings()) == {
        "epochs": 100,
        "batch_size": 256,
        "learning_rate": 3e-4,
        "weight_decay": 1e-6,
        "seed": 7,
        "precision": "float32",
    }
