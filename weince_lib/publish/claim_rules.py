"""How a number decides a claim: the rule, the rows or study it looks at, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from ..evaluation import Interval, critical, paired_difference, seeds_to_tell, t_interval
from ..runs.config import ConfigError
from ..studies import decide
from ..studies.collect import COLUMNS
from ..studies.decide import PRIMARY_CONTRASTS, Contrast, seed_table
from ..studies.grid import Study, study
from ..studies.selection import choose, compare, study_frame

Outcome = Literal["yes", "no", "undecided"]
Kind = Literal["above", "below", "difference-above", "at-most", "within"]
#: Rules over several studies.
OVER_STUDIES = ("better-everywhere", "nowhere-better")
#: What ``where`` may name when it looks at a study.
STUDY_KEYS = {"study", "method", "against", "metric"}
#: Words of :mod:`.decide` for a comparison that is not finished; such a study is passed over.
WAITING = (decide.NOT_RUN, decide.NOT_FINISHED, decide.ONE_SEED, decide.NO_SPREAD)


class Part(BaseModel):
    """A further number of a claim, from the same rows but for the metric, or another experiment's.

    Attributes:
        metric: its name in the results.
        experiment: of the results, if it is another one than the claim's; then nothing else of
            ``where`` is asked for.
        study: whose table the rows are of, if it is another one than the claim's.
        words: what it is, shortly; it stands after the claim's first number.
        rule: as in :class:`Ours`; the claim then holds only if this holds as well. ``None``: the
            number is only shown.
        value: what the rule compares with.
        control: as in :class:`Ours`, for ``"difference-above"``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    metric: str
    words: str
    experiment: str = ""
    study: str = ""
    rule: Kind | None = None
    value: float = 0.0
    control: str = ""


class Comparison(BaseModel):
    """Two methods of a study.

    Attributes:
        study: its name.
        method: a method of it; of one with several settings, the setting that validation chose.
        against: the method subtracted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    study: str
    method: str
    against: str


class Ours(BaseModel):
    """How our records decide a claim; the head of ``paper/claims.toml`` explains all fields.

    Attributes:
        rule: ``"above"`` / ``"below"``: the interval lies beyond ``value``. ``"difference-above"``:
            the paired difference (``loss`` minus ``against``, or ``metric`` minus ``control``, by
            encoder seed) lies above ``value``. ``"at-most"``: an exact check, the number itself is
            at most ``value``. ``"within"``: the interval lies inside plus or minus ``value``, so
            that a deviation larger than that is ruled out and not merely unseen.
            ``"better-everywhere"``, ``"nowhere-better"``: the words of :mod:`.decide` for every one
            of ``studies``, see :func:`over_studies`.
        value: what the rule compares with.
        quantity: what the number is, in words, with its unit.
        where: columns of the results table and the value each must have. With ``study`` beside
            ``experiment`` the rows are those of the study's own table: what was measured on its
            encoders. Or a comparison of a study: ``study, method, metric`` and perhaps
            ``against``. Validation chooses each method's setting for the metric, the number is the
            test result, or with ``against`` the difference paired by encoder seed, and its 95 %
            t-interval is over encoder seeds.
        against: the loss subtracted, for ``"difference-above"``.
        control: for the same rule, a metric of the same rows that is subtracted in its place.
        least: for ``"above"`` and ``"difference-above"``, the smallest effect that would be one: an
            interval that reaches below ``value`` and lies below ``least`` rules it out. Without
            it, only an interval below ``value`` does. Over studies, the margin of equivalence.
        studies: the comparisons that a rule over studies looks at.
        also: further numbers; those with a rule have to fulfil it too.
        limits: what the claim speaks of and these rows do not.
        settings: decimals in the entry's words that were chosen and not measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    rule: Kind | Literal["better-everywhere", "nowhere-better"]
    value: float
    quantity: str
    where: dict[str, str]
    against: str = "infonce"
    control: str = ""
    least: float | None = None
    studies: tuple[Comparison, ...] = ()
    also: tuple[Part, ...] = ()
    limits: str = ""
    settings: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        rises = self.rule in ("above", "difference-above", *OVER_STUDIES)
        if self.least is not None and not (rises and self.least > self.value):
            raise ValueError(f"least = {self.least} needs a rule 'above' and must exceed value")
        if (self.rule in OVER_STUDIES) != bool(self.studies):
            raise ValueError(f"studies go with the rules {' and '.join(OVER_STUDIES)} and no other")
        if self.studies and (self.least is None or self.where.keys() != {"metric"}):
            raise ValueError("a rule over studies needs least, its margin, and where = {metric}")
        if self.control and self.rule != "difference-above":
            raise ValueError(f"control = {self.control!r} needs the rule 'difference-above'")
        if "study" in self.where and "experiment" not in self.where:
            keys = self.where.keys()
            if self.rule == "difference-above":
                raise ValueError("a study's difference is `where.against` with rule 'above'")
            if not (STUDY_KEYS - {"against"} <= keys <= STUDY_KEYS):
                raise ValueError(
                    f"where of a study has {sorted(keys)}; it needs study, method and metric, and "
                    "may have against"
                )
        return self

    def part(self, part: Part) -> Ours:
        """The rule of a further number; of one that is only shown, a rule that reads it."""
        kind = part.rule or ("difference-above" if part.control else "at-most")
        where = {"experiment": part.experiment} if part.experiment else dict(self.where)
        if part.study:
            where["study"] = part.study
        where = where | {"metric": part.metric}
        change = {"rule": kind, "value": part.value, "control": part.control, "where": where}
        return self.model_copy(update=change | {"least": None, "also": ()})


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


