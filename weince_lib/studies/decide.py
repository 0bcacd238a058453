"""What a study decides: a few contrasts named before its first run, one rule, four words.

The rule, in full:

1. *Model.* Each measure is fitted by :func:`~weince_lib.evaluation.fit_blocks`: a seed effect, a
   setting effect, an error. All settings of the table are in it, each once.
2. *Variance.* Bartlett's test asks whether the residuals of all settings have one variance. If it
   does not reject at 10 %, every contrast has the error and the degrees of freedom of the model. If
   it rejects, or there are too few seeds to ask, no contrast of that measure has: each gets the
   paired t-interval of its own two settings. The column ``variance`` says which. The test is weak,
   hence 10 %: of six settings with eight seeds, one with twice the deviation of the others is found
   in 45 % of studies, and one with three times in 83 %. The probability of a false finding among
   five contrasts is then 7 and 6 % instead of 5 (simulated).
3. *Adjustment.* The primary contrasts of a measure are one family. Its intervals are Bonferroni's,
   at 95 % for all together: with five contrasts each one is at 99 %. A multivariate t interval,
   exact for correlated contrasts, would be 2 % shorter for five contrasts, six settings and eight
   seeds; Holm's p-values would reject more but come without intervals. The size of the family is
   the number of contrasts asked for, also where one of them turns out to be none.
4. *Words*, from that one interval and the margin (0.97 points by default):

   - *better*, or *worse*: the interval lies above, or below, 0. Where it also lies inside plus or
     minus the margin, the difference is there and small: *better, by less than 0.97*.
   - *equivalent within 0.97*: it holds 0 and lies inside plus or minus the margin. The usual test
     of equivalence (TOST) would take a 90 % interval. This one is stricter, so that a single
     interval is shown and every word follows from it.
   - *undecided*: it holds 0 and reaches beyond the margin.

   Where the model holds, all intervals of a measure hold their true differences together with a
   probability of at least 95 %, so that of any wrong word is at most 5 %.

With six settings and eight seeds a true difference of 1.8 residual standard deviations is seen with
a probability of 80 %.

The two primary measures are two families: both are always shown. The secondary measures stand
beside them by the same rule and decide nothing.

*Beyond the blend.* The studies of :mod:`.grid_beyond` ask whether a loss with nothing to tune is as
good as a tuned one. Model and variance are those above; :data:`BEYOND` has a margin of 0.5 points
and Holm's adjustment in place of Bonferroni's (3) and its words (4). The family are the finalists,
each against the tuned InfoNCE.

- *better*, or *worse*: the two-sided p against 0, adjusted by Holm over the family, is below 5 %.
- *equivalent within 0.5*: it is not, and two one-sided tests place the difference inside plus or
  minus 0.5; the larger of their p-values, adjusted by Holm over the family, is below 5 %.
- *better* or *worse, by less than 0.5*: both are below 5 %.
- *undecided*: neither is.

*Elsewhere.* Whether a finalist keeps up where it was not chosen is judged over six studies
together, see :func:`decide_elsewhere`.

A difference of 0 is called better or worse anywhere in the family with a probability of at most 5
%; so is one of 0.5 or more called less than 0.5. Intervals are still Bonferroni's, as Holm's tests
come without any: where one holds 0 beside the word *better*, it was Holm that rejected.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ..evaluation import BlockModel, detectable_effect, fit_blocks, paired_image_error
from ..evaluation.precision import POWER
from ..runs.config import ConfigError
from ..runs.vision import STANDARDISED
from .grid import Study
from .grid_beyond import BETS
from .selection import choose, seed_table


@dataclass(frozen=True)
class Contrast:
    """A difference a - b between two methods; ``name`` says what is changed from b to a."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Rule:
    """The numbers of the rule in the module's text.

    Attributes:
        level: of all contrasts of a measure together.
        margin: differences below it, in percentage points, do not matter; 0.97 is the smallest gain
            in linear accuracy that the paper reports (Table 2).
        variance_level: of the test of a common variance; why 0.1, see there.
        holm: words by Holm's adjusted tests in place of Bonferroni's intervals.
    """

    level: float = 0.05
    margin: float = 0.97
    variance_level: float = 0.10
    holm: bool = False

    def __post_init__(self) -> None:
        for name in ("level", "variance_level"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie in (0, 1), got {getattr(self, name)}")
        if not self.margin > 0.0:
            raise ValueError(f"margin must be above 0, got {self.margin}")


#: The rule as studies use it.
RULE = Rule()
#: The rule of the studies beyond the blend, see the module's text.
BEYOND = Rule(margin=0.5, holm=True)
#: The questions of the paper's comparison, one factor each. Tuned methods have the setting that
#: validation chose, from grids of equal size, on seeds that are not those of the decision.
PRIMARY_CONTRASTS: tuple[Contrast, ...] = (
    Contrast("lower temperature", "infonce-tuned", "infonce-0.5"),
    Contrast("blend, at the same temperature", "weince-0.5", "infonce-0.5"),
    Contrast("blend, each tuned on validation", "weince-tuned", "infonce-tuned"),
    Contrast("both further losses", "infonce+both", "infonce-0.5"),
    Contrast("own λ, not shuffled", "weince-0.5", "weince-shuffled"),
)
#: What else the committed studies compare. These contrasts were chosen after the first results, so
#: they are a second family: they point at what to try next and decide nothing.
FURTHER_CONTRASTS: tuple[Contrast, ...] = (
    Contrast("blend, at τ = 0.2", "weince-0.2", "infonce-0.2"),
    Contrast("blend, at τ = 0.1", "weince-0.1", "infonce-0.1"),
    Contrast("blend, steepness chosen on validation", "weince-steepness", "infonce-0.5"),
    Contrast("blend of the release (β = 1)", "weince-release", "infonce-0.5"),
    Contrast("calibrated blend", "weince-calibrated", "infonce-0.5"),
    Contrast("blend, with both further losses", "weince+both", "infonce+both"),
    Contrast("blend of the release, with both further losses", "released", "infonce+both"),
    Contrast("own λ, not the mean", "weince-0.5", "weince-mean"),
    Contrast("softmax over 50", "infonce+softmax50", "infonce-0.5"),
    Contrast("Weibit over 50", "infonce+weibit50", "infonce-0.5"),
    Contrast("blend at τ = 0.5, not a tuned temperature", "weince-0.5", "infonce-tuned"),
    Contrast("both further losses, not a tuned temperature", "infonce+both", "infonce-tuned"),
    Contrast("endpoint link, β = 1, not a tuned temperature", "weibit-1", "infonce-tuned"),
    Contrast("endpoint link, β = 2, not a tuned temperature", "weibit-2", "infonce-tuned"),
    Contrast("endpoint link, β = 4, not a tuned temperature", "weibit-4", "infonce-tuned"),
    Contrast("endpoint link, Hill's β, not a tuned temperature", "weibit-hill", "infonce-tuned"),
)
#: The linear probe that converges, and the nearest neighbour, which nothing is trained for.
PRIMARY_MEASURES = (STANDARDISED, "recall_at_1")
#: The paper's probe and its kNN.
SECONDARY_MEASURES = ("linear_accuracy", "knn_accuracy")

#: Words of a contrast without a decision.
SAME, NOT_RUN, ONE_SEED, NO_SPREAD = "same setting", "not run", "one seed", "no spread"
NOT_FINISHED, UNDECIDED = "not finished", "undecided"
#: Columns of :func:`decide`.
COLUMNS = (
    "contrast",
    "a",
    "b",
    "mean_a",
    "mean_b",
    "difference",
    "error",
    "df",
    "low",
    "high",
    "word",
    "p",
    "p_adjusted",
    "low_alone",
    "high_alone",
    "seeds",
    "detectable",
    "variance",
    "deviation",
    "equal_variance_p",
    "image_error",
)


def word(low: float, high: float, margin: float) -> str:
    """The word that follows from a simultaneous interval, see the module's text.

    Returns:
        ``better``, ``worse`` (either perhaps with ``, by less than <margin>``), ``equivalent
        within <margin>`` or ``undecided``, which is also the word for NaN.
    """
    if math.isnan(low) or math.isnan(high):
        return UNDECIDED
    inside = -margin < low and high < margin
    if low > 0.0 or high < 0.0:
        direction = "better" if low > 0.0 else "worse"
        return f"{direction}, by less than {margin:g}" if inside else direction
    return f"equivalent within {margin:g}" if inside else UNDECIDED


def decide(
    table: pd.DataFrame,
    contrasts: Sequence[Contrast] = PRIMARY_CONTRASTS,
    *,
    rule: Rule = RULE,
    seeds: Collection[int] = (),
    images: int = 0,
) -> pd.DataFrame:
    """Apply the rule to one measure.

    Args:
        table: one row a method and encoder seed, with columns ``method, seed, accuracy`` (in
            percent), such as :func:`.selection.seed_table` makes. With a column ``setting``,
            methods of the same setting count as one.
        contrasts: the family.
        rule: its numbers.
        seeds: the seeds the study planned; a contrast that lacks one of them is ``not finished``,
            since a word given before the end would be one of several chances. None: no plan.
        images: of the test set, for ``image_error``; 0 leaves it open.

    Returns:
        One row a contrast, in order, with :data:`COLUMNS`:

        - ``mean_a, mean_b``: means over the seeds both have; ``difference, error, df``: of the
          model, or of the pair where ``variance`` is ``own``; in percentage points.
        - ``low, high``: the simultaneous interval; ``word``: what follows from it. ``same setting``
          where both methods are one setting: the difference is 0 and needs no test. ``not run``,
          ``not finished``, ``one seed`` or ``no spread`` (all values equal) where there is no
          interval to go by.
        - ``p``: two-sided, unadjusted; ``p_adjusted``: times the number of contrasts, below the
          level exactly where the interval excludes 0. ``low_alone, high_alone``: the interval at 95
          % for this contrast alone.
        - ``seeds``: that both have. ``detectable``: the true difference that would be seen with
          a probability of 80 %, given this error and adjustment.
        - ``deviation``: the model's residual standard deviation; ``equal_variance_p``: Bartlett's.
        - ``image_error``: the most that the choice of test images can add to the standard error,
          see :func:`~weince_lib.evaluation.paired_image_error`; not part of the interval.
        - of a rule with ``holm``, ``p_adjusted`` is Holm's, and a last column ``p_equivalent``
          holds the adjusted p of the two one-sided tests.

    Raises:
        ValueError: for no contrasts, a value that is not finite, or two rows of one method and
            seed.
    """
    if not contrasts:
        raise ValueError("no contrasts to decide")
    repeated = table[table.duplicated(["method", "seed"])]
    if len(repeated):
        first = repeated.iloc[0]
        raise ValueError(
            f"method {first['method']!r}, seed {first['seed']}: two rows; average replicates first"
        )
    label = {str(m): str(m) for m in table["method"]}
    if "setting" in table:
        label |= {str(m): str(s) for m, s in zip(table["method"], table["setting"], strict=True)}
    values: dict[str, dict[int, float]] = {}
    for method, own in table.groupby("method", sort=False):
        setting = values.setdefault(label[str(method)], {})
        setting |= {int(s): float(v) for s, v in zip(own["seed"], own["accuracy"], strict=True)}
    model = fit_blocks(values) if values else None
    rows = [
        _row(c, model, label, len(contrasts), rule, frozenset(seeds), images) for c in contrasts
    ]
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    return _by_holm(found, rule) if rule.holm else found


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of one family, in the order given.

    A test that could not be made (NaN) stays NaN and counts in the size of the family, which was
    fixed beforehand.
    """
    adjusted = [math.nan] * len(p)
    highest = 0.0
    made = [i for i, value in enumerate(p) if not math.isnan(value)]
    for rank, i in enumerate(sorted(made, key=lambda i: p[i])):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return adjusted


def _by_holm(found: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """The family with Holm's p-values, and the words that follow from them."""
    distance = (rule.margin - found["difference"].abs()) / found["error"]
    one_sided = stats.t.sf(distance.astype(float), found["df"].astype(float))
    equivalent = np.where(found["p"].isna(), math.nan, one_sided)
    found = found.assign(
        p_adjusted=holm(found["p"].tolist()), p_equivalent=holm(equivalent.tolist())
    )
    found["word"] = [_holm_word(row, rule) for row in found.to_dict("records")]
    return found


def _holm_word(row: Mapping[Any, Any], rule: Rule) -> str:
    """The word of a contrast that was tested; another keeps its own."""
    if math.isnan(row["p"]) or row["word"] == NOT_FINISHED:
        return str(row["word"])
    inside = row["p_equivalent"] < rule.level
    if row["p_adjusted"] < rule.level:
        direction = "better" if row["difference"] > 0.0 else "worse"
        return f"{direction}, by less than {rule.margin:g}" if inside else direction
    return f"equivalent within {rule.margin:g}" if inside else UNDECIDED


def decide_beyond(study: Study, frame: pd.DataFrame, *, images: int = 0) -> pd.DataFrame:
    """Apply :data:`BEYOND` to a decision of :mod:`.grid_beyond`.

    Args:
        study: its finalists are the first methods of ``compare`` that have a setting.
        frame: its rows, see :func:`.selection.study_frame`.
        images: of the test set; 0 leaves ``image_error`` open.

    Returns:
        The rows of :func:`decide_study` after one column more: ``family``, the method that the
        finalists are compared with. The first family decides; the others stand beside it.

    Raises:
        ConfigError: for a study without finalists.
    """
    families: dict[str, list[Contrast]] = {}
    for a, b in study.compare:
        if study.methods[a] and study.methods[b]:
            name = f"{study.title(a)}, not {study.title(b)}"
            families.setdefault(b if a in BETS else f"{a}, {b}", []).append(Contrast(name, a, b))
    if not any(name in study.methods and study.methods[name] for name in BETS):
        raise ConfigError(f"study {study.name} has no finalists: no bet has passed the gate yet")
    parts = []
    for family, contrasts in families.items():
        found = decide_study(study, frame, contrasts, rule=BEYOND, images=images)
        found.insert(0, "family", family)
        parts.append(found)
    return pd.concat(parts, ignore_index=True)


def decide_elsewhere(studies: Sequence[Study], frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Judge each finalist by its mean difference over studies with seeds of their own.

    Each study gives one difference a seed; a method with several settings stands at the one that
    validation chose there. The variance is pooled within studies.

    Args:
        studies: of the same methods and comparisons, with different seeds.
        frames: the rows of each, see :func:`.selection.study_frame`.

    Returns:
        One row a measure and a comparison whose methods have settings: ``metric, a, b,
        difference, error, df, low, high, word``, in points, and ``by_study``, the mean difference
        in each. ``not finished`` where a study lacks a seed.
    """
    rows: list[dict[str, Any]] = []
    chosen = [tuned(s, f, PRIMARY_MEASURES[0]) for s, f in zip(studies, frames, strict=True)]
    for metric in PRIMARY_MEASURES:
        tables = [
            seed_table(*parts[:2], metric, parts[2])
            for parts in zip(studies, frames, chosen, strict=True)
        ]
        for a, b in studies[0].compare:
            if not (studies[0].methods[a] and studies[0].methods[b]):
                continue
            row: dict[str, Any] = {"metric": metric, "a": a, "b": b}
            found = [_differences(table, a, b) for table in tables]
            if any(len(d) < len(s.seeds) for d, s in zip(found, studies, strict=True)):
                rows.append(row | {"word": NOT_FINISHED})
                continue
            counts = np.array([len(d) for d in found])
            df = int((counts - 1).sum())
            variance = sum(float(((d - d.mean()) ** 2).sum()) for d in found) / df
            mean = float(np.mean([d.mean() for d in found]))
            error = math.sqrt(variance * float((1.0 / counts).sum())) / len(found)
            half = float(stats.t.ppf(1.0 - BEYOND.level / 2.0, df)) * error
            row |= {"difference": mean, "error": error, "df": df}
            row |= {"low": mean - half, "high": mean + half}
            row["word"] = word(row["low"], row["high"], BEYOND.margin)
            row["by_study"] = {s.name: float(d.mean()) for s, d in zip(studies, found, strict=True)}
            rows.append(row)
    return pd.DataFrame(rows)


def _differences(table: pd.DataFrame, a: str, b: str) -> pd.Series:
    """The differences a - b of one measure, at the seeds that both have."""
    values = table.pivot(index="seed", columns="method", values="accuracy")
    if not {a, b} <= set(values):
        return pd.Series(dtype=float)
    return (values[a] - values[b]).dropna()


def decide_study(
    study: Study,
    frame: pd.DataFrame,
    contrasts: Sequence[Contrast] = PRIMARY_CONTRASTS,
    *,
    rule: Rule = RULE,
    images: int = 0,
    primary: Sequence[str] = PRIMARY_MEASURES,
    secondary: Sequence[str] = SECONDARY_MEASURES,
) -> pd.DataFrame:
    """Apply the rule to every measure of a study that its rows have.

    Args:
        study: gives methods and seeds. A method with a choice of settings stands at the one that
            validation chooses by the first primary measure, the same for all measures, see
            :func:`tuned`.
        frame: its rows, see :func:`.selection.study_frame`.
        contrasts: the family, the same for every measure.
        rule: its numbers.
        images: of the test set; 0 leaves ``image_error`` open.
        primary: measures that decide.
        secondary: measures that stand beside them.

    Returns:
        The rows of :func:`decide` for each measure, after two columns more: ``metric``, and
        ``role``, ``primary`` or ``secondary``.
    """
    parts = [pd.DataFrame(columns=["metric", "role", *COLUMNS])]
    chosen = tuned(study, frame, primary[0])
    for metric in (*primary, *secondary):
        table = seed_table(study, frame, metric, chosen)
        if len(table):
            found = decide(table, contrasts, rule=rule, seeds=study.seeds, images=images)
            found.insert(0, "role", "primary" if metric in primary else "secondary")
            found.insert(0, "metric", metric)
            parts.append(found)
    return pd.concat(parts[1:] or parts, ignore_index=True)


def tuned(study: Study, frame: pd.DataFrame, metric: str = STANDARDISED) -> dict[str, str]:
    """The setting that validation chooses for each method that has several, by one metric."""
    several = {m: settings for m, settings in study.methods.items() if len(settings) > 1}
    chosen = {m: choose(frame, [s.label for s in own], metric) for m, own in several.items()}
    return {method: c.setting for method, c in chosen.items() if c is not None}


def as_text(row: Mapping[Any, Any]) -> str:
    """A contrast in one line, such as ``lower temperature: +0.98 [+0.21, +1.75], better``."""
    return f"{row['contrast']}: {finding(row)}"


def finding(row: Mapping[Any, Any]) -> str:
    """A row of :func:`decide` without the contrast's name: ``+0.98 [+0.21, +1.75], better``.

    An end that would be rounded to 0, and so show no side, has as many digits as it takes.
    """
    if pd.isna(row["low"]):
        return str(row["word"])
    digits = 2
    while digits < 6 and any(abs(row[end]) < 0.5 * 10.0**-digits for end in ("low", "high")):
        digits += 1
    values = (f"{row[name]:+.{digits}f}" for name in ("difference", "low", "high"))
    return "{} [{}, {}], {}".format(*values, row["word"])


def _row(
    contrast: Contrast,
    model: BlockModel | None,
    label: Mapping[str, str],
    tests: int,
    rule: Rule,
    planned: frozenset[int],
    images: int,
) -> dict[str, Any]:
    """One contrast's row; columns that do not apply are left out, which makes them NaN."""
    row: dict[str, Any] = {"contrast": contrast.name, "a": contrast.a, "b": contrast.b, "seeds": 0}
    row["variance"] = ""
    a, b = label.get(contrast.a), label.get(contrast.b)
    if model is None or a is None or b is None:
        return row | {"word": NOT_RUN}
    shared = model.values[a].keys() & model.values[b].keys()
    if not shared:
        return row | {"word": NOT_RUN}
    row["seeds"] = len(shared)
    for side, name in (("mean_a", a), ("mean_b", b)):
        row[side] = sum(model.values[name][s] for s in shared) / len(shared)
    row |= {"deviation": model.deviation, "equal_variance_p": model.equal_variance_p}
    if a == b:
        return row | {"difference": 0.0, "word": SAME}
    common = model.equal_variance_p >= rule.variance_level  # False for NaN
    found = model.contrast(a, b) if common else model.paired(a, b)
    row |= {"variance": "common" if common else "own", "difference": found.mean}
    row |= {"error": found.error, "df": found.df}
    if images:
        row["image_error"] = paired_image_error(row["mean_a"], row["mean_b"], images)[1]
    if found.df < 1:
        return row | {"word": ONE_SEED}
    if not found.error > 0.0:
        return row | {"word": NO_SPREAD}
    low, high = found.interval(rule.level, tests)
    row |= {"low": low, "high": high, "word": word(low, high, rule.margin)}
    row["low_alone"], row["high_alone"] = found.interval(rule.level)
    row |= {"p": found.p_value(), "p_adjusted": found.p_value(tests)}
    row["detectable"] = detectable_effect(
        found.error, found.df, tests=tests, level=rule.level, power=POWER
    )
    return row if planned <= shared else row | {"word": NOT_FINISHED}
