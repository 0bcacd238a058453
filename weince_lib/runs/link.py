"""Link selection on a frozen encoder, and along its training, as records (paper 2.3.2, D)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from ..diagnostics.choice_bank import ChoiceBank, choices_of
from ..diagnostics.link_fit import BLEND, Design, fit_both, gains
from ..diagnostics.link_inference import GainTest, bootstrap_blend, gain_test, likelihood_ratio
from ..diagnostics.link_selection import (
    LINKS,
    AblationPoint,
    Selection,
    compare_links,
    cross_validate,
    halves,
    select_link,
    simulate_softmax,
    vary_hardness,
    vary_pool,
)
from ..records.store import Metric, Record
from ..vision import SimCLR
from .config import Positive, VisionConfig
from .encoders import frozen_models
from .on_encoder import OnEncoder, bank_of, measured_once
from .record_checks import by_profile
from .vision import training_images

EXPERIMENT = "link"
EPOCHS_EXPERIMENT = "link-epochs"

#: Pairs of links whose held-out gain over each other is recorded.
DIFFERENCES = {
    "blend_over_power": ("blend", "power"),
    "blend_over_cubic": ("blend", "cubic"),
    "anchor_blend_over_anchor": ("anchor blend", "anchor"),
    "heavy_tail_on_top": ("blend + heavy-tail", "blend"),
}
#: Ablations: how candidates are kept, and whose winners; the last is the control.
ABLATIONS: dict[str, tuple[Selection, bool]] = {
    "winner_kept": ("winner kept", False),
    "by_rank": ("by rank", False),
    "simulated": ("winner kept", True),
}


class LinkConfig(OnEncoder):
    """What is measured on which encoder; see :class:`.on_encoder.OnEncoder` for the rest.

    The seed is that of all resampling too.

    Attributes:
        batches: batches in the bank, half of them held out; 32 in the paper.
        batch_size: pairs per batch; 256 in the paper.
        every: take every so-manyth view of a batch as an anchor; all in the paper.
        folds: of the cross-validation; 5 in the paper.
        repetitions: of the parametric bootstrap.
    """

    batches: Annotated[int, Field(ge=4)] = 32
    batch_size: Annotated[int, Field(ge=8)] = 256
    every: Positive = 1
    folds: Annotated[int, Field(ge=2)] = 5
    repetitions: Positive = 199

    @classmethod
    def of(cls, encoder_run: VisionConfig, profile: str) -> Self:
        """The profile's own: batches as in training; ``quick`` has fewer of them and of anchors."""
        return cls(
            encoder_run=encoder_run,
            batches=by_profile(profile, quick=16, cpu=32),
            batch_size=encoder_run.batch_size,
            every=by_profile(profile, quick=4, cpu=1),
        )

    @property
    def kept(self) -> list[int]:
        """Numbers of hardest negatives kept (Figure 7): all of them, a half, a quarter, ..."""
        negatives = 2 * self.batch_size - 2
        return sorted(negatives >> k for k in range(6) if negatives >> k >= 4)

    @property
    def pools(self) -> list[int]:
        """Sizes of the pool that an eighth is kept of (Figure 8; 64 of 512 in the paper)."""
        return self.kept[-4:]


def link_config(encoder_run: VisionConfig, profile: str, **settings: Any) -> LinkConfig:
    """:meth:`LinkConfig.of` with some settings changed, see :meth:`.OnEncoder.changed`."""
    return LinkConfig.of(encoder_run, profile).changed(settings)


def link_choices(config: LinkConfig, model: SimCLR | None = None) -> ChoiceBank:
    """The choices of the run's frozen encoder, or of another of its models.

    Raises:
        FileNotFoundError: if the encoder has not been trained yet.
    """
    bank = bank_of(config, batches=config.batches, batch_size=config.batch_size, model=model)
    return choices_of(bank, every=config.every)


def run_link(config: LinkConfig, *, profile: str) -> Record:
    """Select the link on the run's encoder and record it, or return the record that is there.

    Args:
        config: see :class:`LinkConfig`.
        profile: decides which table it is collected into.

    Raises:
        FileNotFoundError: if the encoder has not been trained yet.
    """
    standard = config == LinkConfig.of(config.encoder_run, profile)
    return measured_once(
        EXPERIMENT, config, lambda: _measured(config), profile=profile, standard=standard
    )


