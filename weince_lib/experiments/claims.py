"""The paper's claims and what our records say about each: ``paper/claims.toml`` in, verdicts out.

A claim is decided by a rule over rows of ``paper/results/``. A verdict is about the data set,
encoder and seeds it names, never about more.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd
from pydantic import BaseModel, ConfigDict

from ..evaluation import Interval
from . import paths
from .cells import paper_cells
from .claim_rules import Measured, Ours, measure, measure_study, outcome, seeds_needed
from .collect import load_reported, load_results
from .config import PROFILES, ConfigError, parse
from .grid import STUDIES

#: ``"holds"``: borne out in the generality it claims. ``"holds here with limits"``: borne out on
#: less than it speaks of. ``"does not hold here"``: our numbers say otherwise, or rule out an
#: effect of the size that would count. ``"not testable here"``: out of our reach, or our interval
#: allows both answers; the decision says what it would take. ``"open"``: no record yet.
Verdict = Literal[
    "holds", "holds here with limits", "does not hold here", "not testable here", "open"
]
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
        limits: what the verdict does not reach to, for one that holds with limits.
        needs: what a decision would take, for a claim that is not testable here.
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
        profile: look at this profile's results only; by default the strongest that has any.
    """
    tables = {name: load_results(name) for name in ([profile] if profile else STRENGTH)}
    reported = load_reported()
    return [decide(claim, tables, reported) for claim in load_claims()]


def decide(claim: Claim, tables: dict[str, pd.DataFrame], reported: pd.DataFrame) -> Decision:
    """Decide one claim from result tables given by profile, strongest first.

    A rule over a study reads the study's own table, if its profile is among ``tables``.
    """
    paper = paper_value(claim, reported)
    found = _evidence(claim.ours, tables) if claim.ours else None
    if claim.ours is None or found is None:
        if claim.needs:
            return Decision(claim, "not testable here", paper, needs=claim.needs)
        return Decision(claim, "open", paper)
    profile, measured = found
    rule, interval = claim.ours, measured.interval
    evidence = describe(profile, measured.rows)
    limits = rule.limits or _limits(profile, measured.rows)
    verdict: Verdict
    answer = outcome(rule, interval)
    if answer == "yes":
        verdict = "holds here with limits" if limits else "holds"
    else:
        verdict = "does not hold here" if answer == "no" else "not testable here"
    return Decision(
        claim,
        verdict,
        paper,
        f"{rule.quantity}: {format_interval(interval)}",
        evidence + (f"; {measured.how}" if measured.how else ""),
        tuple(dict.fromkeys(measured.rows["key"])),
        limits if verdict == "holds here with limits" else "",
        (claim.needs or _narrower(rule, interval)) if verdict == "not testable here" else "",
    )


def _evidence(rule: Ours, tables: dict[str, pd.DataFrame]) -> tuple[str, Measured] | None:
    """The profile and the number of the strongest evidence there is."""
    if "study" in rule.where:
        name = rule.where["study"]
        profile = STUDIES[name].profile if name in STUDIES else name.partition("-")[0]
        measured = measure_study(rule) if profile in tables else None
        return (profile, measured) if measured else None
    for profile, table in tables.items():
        measured = measure(rule, table)
        if measured is not None:
            return profile, measured
    return None


def _limits(profile: str, rows: pd.DataFrame) -> str:
    """Of rows from an encoder that is none of the paper's; empty for the paper's and for checks."""
    cells = {(str(d), str(e)) for d, e in zip(rows["dataset"], rows["encoder"], strict=True)}
    cells -= {("", ""), ("nan", "nan")}
    if not cells or (profile == "paper" and cells <= set(paper_cells())):
        return ""
    seen = " and ".join(f"{d} with {e}" for d, e in sorted(cells))
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
