"""What drives a gain: effects of a study's settings, adjusted for their number and for sharpness.

Two questions a difference in accuracy leaves open are taken up here: whether it is one of many
looked at (Holm's adjustment), and whether a sharper softmax would have done the same (the
difference to InfoNCE at an equal effective number of negatives).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..evaluation import Interval, critical, detectable_effect, paired_difference, t_interval
from .grid_gain import ANCHORS, BLEND_AT, EXTRAS, INFONCE_AT, PARTS, SHARPER, STEEPNESS, WEIBIT
from .selection import choose
from .study_types import Study

#: Families of settings, for colours and the order of rows.
FAMILIES: dict[str, tuple[str, ...]] = {
    "InfoNCE": (*INFONCE_AT, *SHARPER),
    "with further losses": tuple(EXTRAS),
    "Weibit": tuple(WEIBIT),
    "WEINCE": (*BLEND_AT, "weince-0.07", "weince-0.3", "weince-1", *STEEPNESS),
    "WEINCE, other tail index or gate": tuple(PARTS),
    "WEINCE, λ of other anchors": tuple(ANCHORS),
}
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
COLUMNS = ("method", "family", "setting", "seed", "accuracy", "negative_entropy", "mean_lambda")


def family(method: str) -> str:
    """The family a method belongs to; "other" for an unknown one."""
    return next((name for name, members in FAMILIES.items() if method in members), "other")


def called(method: str) -> str:
    """A method's name for readers: "weince-0.2" is WEINCE at a temperature of 0.2."""
    if method in WORDS:
        return WORDS[method]
    kind, _, number = method.partition("-")
    name = {"infonce": "InfoNCE", "weince": "WEINCE"}.get(kind)
    if name:
        return f"{name}, τ = {number}" if number else name
    return f"pure endpoint link, β = {number}" if kind == "weibit" else method


