"""How a number decides a claim: the rule, the rows or study it looks at, and what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from ..evaluation import Interval, critical, paired_difference, seeds_to_tell, t_interval
from . import sweep
from .collect import COLUMNS
from .config import ConfigError
from .grid import STUDIES
from .selection import Chosen, choose, compare, study_frame

Outcome = Literal["yes", "no", "undecided"]
#: What ``where`` may name when it looks at a study.
STUDY_KEYS = {"study", "method", "against", "metric"}


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
        where: columns of the results table and the value each must have; or a study:
            ``study, method, metric`` and perhaps ``against``. Validation chooses each method's
            setting for the metric, the number is the test result, or with ``against`` the
            difference paired by encoder seed, and its 95 % t-interval is over encoder seeds.
        against: the loss subtracted, for ``"difference-above"``.
        least: for ``"above"`` and ``"difference-above"``, the smallest effect that would be one: an
            interval that reaches below ``value`` and lies below ``least`` rules it out. Without
            it, only an interval below ``value`` does.
        limits: what the claim speaks of and these rows do not; a claim they bear out *holds here
            with limits*.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    rule: Literal["above", "below", "difference-above", "at-most", "within"]
    value: float
    quantity: str
    where: dict[str, str]
    against: str = "infonce"
    least: float | None = None
    limits: str = ""

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        rises = self.rule in ("above", "difference-above")
        if self.least is not None and not (rises and self.least > self.value):
            raise ValueError(f"least = {self.least} needs a rule 'above' and must exceed value")
        if "study" in self.where:
            keys = self.where.keys()
            if self.rule == "difference-above":
                raise ValueError("a study's difference is `where.against` with rule 'above'")
            if not (STUDY_KEYS - {"against"} <= keys <= STUDY_KEYS):
                raise ValueError(
                    f"where of a study has {sorted(keys)}; it needs study, method and metric, and "
                    "may have against"
                )
        return self


@dataclass(frozen=True)
class Measured:
    """A number and what it came from.

    Attributes:
        interval: the number with its 95 % interval.
        rows: of the results or the study's table.
        how: what was compared, for a study; empty for a table.
    """

    interval: Interval
    rows: pd.DataFrame
    how: str = ""


def outcome(rule: Ours, interval: Interval) -> Outcome:
    """Apply a rule to an interval; without an interval (one seed) only ``at-most`` can decide."""
    low, high, value = interval.low, interval.high, rule.value
    if rule.rule == "at-most":
        return "yes" if interval.mean <= value else "no"
    if math.isnan(low):
        return "undecided"
    if rule.rule == "within":
        apart = low > value or high < -value
        return "yes" if -value <= low and high <= value else "no" if apart else "undecided"
    if rule.rule == "below":
        return "yes" if high < value else "no" if low > value else "undecided"
    ruled_out = value if rule.least is None else rule.least
    return "yes" if low > value else "no" if high < ruled_out else "undecided"


def seeds_needed(interval: Interval, effect: float) -> int | None:
    """Encoder seeds that would see a true ``effect`` with 80 % probability, at this spread.

    Returns:
        The number, see :func:`~weince_lib.evaluation.seeds_to_tell`; ``None`` for an interval
        without a spread to go by, an effect that is not above 0, or if more than a thousand are
        needed.
    """
    if interval.n < 2 or not interval.high > interval.low:
        return None
    spread = interval.half_width * math.sqrt(interval.n) / critical(interval.n - 1)
    return seeds_to_tell(effect, spread)


def measure(rule: Ours, table: pd.DataFrame) -> Measured | None:
    """The interval a rule looks at and the rows behind it; ``None`` if the table has none.

    Raises:
        ConfigError: if the rule selects by a column that results do not have.
    """
    rows = _select(table, rule.where)
    if rows.empty:
        return None
    if rule.rule != "difference-above" and rows["seed"].isna().all():
        return Measured(_worst_check(rule, rows), rows)
    if rule.rule != "difference-above":
        return Measured(interval_of(rows), rows)
    other = _select(table, rule.where | {"loss": rule.against})
    shared = set(rows["seed"].dropna()) & set(other["seed"].dropna())
    if not shared:
        return None
    both = pd.concat([rows, other])
    return Measured(paired_interval(rows, other), both[both["seed"].isin(shared)])


def measure_study(rule: Ours) -> Measured | None:
    """The same from a study's table; ``None`` while it has no rows of the methods.

    Raises:
        ConfigError: for a method that the study does not have.
    """
    name, metric = rule.where["study"], rule.where["metric"]
    frame = study_frame(STUDIES[name]) if name in STUDIES else sweep.load_study(name)
    names = [rule.where[key] for key in ("method", "against") if key in rule.where]
    chosen: list[Chosen] = []
    for method in names:
        found = choose(frame, _settings(name, method, frame), metric)
        if found is None:
            return None
        chosen.append(found)
    words = [f"{m} ({c.setting})" for m, c in zip(names, chosen, strict=True)]
    how = f"study {name}: " + " against ".join(words)
    settings = [c.setting for c in chosen]
    rows = frame[
        frame["setting"].isin(settings) & (frame["metric"] == metric) & (frame["split"] == "test")
    ]
    if len(chosen) == 1:
        return Measured(chosen[0].test, rows, how)
    pair = compare(*chosen)
    return (
        None if pair is None else Measured(pair.interval, rows[rows["seed"].isin(pair.seeds)], how)
    )


def _settings(name: str, method: str, frame: pd.DataFrame) -> list[str]:
    """A method's settings; of a table without a study of that name, the rows' own names."""
    if name not in STUDIES:
        own = frame[(frame["setting"] == method) | (frame["loss"] == method)]
        return list(dict.fromkeys(own["setting"]))
    methods = STUDIES[name].methods
    if method not in methods:
        raise ConfigError(f"study {name} has no method {method!r}; it has {', '.join(methods)}")
    return [setting.label for setting in methods[method]]


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
