"""The paper's claims and what our records say about each: ``paper/claims.toml`` in, verdicts out.

A claim is decided by a rule over rows of ``paper/results/``; one without a rule is open. A verdict
is about the data set, encoder and seeds it names, never about more.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict

from ..evaluation import Interval, paired_difference, t_interval
from . import paths
from .collect import COLUMNS, load_reported, load_results
from .config import PROFILES, ConfigError, parse

Verdict = Literal["supported", "contradicted", "inconclusive", "open"]
#: Profiles from strongest to weakest evidence; a claim takes the first that has its rows.
STRENGTH = ("paper", "gpu", "cpu", "colab", "quick")
assert set(STRENGTH) == set(PROFILES)


class Ours(BaseModel):
    """How our records decide a claim.

    Attributes:
        rule: ``"above"`` / ``"below"``: the interval lies beyond ``value``. ``"difference-above"``:
            the paired difference (``loss`` minus ``against``, by encoder seed) lies above
            ``value``. ``"at-most"``: an exact check, the number itself is at most ``value``.
            ``"within"``: the interval lies inside plus or minus ``value``, so that a deviation
            larger than that is ruled out and not merely unseen.
        value: what the rule compares with.
        quantity: what the number is, in words, with its unit.
        where: columns of the results table and the value each must have.
        against: the loss subtracted, for ``"difference-above"``.
        elsewhere: the rows are of another data set or encoder than the claim's, so that they are
            shown and decide nothing: the verdict stays inconclusive.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    rule: Literal["above", "below", "difference-above", "at-most", "within"]
    value: float
    quantity: str
    where: dict[str, str]
    against: str = "infonce"
    elsewhere: bool = False