def seed_table(study: Study, frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row a method of a single setting and encoder seed.

    Args:
        study: gives the methods.
        frame: its rows, see :func:`~.selection.study_frame`.
        metric: whose test value is ``accuracy``, in percent.

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
        if len(settings) != 1:
            continue
        label = settings[0].label
        for seed in study.seeds:
            own = [value.get((label, seed, *which), math.nan) for which in wanted]
            if not math.isnan(own[0]):
                rows.append(
                    dict(zip(COLUMNS, (method, family(method), label, seed, *own), strict=True))
                )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def by_seed(table: pd.DataFrame, method: str, column: str = "accuracy") -> dict[int, float]:
    """A method's values by encoder seed; empty if it has none."""
    own = table[(table["method"] == method) & table[column].notna()]
    return {int(s): float(v) for s, v in zip(own["seed"], own[column], strict=True)}


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Every method's accuracy with its interval over seeds, beside its sharpness.

    Returns:
        One row a method: ``method, family, accuracy, accuracy_low, accuracy_high, seeds,
        effective_negatives, mean_lambda``; bounds are NaN for a single seed.
    """
    rows: list[dict[str, Any]] = []
    for method, own in table.groupby("method", sort=False):
        i = t_interval(own["accuracy"].tolist())
        row = {"method": method, "family": family(str(method)), "accuracy": i.mean}
        row |= {"accuracy_low": i.low, "accuracy_high": i.high, "seeds": i.n}
        row["effective_negatives"] = math.exp(own["negative_entropy"].mean())
        rows.append(row | {"mean_lambda": own["mean_lambda"].mean()})
    columns = ["method", "family", "accuracy", "accuracy_low", "accuracy_high", "seeds"]
    return pd.DataFrame(rows, columns=[*columns, "effective_negatives", "mean_lambda"])


def two_sided(interval: Interval) -> float:
    """Two-sided p-value of a t-interval's mean against 0; NaN without an interval."""
    if interval.n < 2 or not interval.half_width > 0:
        return math.nan
    error = interval.half_width / float(stats.t.ppf(0.975, interval.n - 1))
    return float(2.0 * stats.t.sf(abs(interval.mean) / error, interval.n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; NaN stays and does not count (Holm 1979)."""
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full_like(p, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p[index]))
        adjusted[index] = running
    return [float(x) for x in adjusted]


def effects(table: pd.DataFrame, baseline: Mapping[int, float], *, skip: str = "") -> pd.DataFrame:
    """Paired differences of every method to a baseline, with Holm's adjustment over all of them.

    Args:
        table: see :func:`seed_table`.
        baseline: accuracy by encoder seed.
        skip: the baseline's own name, left out.

    Returns:
        One row a method that shares a seed with the baseline: ``method, family, accuracy,
        difference, low, high, p, p_holm, seeds, effective_negatives, mean_lambda``. The interval is
        the 95 % t-interval over encoder seeds, NaN for one seed; p-values are two-sided.
    """
    columns = ["method", "family", "accuracy", "difference", "low", "high", "p", "p_holm", "seeds"]
    columns += ["effective_negatives", "mean_lambda"]
    rows: list[dict[str, Any]] = []
    for method in dict.fromkeys(table["method"]):
        own = by_seed(table, method)
        if method == skip or not own.keys() & baseline.keys():
            continue
        pair = paired_difference(own, baseline).interval
        part = table[table["method"] == method]
        rows.append(
            {
                "method": method,
                "family": family(method),
                "accuracy": float(np.mean(list(own.values()))),
                "difference": pair.mean,
                "low": pair.low,
                "high": pair.high,
                "p": two_sided(pair),
                "seeds": pair.n,
                "effective_negatives": math.exp(part["negative_entropy"].mean()),
                "mean_lambda": part["mean_lambda"].mean(),
            }
        )
    found = pd.DataFrame(rows, columns=columns)
    found["p_holm"] = holm(found["p"].tolist())
    return found


def tuned_baseline(study: Study, frame: pd.DataFrame, metric: str) -> tuple[str, dict[int, float]]:
    """InfoNCE at the temperature validation chooses: its setting, and test accuracy by seed.

    Empty if there is none.
    """
    settings = study.methods.get("infonce-tuned", ())
    chosen = choose(frame, [s.label for s in settings], metric)
    return ("", {}) if chosen is None else (chosen.setting, chosen.by_seed)


def at_matched_sharpness(table: pd.DataFrame) -> pd.DataFrame:
    """Every method's accuracy minus InfoNCE's at the same negative entropy.

    Seed by seed, InfoNCE's accuracy is interpolated linearly in the entropy between its
    temperatures. A method as sharp as no temperature of that seed's, or blunter than all, has no
    match there and loses the seed: nothing is extrapolated. Where two temperatures come out equally
    sharp in the end, the curve joins their accuracies.

    Returns:
        ``method, family, difference, low, high, p, p_holm, seeds, effective_negatives``; a method
        without any matched seed has 0 of them and no difference.
    """
    softmax = table[table["family"] == "InfoNCE"].dropna(subset=["negative_entropy"])
    rows: list[dict[str, Any]] = []
    for method in dict.fromkeys(table["method"]):
        if family(method) == "InfoNCE":
            continue
        differences = []
        for row in table[table["method"] == method].to_dict("records"):
            curve = softmax[softmax["seed"] == row["seed"]].sort_values("negative_entropy")
            entropy = row["negative_entropy"]
            ends = curve["negative_entropy"].min(), curve["negative_entropy"].max()
            if len(curve) >= 2 and ends[0] <= entropy <= ends[1]:
                expected = np.interp(entropy, curve["negative_entropy"], curve["accuracy"])
                differences.append(float(row["accuracy"] - expected))
        entropy = table.loc[table["method"] == method, "negative_entropy"].mean()
        row = {"method": method, "family": family(method), "difference": math.nan, "seeds": 0}
        row |= {"low": math.nan, "high": math.nan, "p": math.nan}
        if differences:
            i = t_interval(differences)
            row |= {"difference": i.mean, "low": i.low, "high": i.high, "p": two_sided(i)}
            row["seeds"] = i.n
        rows.append(row | {"effective_negatives": math.exp(entropy)})
    columns = ["method", "family", "difference", "low", "high", "p", "p_holm", "seeds"]
    columns.append("effective_negatives")
    found = pd.DataFrame(rows, columns=columns)
    found["p_holm"] = holm(found["p"].tolist())
    return found


#: Contrasts that single out one factor: name, then (a, b) of a - b.
CONTRASTS: dict[str, tuple[str, str]] = {
    "blend, at τ = 0.5": ("weince-0.5", "infonce-0.5"),
    "blend, at τ = 0.2": ("weince-0.2", "infonce-0.2"),
    "blend, at τ = 0.1": ("weince-0.1", "infonce-0.1"),
    "blend, with both further losses": ("weince+both", "infonce+both"),
    "blend of the release, with both": ("released", "infonce+both"),
    "blend of the release, without": ("weince-release", "infonce-0.5"),
    "own λ, not shuffled": ("weince-0.5", "weince-shuffled"),
    "own λ, not the mean": ("weince-0.5", "weince-mean"),
    "β = 1, not the line's": ("weince-release", "weince-0.5"),
    "calibrated gate, not the paper's": ("line-likelihood", "weince-0.5"),
    "β = 1, not the line's (calibrated gate)": ("unit-likelihood", "line-likelihood"),
    "calibrated blend, at τ = 0.2": ("calibrated-0.2", "infonce-0.2"),
    "Hill's β, not the line's (calibrated gate)": ("weince-calibrated", "line-likelihood"),
    "both further losses": ("infonce+both", "infonce-0.5"),
    "softmax over 50": ("infonce+softmax50", "infonce-0.5"),
    "Weibit over 50": ("infonce+weibit50", "infonce-0.5"),
    "both further losses, beside the blend": ("weince+both", "weince-0.5"),
    "both further losses, beside the release's blend": ("released", "weince-release"),
    "both further losses, at τ = 0.2": ("infonce-0.2+both", "infonce-0.2"),
    "τ = 0.2, not 0.5": ("infonce-0.2", "infonce-0.5"),
    "τ = 0.1, not 0.5": ("infonce-0.1", "infonce-0.5"),
    "pure endpoint link, β = 1, not τ = 0.1": ("weibit-1", "infonce-0.1"),
    "pure endpoint link, β = 2, not τ = 0.1": ("weibit-2", "infonce-0.1"),
    "pure endpoint link, β = 4, not τ = 0.1": ("weibit-4", "infonce-0.1"),
    "pure endpoint link, Hill's β, not τ = 0.1": ("weibit-hill", "infonce-0.1"),
}


def contrasts(table: pd.DataFrame) -> pd.DataFrame:
    """The effect of each factor: paired differences of :data:`CONTRASTS`, Holm over all of them.

    Returns:
        ``factor, a, b, difference, low, high, p, p_holm, seeds``; contrasts without a shared seed
        are left out.
    """
    rows: list[dict[str, Any]] = []
    for name, (a, b) in CONTRASTS.items():
        first, second = by_seed(table, a), by_seed(table, b)
        if not first.keys() & second.keys():
            continue
        i = paired_difference(first, second).interval
        row = {"factor": name, "a": a, "b": b, "difference": i.mean, "low": i.low, "high": i.high}
        rows.append(row | {"p": two_sided(i), "seeds": i.n})
    columns = ["factor", "a", "b", "difference", "low", "high", "p", "p_holm", "seeds"]
    found = pd.DataFrame(rows, columns=columns)
    found["p_holm"] = holm(found["p"].tolist())
    return found


def smallest_effects(found: pd.DataFrame, level: float = 0.05) -> pd.DataFrame:
    """What the runs of a table of differences could see, from their own spread over seeds.

    Args:
        found: from :func:`contrasts` or :func:`effects`.
        level: of the two-sided test.

    Returns:
        Its rows with more than one seed and two columns more, in the unit of ``difference``: the
        true effect that a test sees with a probability of 80 %, ``alone`` and as the first of
        Holm's order among ``all`` rows (Bonferroni's bound). NaN for a difference without spread.
    """
    rows = found[found["seeds"] > 1].copy()
    tests = max(1, int(found["p"].notna().sum()))
    half = (rows["high"] - rows["low"]) / 2
    for column, count in (("alone", 1), ("all", tests)):
        rows[column] = [
            detectable_effect(h / critical(n - 1), n - 1, tests=count, level=level)
            for h, n in zip(half, rows["seeds"], strict=True)
        ]
    return rows


def verdict(row: Mapping[Any, Any], level: float = 0.05) -> str:
    """An effect in words: ``"helps"``, ``"hurts"``, ``"cannot tell"``, ``"one seed"``.

    By Holm's adjusted p-value at the level.
    """
    if math.isnan(row["p_holm"]):
        return "one seed"
    if row["p_holm"] >= level:
        return "cannot tell"
    return "helps" if row["difference"] > 0 else "hurts"