@dataclass(frozen=True)
class Everywhere:
    """What several studies say of a comparison.

    Attributes:
        outcome: of the rule.
        text: a study's difference with its interval and word, then the next study's.
        rows: of all methods compared.
        profiles: of the studies, each once.
        seeds: of encoders, a number for each study.
        detectable: the true difference that the least precise of them would see with a probability
            of 80 %; NaN where none can tell.
    """

    outcome: Outcome
    text: str
    rows: pd.DataFrame
    profiles: tuple[str, ...]
    seeds: tuple[int, ...]
    detectable: float


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """All of them at once: one *no* refutes, and *yes* needs every one."""
    found = set(outcomes)
    return "no" if "no" in found else "undecided" if "undecided" in found else "yes"


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
    subtracted = {"metric": rule.control} if rule.control else {"loss": rule.against}
    other = _select(table, rule.where | subtracted)
    shared = set(rows["seed"].dropna()) & set(other["seed"].dropna())
    if not shared:
        return None
    both = pd.concat([rows, other])
    pair = paired_difference(per_seed(rows), per_seed(other))
    return Measured(pair.interval, both[both["seed"].isin(shared)])


def measure_study(rule: Ours) -> Measured | None:
    """The same from a study's table; ``None`` while it has no rows of the methods.

    Raises:
        ConfigError: for a study that does not exist, or a method that it does not have.
    """
    named, metric = study(rule.where["study"]), rule.where["metric"]
    frame = study_frame(named)
    if "experiment" in rule.where:
        columns = {column: value for column, value in rule.where.items() if column != "study"}
        found_rows = measure(rule.model_copy(update={"where": columns}), frame)
        return found_rows and replace(found_rows, how=f"study {named.name}")
    names = [rule.where[key] for key in ("method", "against") if key in rule.where]
    found = [choose(frame, _settings(named, name), metric) for name in names]
    chosen = [one for one in found if one is not None]
    if len(chosen) < len(names):
        return None
    words = [f"{m} ({c.setting})" for m, c in zip(names, chosen, strict=True)]
    how = f"study {named.name}: " + " against ".join(words)
    rows = _test_rows(frame, [c.setting for c in chosen], metric)
    if len(chosen) == 1:
        return Measured(chosen[0].test, rows, how)
    pair = compare(*chosen)
    if pair is None:
        return None
    return Measured(pair.interval, rows[rows["seed"].isin(pair.seeds)], how)


