"""Methods of a study by their names for readers, and their test values seed by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .study_types import Study

#: What tables and figures call methods whose name does not say it.
WORDS = {
    "infonce-low": "InfoNCE, lower τ",
    "infonce-tuned": "InfoNCE, τ on validation",
    "infonce-other": "InfoNCE, another τ",
    "weince-tuned": "WEINCE, settings on validation",
    "weince-low": "WEINCE, lower τ",
    "weince-best": "WEINCE, settings and τ on validation",
    "weince-other": "WEINCE, another τ",
    "weince-release": "WEINCE, β = 1",
    "weince-calibrated": "WEINCE, likelihood gate, Hill's β",
    "calibrated-0.2": "WEINCE, likelihood gate, Hill's β, τ = 0.2",
    "line-likelihood": "WEINCE, likelihood gate, line's β",
    "unit-likelihood": "WEINCE, likelihood gate, β = 1",
    "weince-shuffled": "WEINCE, λ of other anchors",
    "weince-mean": "WEINCE, mean λ for all",
    "weince-steepness": "WEINCE, κ_ρ on validation",
    "weince-kappa5": "WEINCE, κ_ρ = 5",
    "weince-kappa20": "WEINCE, κ_ρ = 20",
    "released": "release's whole objective",
    "infonce+both": "InfoNCE + both further losses",
    "infonce-0.2+both": "InfoNCE, τ = 0.2, + both",
    "infonce+softmax50": "InfoNCE + softmax over 50",
    "infonce+weibit50": "InfoNCE + Weibit over 50",
    "weince+both": "WEINCE + both further losses",
    "weibit-hill": "pure endpoint link, Hill's β",
}
#: Columns of :func:`seed_table`.
COLUMNS = ("method", "setting", "seed", "accuracy", "negative_entropy", "mean_lambda")


def called(method: str) -> str:
    """A method's name for readers: "weince-0.2" is WEINCE at a temperature of 0.2."""
    if method in WORDS:
        return WORDS[method]
    kind, _, number = method.partition("-")
    name = {"infonce": "InfoNCE", "weince": "WEINCE"}.get(kind)
    if name:
        return f"{name}, τ = {number}" if number else name
    return f"pure endpoint link, β = {number}" if kind == "weibit" else method


def seed_table(
    study: Study, frame: pd.DataFrame, metric: str, chosen: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """One row a method and encoder seed.

    Args:
        study: gives the methods.
        frame: its rows, see :func:`~.selection.study_frame`.
        metric: whose test value is ``accuracy``, in percent.
        chosen: setting of methods that have several to choose from; without one such a method is
            left out.

    Returns:
        :data:`COLUMNS`; ``negative_entropy`` and ``mean_lambda`` are NaN for runs that lack them.
        Empty for a frame without such rows.
    """
    rows: list[dict[str, Any]] = []
    wanted = [(metric, "test"), ("negative_entropy", "train"), ("mean_lambda", "train")]
    keys = ["setting", "seed", "metric", "split"]
    means = frame.groupby(keys, as_index=False)["value"].mean()
    value: dict[tuple[Any, ...], float] = {
        tuple(index): float(v)
        for *index, v in means[[*keys, "value"]].itertuples(index=False, name=None)
    }
    for method, settings in study.methods.items():
        label = settings[0].label if len(settings) == 1 else (chosen or {}).get(method)
        if label is None:
            continue
        for seed in study.seeds:
            own = [value.get((label, seed, *which), math.nan) for which in wanted]
            if not math.isnan(own[0]):
                rows.append(dict(zip(COLUMNS, (method, label, seed, *own), strict=True)))
    return pd.DataFrame(rows, columns=list(COLUMNS))
