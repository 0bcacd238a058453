"""The paper's claims and what our records say about each: ``paper/claims.toml`` in, verdicts out.

A claim is decided by a rule over rows of ``paper/results/``. A verdict is about the data set,
encoder and seeds it names, never about more.
"""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd
from pydantic import BaseModel, ConfigDict

from .. import paths
from ..evaluation import Interval
from ..runs.config import PROFILES, ConfigError, parse
from ..studies.collect import load_reported, load_results
from ..studies.grid import paper_cells, study
from ..vision.datasets import title
from .claim_rules import (
    Everywhere,
    Measured,
    Ours,
    Outcome,
    measure,
    measure_study,
    outcome,
    over_studies,
    seeds_needed,
    together,
)

#: ``"theorem, checked on examples"``: a mathematical statement that our examples bear out.
#: ``"measured here"``: borne out as far as the claim goes; ``"measured here, with limits"``: on
#: less than it speaks of. ``"does not hold here"``: our numbers say otherwise, or rule out an
#: effect of the size that would count. ``"undecided here"``: our interval allows both answers, or
#: the claim cannot fail as it stands. ``"needs a GPU"``: out of two cores' reach. For these two the
#: decision says what it would take. ``"description"``: a definition or a procedure of the paper;
#: what we compute checks our own code. ``"open"``: no record yet.
Verdict = Literal[
    "theorem, checked on examples",
    "measured here",
    "measured here, with limits",
    "does not hold here",
    "undecided here",
    "needs a GPU",
    "description",
    "open",
]
#: Of claims, see the head of ``paper/claims.toml``.
Kind = Literal["theorem", "measurement", "description"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: Profiles from strongest to weakest evidence; a claim takes the first that has its rows.
STRENGTH = ("paper", "gpu", "cpu", "colab", "quick")
assert set(STRENGTH) == set(PROFILES)


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
    needs: str = ""
    kind: Kind = "measurement"
    gpu: bool = False


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
        limits: what the verdict does not reach to; there for every claim that is measured with
            limits, and for others if the rule names them.
        needs: what a decision would take, for a claim that is undecided or needs a GPU.
    """

    claim: Claim
    verdict: Verdict
    paper: str = ""
    ours: str = ""
    evidence: str = ""
    records: tuple[str, ...] = ()
    limits: str = ""
    needs: str = ""


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
        profile: look at this profile's table only; by default the strongest that has any. The
            studies' tables are read in any case.
    """
    tables = {name: load_results(name) for name in ([profile] if profile else STRENGTH)}
    reported = load_reported()
    return [decide(claim, tables, reported) for claim in load_claims()]


def full_list(decisions: Sequence[Decision]) -> Iterator[str]:
    """Every claim with all that is known of it, as lines at most 96 columns wide.

    A claim's first line begins with its verdict, what follows is indented; the last line counts.
    """
    for d in decisions:
        yield f"{d.verdict:<28} {d.claim.label}: {d.claim.id}"
        for label, text in (
            ("claim", d.claim.statement),
            ("paper", d.paper),
            ("ours", f"{d.ours}   ({d.evidence})" if d.ours else ""),
            ("limits", d.limits),
            ("needs", d.needs),
            ("doubt", d.claim.doubt),
            ("records", ", ".join(d.records)),
            ("notebook", d.claim.notebook),
        ):
            yield from textwrap.wrap(
                text, 96, initial_indent=f"  {label:<9}", subsequent_indent=" " * 11
            )
    counts = {v: sum(d.verdict == v for d in decisions) for v in VERDICTS}
    found = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    yield f"{len(decisions)} claims: {found}"


def decide(claim: Claim, tables: dict[str, pd.DataFrame], reported: pd.DataFrame) -> Decision:
    """Decide one claim from result tables given by profile, strongest first.

    A rule over a study reads the study's own table.
    """
    paper = paper_value(claim, reported)
    rule = claim.ours
    if rule is not None and rule.studies:
        everywhere = over_studies(rule)
        if everywhere is not None:
            return _decided(
                claim,
                paper,
                everywhere.outcome,
                " and ".join(everywhere.profiles),
                everywhere.rows,
                everywhere.text,
                needs=claim.needs or _more_seeds(everywhere),
                counts=everywhere.seeds,
            )
    found = _evidence(rule, tables) if rule else None
    if rule is None or found is None:
        if claim.needs:
            lacking: Verdict = "needs a GPU" if claim.gpu else "undecided here"
            lacking = "description" if claim.kind == "description" else lacking
            return Decision(claim, lacking, paper, needs=claim.needs)
        return Decision(claim, "open", paper)
    profile, measured = found
    answers = [outcome(rule, measured.interval)]
    numbers = [format_interval(measured.interval)]
    for part in rule.also:
        own = rule.part(part)
        beside = _beside(own, profile, tables)
        if beside is not None:
            numbers.append(f"{part.words} {format_interval(beside.interval)}")
        if part.rule is not None:
            answers.append("undecided" if beside is None else outcome(own, beside.interval))
    return _decided(
        claim,
        paper,
        together(answers),
        profile,
        measured.rows,
        "; ".join(numbers),
        needs=claim.needs or _narrower(rule, measured.interval),
        how=measured.how,
    )


def _decided(
    claim: Claim,
    paper: str,
    answer: Outcome,
    profile: str,
    rows: pd.DataFrame,
    numbers: str,
    *,
    needs: str,
    how: str = "",
    counts: Sequence[int] = (),
) -> Decision:
    """The decision that follows from a rule's answer."""
    assert claim.ours is not None
    limits = claim.ours.limits
    verdict: Verdict = "undecided here" if answer == "undecided" else "does not hold here"
    if answer == "yes" and claim.kind == "theorem":
        verdict = "theorem, checked on examples"
    elif answer == "yes" and claim.kind == "description":
        verdict = "description"
    elif answer == "yes":
        limits = limits or _limits(profile, rows)
        verdict = "measured here, with limits" if limits else "measured here"
    return Decision(
        claim,
        verdict,
        paper,
        f"{claim.ours.quantity}: {numbers}",
        describe(profile, rows, counts) + (f"; {how}" if how else ""),
        tuple(dict.fromkeys(rows["key"])),
        limits,
        needs if verdict == "undecided here" else "",
    )


def _evidence(rule: Ours, tables: dict[str, pd.DataFrame]) -> tuple[str, Measured] | None:
    """The profile and the number of the strongest evidence there is."""
    if rule.studies:
        return None
    if "study" in rule.where:
        measured = measure_study(rule)
        return (study(rule.where["study"]).profile, measured) if measured else None
    for profile, table in tables.items():
        measured = measure(rule, table)
        if measured is not None:
            return profile, measured
    return None


def _beside(rule: Ours, profile: str, tables: dict[str, pd.DataFrame]) -> Measured | None:
    """A further number of a claim: its study's, or the profile's, or the strongest there is."""
    if "study" in rule.where:
        return measure_study(rule)
    own = {name: table for name, table in tables.items() if name == profile}
    found = (measure(rule, table) for table in (*own.values(), *tables.values()))
    return next((one for one in found if one is not None), None)


def _limits(profile: str, rows: pd.DataFrame) -> str:
    """Of rows from an encoder that is none of the paper's; empty for the paper's and for checks."""
    cells = {(str(d), str(e)) for d, e in zip(rows["dataset"], rows["encoder"], strict=True)}
    cells -= {("", ""), ("nan", "nan")}
    if not cells or (profile == "paper" and cells <= set(paper_cells())):
        return ""
    seen = " and ".join(f"{_named(d)} with {e}" for d, e in sorted(cells))
    return f"{seen}, not the paper's data sets and encoders"


def _narrower(rule: Ours, interval: Interval) -> str:
    """What an interval that allows both answers lacks."""
    if math.isnan(interval.low):
        return "more than one encoder seed, so that there is an interval"
    text = f"an interval that lies on one side of {rule.value:g}; ours allows both answers"
    seeds = None if rule.least is None else seeds_needed(interval, rule.least - rule.value)
    if not seeds:
        return text
    return f"{text}. At this spread {seeds} seeds would see {rule.least:g} with 80 % probability"


def _more_seeds(everywhere: Everywhere) -> str:
    """What studies that could not tell lack."""
    text = "a counterexample, or studies that can all tell"
    if math.isnan(everywhere.detectable):
        return text
    seen = f"{everywhere.detectable:.1f} points"
    return f"{text}; the least precise of these sees {seen} with 80 % probability"


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


def describe(profile: str, rows: pd.DataFrame, counts: Sequence[int] = ()) -> str:
    """What a number rests on: profile, data set, encoder, seeds.

    Args:
        profile: whose results.
        rows: behind the number.
        counts: of encoder seeds, a study each; by default those of the rows together.
    """
    words = [profile]
    for column in ("dataset", "encoder"):
        words += [_named(str(v)) for v in dict.fromkeys(rows[column].dropna()) if v]
    seeds = sorted({*counts} or {rows["seed"].dropna().nunique()})
    said = " or ".join(map(str, seeds))
    words.append(
        f"{said} encoder seed{'s' if seeds != [1] else ''}" if any(seeds) else "computed in place"
    )
    return ", ".join(words)


def _named(source: str) -> str:
    """A data set or encoder as a reader knows it: an image folder by its title, not its path."""
    return title(source) if source.startswith("imagefolder:") else source


def format_interval(interval: Interval) -> str:
    """``mean [low, high]`` with as many digits as the interval supports."""
    if not interval.high > interval.low:
        return f"{interval.mean:.3g}"
    # Two digits of the interval's width: 0.0021 [0.0012, 0.0030], 76.54 [76.22, 76.86]; at most six
    # decimals, and no minus before zeros.
    digits = min(6, max(2, 1 - math.floor(math.log10(interval.high - interval.low))))
    mean, low, high = (
        f"{round(x, digits) + 0.0:.{digits}f}" for x in (interval.mean, interval.low, interval.high)
    )
    return f"{mean} [{low}, {high}]"
