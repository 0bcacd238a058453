"""Every batch, argument and setting that makes no sense gets one clear error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import two_views
from torch import Tensor, nn

from weince_lib.losses import (
    PRESETS,
    AblationLoss,
    InfoNCELoss,
    NegativeQueue,
    ReleasedLoss,
    TailSettings,
    WEINCELoss,
    infonce_loss,
    preset,
    tail_evidence,
    weince_from_scores,
    weince_loss,
)

FUNCTIONS: list[Callable[..., Any]] = [infonce_loss, weince_loss]
MODULES: list[Callable[..., Any]] = [InfoNCELoss, WEINCELoss]
CALLS: dict[str, Callable[..., Any]] = {
    "infonce_loss": infonce_loss,
    "weince_loss": weince_loss,
    "InfoNCELoss": InfoNCELoss(),
    "WEINCELoss": WEINCELoss(),
}
ONES = torch.ones(4, 3)


def call(loss: Callable[..., Any], **options: Any) -> Any:
    """Use an option: a function takes it with a batch, a module when it is made."""
    return loss(*(two_views(4, 3) if loss in FUNCTIONS else ()), **options)


def with_row(row: int, value: float) -> Tensor:
    z = torch.ones(4, 3)
    z[row] = value
    return z


# Batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize(
    ("z0", "z1", "message"),
    [
        (ONES[:1], ONES[:1], "a batch of N = 1 pairs has no negatives; N must be 2"),
        (ONES, torch.ones(5, 3), r"both \(N, d\); got \(4, 3\) and \(5, 3\)"),
        (torch.ones(2, 4, 3), torch.ones(2, 4, 3), r"both \(N, d\); got \(2, 4, 3\)"),
        (torch.ones(4, 0), torch.ones(4, 0), "z0: row 0 is zero.* 4 of 4"),
        (with_row(2, math.nan), ONES, "z0: row 2 holds NaN or infinity; 1 of 4"),
        (ONES, with_row(1, math.inf), "z1: row 1 holds NaN or infinity; 1 of 4"),
        (with_row(3, 0.0), ONES, "z0: row 3 is zero, so it has no cosine; 1 of 4.*drop them"),
        (with_row(3, 1e-15), ONES, "z0: row 3 has norm 1.73e-15, below 1e-12.* 1 of 4"),
        (ONES.int(), ONES.int(), "must be floating point, got torch.int32; call .float"),
        (
            ONES.to(torch.float8_e4m3fn),
            ONES,
            r"z0 must be .*16 bits or more, got torch.float8_e4m3fn; call .float\(\)",
        ),
        (ONES, ONES.to_sparse(), r"z1 must be a dense .*to_dense\(\)"),
        (ONES, ONES.to("meta"), "z0 is on cpu and z1 on meta; move them together"),
    ],
)
def test_bad_batches(loss: Callable[..., Tensor], z0: Tensor, z1: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(z0, z1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"candidates": "bipartite"},
        {"candidates": "bipartite", "symmetric": False, "queue": NegativeQueue(3, 3)},
    ],
    ids=str,
)
def test_one_pair_alone_has_no_negatives(options: dict[str, Any]) -> None:
    """Nor in a queue that is still empty."""
    with pytest.raises(ValueError, match="N = 1 pairs has no negatives"):
        infonce_loss(*two_views(1, 3), **options)
    with pytest.raises(ValueError, match="negatives"):
        AblationLoss()(*two_views(1, 3))


@pytest.mark.parametrize("loss", FUNCTIONS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": torch.arange(3)}, "each of the 4 pairs once"),
        ({"ids": torch.arange(8)}, "each of the 4 pairs once"),
        ({"ids": torch.zeros(4)}, "ids must be integers"),
        ({"candidates": "triplets"}, "unknown candidates 'triplets'; known: two-view, bipartite"),
        ({"negatives": torch.zeros(3, 4)}, r"negatives must have shape \(K, 3\)"),
        ({"negatives": torch.zeros(3, 3)}, "negatives: row 0 is zero"),
        ({"queue": NegativeQueue(4, 4)}, "rows of width 4"),
        ({"queue": NegativeQueue(4, 3), "candidates": "bipartite"}, "symmetric=False"),
        ({"negatives": torch.ones(3, 3), "candidates": "bipartite"}, "symmetric=False"),
        ({"logit_scale": torch.ones(2)}, "one floating-point number"),
        ({"logit_scale": torch.tensor(1)}, "one floating-point number"),
        ({"logit_scale": torch.tensor(-1.0)}, "positive and finite, got -1.0"),
        ({"logit_scale": 20.0}, "logit_scale must be a tensor.*got 20.0.*temperature"),
    ],
)
def test_bad_options_of_a_call(loss: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(*two_views(4, 3), **options)


@pytest.mark.parametrize(
    ("z", "ids", "message"),
    [
        (torch.zeros(2, 4), None, "rows of width"),
        (torch.zeros(2, 3), torch.zeros(3), "ids must have shape"),
    ],
)
def test_bad_rows_of_a_queue(z: Tensor, ids: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NegativeQueue(3, 3).enqueue(z, ids)
    with pytest.raises(ValueError, match="positive size"):
        NegativeQueue(0, 3)


# Arguments of functions and modules ----------------------------------------------------------


@pytest.mark.parametrize("loss", [*FUNCTIONS, *MODULES, AblationLoss, ReleasedLoss])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((x, rf"must be positive and finite, got {x}") for x in (0.0, -1.0, math.nan, math.inf)),
        *((x, r"must be a number such as 0\.5, got") for x in ("0.5", None, True, [0.5])),
        (nn.Parameter(torch.tensor(0.5)), r"must be a number.*logit_scale=.*exp\(\)"),
    ],
    ids=str,
)
def test_bad_temperature(loss: Callable[..., Any], value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"temperature {message}"):
        call(loss, temperature=value)


@pytest.mark.parametrize("flag", ["symmetric", "validate", "gather_distributed"])
@pytest.mark.parametrize("value", ["False", "no", 0, None])
@pytest.mark.parametrize("loss", [*FUNCTIONS, *MODULES])
def test_flags_are_true_or_false(loss: Any, flag: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{flag} must be True or False, got {value!r}"):
        call(loss, **{flag: value})


@pytest.mark.parametrize("loss", MODULES)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"impl": "triton"}, "unknown impl 'triton'; known: auto, reference, streaming"),
        ({"memory_budget": 0}, "memory_budget must be a positive number.*got 0"),
        ({"memory_budget": "1G"}, "memory_budget must be .* got '1G'"),
        ({"queue": 256}, "queue must be a NegativeQueue or None, got 256"),
        ({"candidates": "pairs"}, "unknown candidates"),
        ({"candidates": "bipartite", "queue": NegativeQueue(3, 3)}, "symmetric=False"),
    ],
)
def test_other_options(loss: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(**given)


@pytest.mark.parametrize(
    ("words", "message"),
    [((0.5, "blend"), "settings.*'blend'.*AblationSettings"), ((0.5, ""), "settings.*''")],
)
def test_bad_arguments_of_the_ablation(words: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AblationLoss(*words)


NUMBERS = ("cap_quantile", "min_tail", "cap_sharpness", "evidence_margin", "floor")


@pytest.mark.parametrize("build", [TailSettings, WEINCELoss])
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        *(({n: v}, f"{n} must be a number") for n in NUMBERS for v in ("0.2", None, True)),
        ({"tail_index": "slope"}, r"unknown tail_index 'slope'; known: line, unit, hill"),
        ({"evidence": "aic"}, r"unknown evidence 'aic'; known: line-aic, likelihood"),
        ({"cap_quantile": 0.0}, r"cap_quantile must lie in \(0, 1\], got 0.0"),
        ({"cap_quantile": math.nan}, r"cap_quantile must lie in \(0, 1\], got nan"),
        ({"tail_fraction": -0.1}, r"tail_fraction must lie in \(0, 1\], got -0.1"),
        ({"tail_fraction": 1.01}, r"tail_fraction must lie in \(0, 1\], got 1.01"),
        ({"min_tail": 0}, r"min_tail must be at least 1, got 0"),
        ({"cap_sharpness": math.inf}, r"cap_sharpness must be finite and not negative"),
        ({"evidence_sharpness": -0.1}, r"evidence_sharpness must be finite and not negative"),
        ({"evidence_margin": math.inf}, r"evidence_margin must be finite, got inf"),
        ({"floor": 0.0}, r"floor must lie in \(0, 1\), got 0.0"),
    ],
    ids=str,
)
def test_bad_settings(build: Callable[..., Any], setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**setting)


@pytest.mark.parametrize("make", [WEINCELoss.from_preset, preset])
def test_unknown_preset_lists_the_known_ones(make: Callable[..., Any]) -> None:
    assert list(PRESETS) == ["paper", "release", "calibrated"]
    with pytest.raises(ValueError, match="unknown preset 'papers'; known: paper, release, calib"):
        make("papers")


# Scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        (torch.zeros(4, 5), torch.arange(4), r"scores must be square, \(M, M\), got \(4, 5\)"),
        (torch.zeros(4), torch.arange(4), r"scores must be square, \(M, M\), got \(4,\)"),
        (torch.zeros(4, 4), torch.arange(3), r"positives must have shape \(4,\), got \(3,\)"),
        (torch.zeros(2, 2), torch.tensor([1, 0]), r"2 views have no negatives; at least 4"),
    ],
)
def test_bad_scores_of_two_views(scores: Tensor, positives: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tail_evidence(scores, positives)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": torch.zeros(3)}, r"shape \(A, C\)"),
        ({"scores": torch.zeros(3, 4, dtype=torch.int64)}, "floating point"),
        ({"scores": torch.full((3, 4), 1.2)}, "must not exceed 1"),
        ({"scores": torch.full((3, 4), math.nan)}, "row 0 holds NaN"),
        ({"positives": torch.arange(4)}, r"shape \(3,\)"),
        ({"positives": torch.tensor([0, 1, 4])}, "must lie in 0 to 3, got 0 to 4"),
        ({"mask": torch.ones(3, 3, dtype=torch.bool)}, r"boolean of shape \(3, 4\)"),
        ({"mask": torch.ones(3, 4)}, "boolean"),
        ({"temperature": 0.0}, "temperature must be positive"),
    ],
)
def test_bad_scores(change: dict[str, Any], message: str) -> None:
    good = {"scores": torch.zeros(3, 4), "positives": torch.arange(3)}
    with pytest.raises(ValueError, match=message):
        weince_from_scores(**{**good, **change})


# What is not refused -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", FUNCTIONS)
def test_logit_scale_is_the_inverse_temperature_without_a_bound(loss: Any) -> None:
    """CLIP's bound of 100 is its training loop's; the loss takes 1 / tau as it is."""
    views = two_views(8, 5)
    scale = torch.tensor([1000.0], dtype=torch.float64, requires_grad=True)
    value = loss(*views, logit_scale=scale)
    assert value.item() == pytest.approx(float(loss(*views, temperature=1e-3)), rel=1e-6)
    value.backward()
    assert scale.grad is not None and float(scale.grad) != 0.0


@pytest.mark.parametrize("length", [0.0, 1e-13])
def test_unvalidated_rows_without_a_direction_guess_blindly(length: float) -> None:
    z = length * torch.nn.functional.normalize(torch.ones(5, 3), dim=1)
    loss = infonce_loss(z, z, validate=False)
    assert float(loss) == pytest.approx(math.log(2 * 5 - 1), rel=1e-6)


@pytest.mark.parametrize("name", ["infonce", *PRESETS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_row_without_validation(name: str, dtype: torch.dtype) -> None:
    """A zero row then has cosine 0 with everything: as in one dimension more, orthogonal to all."""
    if name == "infonce":
        loss_fn: Callable[..., Tensor] = InfoNCELoss(validate=False)
    else:
        loss_fn = WEINCELoss.from_preset(name, validate=False)
    z0, z1 = two_views(8, 3, dtype=dtype)
    z0[5] = 0.0
    wider0, wider1 = (torch.nn.functional.pad(z, (0, 1)) for z in (z0, z1))
    wider0[5, -1] = 1.0
    torch.testing.assert_close(loss_fn(z0, z1), loss_fn(wider0, wider1), rtol=1e-5, atol=0)