class Claim(BaseModel):
    """One claim of the paper; see the head of ``paper/claims.toml`` for the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    label: str
    section: str
    statement: str
    notebook: str
    doubt: str = ""
    paper: dict[str, Any] | None = None
    ours: Ours | None = None


@dataclass(frozen=True)
class Decision:
    """A claim with what was found.

    Attributes:
        claim: the claim.
        verdict: see :data:`Verdict`.
        paper: the paper's number or numbers, as text; empty where it gives none.
        ours: what we measured, our number and its 95 % interval, as text; empty while open.
        evidence: profile, data set, encoder and number of seeds behind it.
        records: keys of the records it came from.
    """

    claim: Claim
    verdict: Verdict
    paper: str = ""
    ours: str = ""
    evidence: str = ""
    records: tuple[str, ...] = ()


def load_claims() -> list[Claim]:
    """Read ``paper/claims.toml``.

    Raises:
        ConfigError: naming a field that is missing, unknown or of a wrong type.
    """
    path = paths.root() / "paper" / "claims.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from error
    return [parse(Claim, item) for item in content["claim"]]


def decide_all(profile: str | None = None) -> list[Decision]:
    """Every claim with its verdict, in the paper's order.

    Args:
        profile: look at this profile's results only; by default the strongest that has any.
    """
    tables = {name: load_results(name) for name in ([profile] if profile else STRENGTH)}
    reported = load_reported()
    return [decide(claim, tables, reported) for claim in load_claims()]


def decide(claim: Claim, tables: dict[str, pd.DataFrame], reported: pd.DataFrame) -> Decision:
    """Decide one claim from result tables given by profile, strongest first."""
    paper = paper_value(claim, reported)
    if claim.ours is None:
        return Decision(claim, "open", paper)
    for profile, table in tables.items():
        measured = measure(claim.ours, table)
        if measured is None:
            continue
        interval, rows = measured
        return Decision(
            claim,
            "inconclusive" if claim.ours.elsewhere else verdict_of(claim.ours, interval),
            paper,
            f"{claim.ours.quantity}: {format_interval(interval)}",
            describe(profile, rows),
            tuple(dict.fromkeys(rows["key"])),
        )
    return Decision(claim, "open", paper)


def measure(rule: Ours, table: pd.DataFrame) -> tuple[Interval, pd.DataFrame] | None:
    """The interval a rule looks at and the rows behind it; ``None`` if the table has none."""
    rows = _select(table, rule.where)
    if rows.empty:
        return None
    if rule.rule != "difference-above" and rows["seed"].isna().all():
        return _worst_check(rule, rows), rows
    if rule.rule != "difference-above":
        return interval_of(rows), rows
    other = _select(table, rule.where | {"loss": rule.against})
    shared = set(rows["seed"].dropna()) & set(other["seed"].dropna())
    if not shared:
        return None
    both = pd.concat([rows, other])
    return paired_interval(rows, other), both[both["seed"].isin(shared)]


def verdict_of(rule: Ours, interval: Interval) -> Verdict:
    """Apply a rule to an interval; without an interval (one seed) only ``at-most`` can decide."""
    if rule.rule == "at-most":
        return "supported" if interval.mean <= rule.value else "contradicted"
    if rule.rule == "within":
        low, high = interval.low, interval.high
        if math.isnan(low):
            return "inconclusive"
        inside = -rule.value <= low and high <= rule.value
        apart = low > rule.value or high < -rule.value
        return "supported" if inside else "contradicted" if apart else "inconclusive"
    above, below = interval.low > rule.value, interval.high < rule.value
    if rule.rule == "below":
        above, below = below, above
    return "supported" if above else "contradicted" if below else "inconclusive"


def _worst_check(rule: Ours, rows: pd.DataFrame) -> Interval:
    """Of several checks (a notebook run with other parameters) the one least in favour."""
    low, high = (rows[end].fillna(rows["value"]) for end in ("low", "high"))
    against = {
        "at-most": rows["value"],
        "above": -low,
        "below": high,
        "within": pd.concat([-low, high], axis=1).max(axis=1),
    }[rule.rule]
    row = rows.iloc[int(against.to_numpy().argmax())]
    return Interval(float(row["value"]), float(row["low"]), float(row["high"]), len(rows))


def per_seed(rows: pd.DataFrame) -> dict[int, float]:
    """Mean over replicates (probe or split seeds) within each encoder seed."""
    means = rows.groupby("seed")["value"].mean()
    return {int(seed): float(value) for seed, value in means.items()}  # type: ignore[call-overload]


def interval_of(rows: pd.DataFrame) -> Interval:
    """t-interval over encoder seeds; a single row brings the interval its record has."""
    if len(rows) == 1:
        row = rows.iloc[0]
        return Interval(float(row["value"]), float(row["low"]), float(row["high"]), 1)
    return t_interval(list(per_seed(rows).values()))


def paired_interval(rows: pd.DataFrame, other: pd.DataFrame) -> Interval:
    """t-interval of the difference of two losses over the encoder seeds both have."""
    return paired_difference(per_seed(rows), per_seed(other)).interval


def paper_value(claim: Claim, reported: pd.DataFrame) -> str:
    """The paper's numbers for a claim as text, ``loss value ± ci`` joined by commas."""
    if claim.paper is None:
        return ""
    rows = reported
    for column, value in claim.paper.items():
        rows = rows[rows[column] == value]
    several = rows["loss"].nunique() > 1
    words = []
    for row in rows.to_dict("records"):
        spread = f" ± {row['ci95']:g}" if pd.notna(row["ci95"]) else ""
        number = f"{row['value']:g}{spread}"
        words.append(f"{row['loss']} {number}" if several else number)
    return (", " if several else " to ").join(words)


def describe(profile: str, rows: pd.DataFrame) -> str:
    """What a number rests on: profile, data set, encoder, seeds."""
    words = [profile]
    for column in ("dataset", "encoder"):
        words += [str(v) for v in dict.fromkeys(rows[column].dropna()) if v]
    seeds = rows["seed"].dropna().nunique()
    words.append(
        f"{seeds} encoder seed{'s' if seeds != 1 else ''}" if seeds else "computed in place"
    )
    return ", ".join(words)


def format_interval(interval: Interval) -> str:
    """``mean [low, high]`` with as many digits as the interval supports."""
    if not interval.high > interval.low:
        return f"{interval.mean:.3g}"
    # Two digits of the interval's width: 0.0021 [0.0012, 0.0030], 76.54 [76.22, 76.86].
    digits = max(2, 1 - math.floor(math.log10(interval.high - interval.low)))
    return f"{interval.mean:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _select(table: pd.DataFrame, where: dict[str, str]) -> pd.DataFrame:
    unknown = where.keys() - set(COLUMNS)
    if unknown:
        raise ConfigError(
            f"claims.toml selects by unknown columns {sorted(unknown)}; known: {', '.join(COLUMNS)}"
        )
    for column, value in where.items():
        table = table[table[column].map(_as_text) == value]
    return table


def _as_text(value: object) -> str:
    """A cell as ``claims.toml`` writes it: seed 7 is ``"7"`` also where the column holds floats."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)