def over_studies(rule: Ours) -> Everywhere | None:
    """Apply a rule over studies; ``None`` while none of them is finished.

    Each study is judged by :func:`.decide.decide`, as one of the five primary contrasts of its
    measure, with ``least`` as the margin. Each interval is hence at 99 %, and with up to five
    studies all of them hold their true differences with a probability of at least 95 %, so that
    one counterexample of several is not one of chance.

    *better-everywhere*: a study that says *better* bears the claim out; *worse* or *equivalent* is
    a counterexample. *nowhere-better*: a study that says *worse*, *equivalent* or *better, by less
    than* the margin bears it out; *better* is a counterexample. The claim needs all studies and
    falls to one; *undecided* neither bears out nor refutes.

    Raises:
        ConfigError: for an unknown study or a method that it does not have.
    """
    assert rule.least is not None  # a valid rule over studies has it
    metric = rule.where["metric"]
    judged = []
    for comparison in rule.studies:
        named = study(comparison.study)
        frame = study_frame(named)
        row, rows = _judged(named, frame, comparison, metric, rule.least)
        if row is None:
            continue
        text = f"{named.name} {_difference(row)}"
        for part in rule.also:
            beside, _ = _judged(named, frame, comparison, part.metric, rule.least)
            if beside is not None:
                text += f" ({part.words} {_difference(beside)})"
        judged.append((named, row, rows, text))
    if not judged:
        return None
    # One setting against itself can detect nothing.
    detectable = [float(row["detectable"]) for _, row, _, _ in judged]
    return Everywhere(
        together(_answer(rule.rule, str(row["word"])) for _, row, _, _ in judged),
        "; ".join(text for *_, text in judged),
        pd.concat([rows for _, _, rows, _ in judged]),
        tuple(dict.fromkeys(named.profile for named, *_ in judged)),
        tuple(int(row["seeds"]) for _, row, _, _ in judged),
        max((d for d in detectable if not math.isnan(d)), default=math.nan),
    )


def _judged(
    named: Study, frame: pd.DataFrame, comparison: Comparison, metric: str, margin: float
) -> tuple[pd.Series | None, pd.DataFrame]:
    """The rule's row for one comparison, ``None`` until its runs are there; and their rows."""
    table = seed_table(named, frame, metric)
    names = (comparison.method, comparison.against)
    for name in names:
        labels = _settings(named, name)
        if len(labels) == 1:
            continue
        found = choose(frame, labels, metric)
        if found is None:
            return None, frame.iloc[:0]
        own = [
            {"method": name, "setting": found.setting, "seed": seed, "accuracy": value}
            for seed, value in found.by_seed.items()
        ]
        table = pd.concat([table, pd.DataFrame(own)], ignore_index=True)
    if table.empty:
        return None, frame.iloc[:0]
    # Of the other four contrasts only their number matters for the interval.
    family = [Contrast("this comparison", *names), *PRIMARY_CONTRASTS[1:]]
    rule = replace(decide.RULE, margin=margin)
    row = decide.decide(table, family, rule=rule, seeds=named.seeds).iloc[0]
    if row["word"] in WAITING:
        return None, frame.iloc[:0]
    used = table.loc[table["method"].isin(names), "setting"]
    return row, _test_rows(frame, used, metric)


def _test_rows(frame: pd.DataFrame, settings: Iterable[str], metric: str) -> pd.DataFrame:
    """A study's test results of some settings in one metric."""
    own = frame["setting"].isin(list(settings))
    return frame[own & (frame["metric"] == metric) & (frame["split"] == "test")]


def _answer(rule: str, word: str) -> Outcome:
    """What one study's word means for the claim."""
    if word == decide.UNDECIDED:
        return "undecided"
    better = word.startswith("better")
    if rule == "better-everywhere":
        return "yes" if better else "no"
    return "no" if word == "better" else "yes"


def _difference(row: pd.Series) -> str:
    """``+0.98 [+0.21, +1.75] better``, or the word alone for one setting against itself."""
    return decide.as_text({**row, "contrast": ""}).removeprefix(": ").replace("], ", "] ")


def _settings(named: Study, method: str) -> list[str]:
    """The settings of a study's method."""
    if method not in named.methods:
        known = ", ".join(named.methods)
        raise ConfigError(f"study {named.name} has no method {method!r}; it has {known}")
    return [setting.label for setting in named.methods[method]]


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