def _measured(config: LinkConfig) -> tuple[list[Metric], dict[str, Any]]:
    bank = link_choices(config)
    held_in, _ = halves(bank)
    selection = select_link(bank, seed=config.seed)
    ratio = likelihood_ratio(held_in, repetitions=config.repetitions, seed=config.seed)
    crossed = cross_validate(bank, folds=config.folds, seed=config.seed)
    metrics = [
        Metric("temperature_softmax", selection.h0.temperature),
        Metric("temperature_blend", selection.h1.fit.temperature),
        Metric("lambda_hat", selection.h1.value, low=selection.h1.low, high=selection.h1.high),
        Metric.of("lambda_hat_batches", bootstrap_blend(held_in, seed=config.seed)),
        Metric.of("held_out_gain", selection.gain.interval),
        Metric.of("held_out_gain_bootstrap", selection.gain.bootstrap),
        Metric.of("probability_ratio", selection.gain.ratio),
        Metric("p_t", selection.gain.p_t),
        Metric("p_wild", selection.gain.p_wild),
        Metric("likelihood_ratio", ratio.statistic),
        Metric("p_boundary", ratio.p_boundary),
        Metric("p_bootstrap", ratio.p_bootstrap),
        Metric("cv_gain", float(crossed.gains.mean())),
        Metric("cv_gain_sd", float(crossed.gains.std(ddof=1))),
    ]
    comparison = compare_links(bank)
    power = comparison.parameters["power"]
    low, high = power["exponent low"], power["exponent high"]
    metrics.append(Metric("power_exponent", power["exponent"], low=low, high=high))
    tests = {
        name.replace(" + ", "_").replace(" ", "_").replace("-", "_"): comparison.gain(name)
        for name in LINKS
        if name != "softmax"
    }
    tests |= {name: comparison.gain(*pair) for name, pair in DIFFERENCES.items()}
    metrics += [Metric.of(f"gain_{name}", test.interval) for name, test in tests.items()]
    full = comparison.parameters["blend + heavy-tail"]
    metrics.append(Metric("heavy_tail_weight", full["weight of heavy-tail"]))
    ablations = ablate(config, bank)
    metrics += _effects(ablations)
    details = {
        "parameters": {name: dict(p) for name, p in comparison.parameters.items()},
        "gains": {name: gain_json(test) for name, test in tests.items()},
        "duplicates": {"identical": selection.identical, "near": selection.near_duplicates},
        "simulated_ratios": ratio.simulated.round(4).tolist(),
        "cross_validation": {"gains": crossed.gains.tolist(), "blends": crossed.blends.tolist()},
        "ablations": {
            name: {kind: [_point_json(p) for p in points] for kind, points in both.items()}
            for name, both in ablations.items()
        },
    }
    # A temperature is infinite where winners score no higher than chance under that link.
    return [m for m in metrics if math.isfinite(m.value)], details


def run_link_epochs(config: LinkConfig, *, profile: str) -> Record:
    """Link selection at epochs 0, 1, 2, 4, 8, ... and the last (Figure 9); see :func:`run_link`."""
    standard = config == LinkConfig.of(config.encoder_run, profile)
    return measured_once(
        EPOCHS_EXPERIMENT,
        config,
        lambda: _measured_epochs(config),
        profile=profile,
        standard=standard,
    )


def _measured_epochs(config: LinkConfig) -> tuple[list[Metric], dict[str, Any]]:
    # Six banks instead of one: half as many batches each.
    halved = config.model_copy(update={"batches": max(4, config.batches // 2)})
    rows: list[dict[str, Any]] = []
    images = training_images(config.encoder_run)
    for epoch, model in frozen_models(config.encoder_run, images).items():
        held_in, held_out = halves(link_choices(halved, model))
        h0, h1 = fit_both(Design(held_in, BLEND))
        gain = gain_test(gains(Design(held_out, BLEND), h0, h1).mean(axis=1))
        blend = float(h1.blend[1])
        rows.append(
            {
                "epoch": epoch,
                # Winners of an untrained encoder may score no higher than chance.
                "blend": blend if math.isfinite(blend) else None,
                "gain": gain_json(gain),
            }
        )
    # Replicates of one metric are numbered by epoch; epoch 0 has not been trained and is left out.
    metrics = [Metric("gain_at_epoch", r["gain"]["mean"], replicate=r["epoch"]) for r in rows[1:]]
    trained = [m.value for m in metrics]
    metrics.append(Metric("least_gain_over_epochs", min(trained)))
    metrics.append(Metric("gain_last_over_first", trained[-1] - trained[0]))
    return metrics, {"epochs": rows}


def ablate(config: LinkConfig, bank: ChoiceBank) -> dict[str, dict[str, list[AblationPoint]]]:
    """Figures 7 and 8 in the three ways of :data:`ABLATIONS`: ``"hardness"`` and ``"pool"``."""
    simulated = simulate_softmax(bank, seed=config.seed)
    pools = config.pools
    found = {}
    for name, (selection, control) in ABLATIONS.items():
        chosen = simulated if control else bank
        found[name] = {
            "hardness": vary_hardness(chosen, config.kept, selection),
            "pool": vary_pool(chosen, pools, pools[0], selection, seed=config.seed),
        }
    return found


def _effects(ablations: dict[str, dict[str, list[AblationPoint]]]) -> list[Metric]:
    """What hardness changes: a quarter of the negatives against all; largest against least pool."""
    metrics = []
    for name, both in ablations.items():
        quarter, whole = both["hardness"][-3], both["hardness"][-1]
        small, large = both["pool"][0], both["pool"][-1]
        changes = {
            "hardness_effect_blend": quarter.blend - whole.blend,
            "hardness_effect_gain": quarter.gain - whole.gain,
            "pool_effect_blend": large.blend - small.blend,
            "pool_effect_shortfall": large.shortfall - small.shortfall,
        }
        # A blend is NaN where winners score no higher than chance: then there is no effect.
        metrics += [Metric(f"{n}_{name}", v) for n, v in changes.items() if math.isfinite(v)]
    return metrics


def gain_json(test: GainTest) -> dict[str, Any]:
    """A gain with its interval and p-values, as a record keeps it."""
    return {
        "mean": test.interval.mean,
        "low": test.interval.low,
        "high": test.interval.high,
        "p_t": test.p_t,
        "p_wild": test.p_wild,
        "per_batch": np.asarray(test.per_batch).tolist(),
    }


def _point_json(point: AblationPoint) -> dict[str, Any]:
    values = asdict(point)
    return {n: None if isinstance(v, float) and math.isnan(v) else v for n, v in values.items()}
