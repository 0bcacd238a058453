"""What the studies found, in one table and in words: for notebook 12, README, PDF and the screen.

All of them print :func:`decisions`, which is the rule of :mod:`.decide` for every study that has
rows, or text made from it. Every number is read from a table when it is printed.

    python -m weince_lib.publish.findings

prints the README's table. The screen of ``weince findings``, which ends ``make reproduce``, shows
also what was measured here (``retrained.csv``) and the verdicts on the paper's claims.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .. import files, paths
from ..studies import registered, retrained, text_tables
from ..studies.decide import (
    COLUMNS,
    NOT_RUN,
    PRIMARY_CONTRASTS,
    PRIMARY_MEASURES,
    SECONDARY_MEASURES,
    Contrast,
    decide_study,
    finding,
    tuned,
)
from ..studies.floors import KINDS, floor_table
from ..studies.grid import STUDIES, Study, study
from ..studies.plan import SHAPES
from ..studies.selection import seed_table, study_frame
from ..studies.study_types import TextStudy
from .claims import VERDICTS, Decision, Verdict, decide_all, full_list

#: Heads of the columns of verdicts, short enough for one line.
HEADS: dict[Verdict, str] = {
    "theorem, checked on examples": "theorem",
    "measured here": "measured",
    "measured here, with limits": "limits",
    "does not hold here": "fails",
    "undecided here": "undecided",
    "needs a GPU": "GPU",
    "description": "description",
    "open": "open",
}
#: The study of sentences, and the pair that the screen shows.
SENTENCES, SENTENCE_PAIR = "cpu-static", ("weince", "infonce")
#: Measures, primary ones first, and the words for them.
MEASURES = dict(
    zip(
        (*PRIMARY_MEASURES, *SECONDARY_MEASURES),
        ("converged probe", "R@1", "paper's probe", "kNN"),
        strict=True,
    )
)


def decisions(
    names: Iterable[str] | None = None, contrasts: Sequence[Contrast] = PRIMARY_CONTRASTS
) -> pd.DataFrame:
    """The contrasts of every study that has runs to compare.

    Args:
        names: studies; by default those that have words for their data.
        contrasts: the family. Of contrasts other than the primary ones a study has those whose
            methods it has, and no others count in its family.

    Returns:
        The rows of :func:`.decide.decide_study` after two columns more: ``study``, and ``data``,
        the words for its data.
    """
    parts = []
    for name in names or [name for name, known in STUDIES.items() if known.data]:
        chosen, frame = study(name), study_frame(study(name))
        own = [
            c
            for c in contrasts
            if contrasts is PRIMARY_CONTRASTS or {c.a, c.b} <= chosen.methods.keys()
        ]
        if frame.empty or not own:
            continue
        found = decide_study(chosen, frame, own, images=test_images(chosen))
        if found["low"].isna().all():
            continue  # its runs have only begun: nothing can be compared yet
        found.insert(0, "data", chosen.data or name)
        found.insert(0, "study", name)
        parts.append(found)
    columns = ["study", "data", "metric", "role", *COLUMNS]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def test_images(chosen: Study) -> int:
    """Images of a study's test set; 0 if that is not known without reading it."""
    dataset = getattr(chosen.runs()[0].config, "dataset", "")
    return SHAPES[dataset].test if dataset in SHAPES else 0


def cells(found: pd.DataFrame, measures: Iterable[str] = tuple(MEASURES)) -> pd.DataFrame:
    """Decisions as text: one row a contrast and study, one column a measure, without ``not run``.

    Args:
        found: see :func:`decisions`.
        measures: its columns, called as in :data:`MEASURES`.
    """
    there = found[found["word"] != NOT_RUN]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    order = list(dict.fromkeys(found["contrast"]))
    for row in sorted(there.to_dict("records"), key=lambda r: order.index(r["contrast"])):
        own = rows.setdefault((row["contrast"], row["data"]), {})
        own[MEASURES.get(row["metric"], row["metric"])] = finding(row)
    columns = [MEASURES[m] for m in measures]
    index = pd.MultiIndex.from_arrays(
        [[contrast for contrast, _ in rows], [data for _, data in rows]], names=["contrast", "data"]
    )
    texts = [[own.get(column, "") for column in columns] for own in rows.values()]
    return pd.DataFrame(texts, index=index, columns=columns)


def levels(name: str) -> pd.DataFrame:
    """A study's accuracies beside its floors: one row a method or floor, one column a measure.

    Methods are those of the primary contrasts, tuned ones at the setting that validation chooses;
    then the best of all settings for each measure on its own. That one is chosen on the test set,
    so it is too high, and still shows how far the study's encoders come. Then raw pixels, an
    untrained encoder and one trained with labels, see :mod:`.floors`.

    Returns:
        Means over seeds, in percent, under the names of :data:`MEASURES`; ``negatives``, the
        effective number of negatives at the end of training, NaN where it does not apply.
    """
    chosen, frame = study(name), study_frame(study(name))
    setting = tuned(chosen, frame)
    wanted = dict.fromkeys(m for c in PRIMARY_CONTRASTS for m in (c.b, c.a))
    rows: dict[str, dict[str, float]] = {}
    count = frame["setting"].nunique()
    for metric, title in MEASURES.items():
        table = seed_table(chosen, frame, metric, setting)
        means = table.groupby("method", sort=False)[["accuracy", "negative_entropy"]].mean()
        for method in wanted:
            if method in means.index:
                label = chosen.title(method)
                if method in setting:
                    label += f" ({_temperature(chosen, method, setting[method])})"
                elif method.endswith("-tuned"):  # a screening has chosen it
                    label += f" (τ = {chosen.methods[method][0].temperature:g})"
                own = rows.setdefault(label, {})
                own[title] = float(means["accuracy"][method])
                own["negatives"] = math.exp(means["negative_entropy"][method])
        if len(means):
            best = rows.setdefault(f"best of {count} settings, on test", {})
            best[title] = means["accuracy"].max()
    floors = floor_table(chosen, MEASURES)
    for floor in floors.sort_values("kind", key=lambda k: k.map(list(KINDS).index)).to_dict(
        "records"
    ):
        rows.setdefault(floor["floor"], {})[MEASURES[floor["metric"]]] = floor["value"]
    columns = [*MEASURES.values(), "negatives"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def answer(found: pd.DataFrame, further: pd.DataFrame) -> list[tuple[str, str]]:
    """The answer in ten lines, made from the decisions: pairs of a lead and its text.

    What the contrasts say, by the primary measures and by those beside them; the further contrasts
    that took a side; the floors; what all rests on; what could have been seen; what it does not
    show.

    Args:
        found: see :func:`decisions`; must hold the primary contrasts of one study or more.
        further: the same for :data:`.decide.FURTHER_CONTRASTS`; may be empty.

    Raises:
        ValueError: for no rows.
    """
    if found.empty:
        raise ValueError("no study has rows, so that there is nothing to answer with")
    there = found[found["low"].notna()]
    primary = there[there["role"] == "primary"]
    names = [c.name for c in PRIMARY_CONTRASTS if (primary["contrast"] == c.name).any()]
    counts = {name: _count(primary[primary["contrast"] == name]) for name in names}
    shown = [("Answer", _conclusion(counts))]
    for name in names:
        shown.append((name[0].upper() + name[1:], _in_words(there[there["contrast"] == name])))
    sided = further[(further["role"] == "primary") & _took_a_side(further)]
    listed = [
        f"{r['contrast']}, {r['data']}, {MEASURES[r['metric']]}: {finding(r)}"
        for r in sided.to_dict("records")
    ]
    text = "Of the contrasts that were chosen after the first results, "
    text += f"these take a side. {'; '.join(listed)}." if listed else "none takes a side."
    shown.append(("Beyond the five", text))
    studies = list(dict.fromkeys(found["study"]))
    shown.append(("Floors", " ".join(filter(None, map(_floor_words, studies)))))
    seen = "; ".join(
        f"{data}, {MEASURES[m]}, {rows['detectable'].max():.1f}"
        for m in PRIMARY_MEASURES
        for data, rows in there[there["metric"] == m].groupby("data", sort=False)
    )
    basis: dict[str, list[str]] = {}
    for name in studies:
        basis.setdefault(_basis(name), []).append(study(name).data or name)
    text = " ".join(f"{' and '.join(own)}: {words}." for words, own in basis.items())
    text += f" True differences that are seen with a probability of 80 %, in points: {seen}. "
    text += "All speak of one set of test images each."
    shown.append(("What it rests on", text))
    text = "Encoders are small, trainings short, and all temperatures share one learning rate. "
    text += "Deep encoders, long training and the paper's data sets may answer otherwise. An "
    text += "undecided difference is not a difference of 0."
    shown.append(("What it does not show", text))
    return shown


def _count(rows: pd.DataFrame) -> Counter[str]:
    """How many decisions have each word, without a margin behind it; words in order."""
    return Counter(sorted(re.sub(r"(,| within).*", "", str(word)) for word in rows["word"]))


def _conclusion(counts: Mapping[str, Counter[str]]) -> str:
    """What the primary contrasts come to, from how many of them have which word."""
    colder, _, blend, *_ = (c.name for c in PRIMARY_CONTRASTS)
    groups: dict[str, list[str]] = {}
    for name, own in counts.items():
        where = "everywhere" if own["better"] == own.total() else "in places"
        groups.setdefault(where if own["better"] else "nowhere", []).append(name)
    words = [f"Better {where}: {'; '.join(groups[where])}." for where in sorted(groups)]
    worse = [name for name, own in counts.items() if own["worse"]]
    words += [f"Worse in places: {'; '.join(worse)}."] if worse else []
    if counts.get(blend, Counter())["better"]:
        words.insert(0, "The blend adds to a tuned temperature in places.")
    elif blend in counts and colder in groups.get("everywhere", ()):
        words.insert(
            0,
            "A sharper softmax, which a lower temperature gives, helps. That the blend adds to a "
            "tuned temperature is not shown.",
        )
    return " ".join(words)


def _in_words(rows: pd.DataFrame) -> str:
    """A contrast's primary decisions counted and listed, then secondary ones that took a side."""
    primary = rows[rows["role"] == "primary"]
    counted = ", ".join(f"{word} {n}" for word, n in _count(primary).items())
    beside = _listed(rows[(rows["role"] == "secondary") & _took_a_side(rows)])
    text = f"Of {len(primary)} comparisons: {counted}. {_listed(primary)}."
    return text + (f" Beside them: {beside}." if beside else " Beside them nothing takes a side.")


def _listed(rows: pd.DataFrame) -> str:
    return "; ".join(
        f"{r['data']} {r['difference']:+.2f} ({MEASURES[r['metric']]}, {r['word']})"
        for r in rows.to_dict("records")
    )


def _took_a_side(rows: pd.DataFrame) -> pd.Series:
    return rows["word"].str.contains("better|worse")


def _floor_words(name: str) -> str:
    """Where the study's best setting stands among its floors, on the primary measures."""
    table = levels(name)
    best = next((n for n in table.index if str(n).startswith("best of")), "")
    parts = []
    for metric in PRIMARY_MEASURES:
        column = table[MEASURES[metric]].dropna()
        if not best or best not in column or "raw pixels" not in column:
            continue
        words = [f"{MEASURES[metric]} {column[best]:.1f}"]
        words += [
            f"{n} {column[n]:.1f}" for n in ("raw pixels", "supervised encoder") if n in column
        ]
        below = " (below raw pixels)" if column[best] < column["raw pixels"] else ""
        parts.append(", ".join(words) + below)
    return f"{study(name).data or name}, the {best}: {'; '.join(parts)}." if parts else ""


def _basis(name: str) -> str:
    """Seeds of a study, and whether the rule came before its runs."""
    chosen = study(name)
    before = "rule and contrasts were fixed before the first run"
    after = "rule and contrasts were fixed after these runs and applied to them, and tuned methods "
    after += "were chosen on the same seeds"
    when = before if name in registered.registered() else after
    return f"{len(chosen.seeds)} encoder seeds; {when}"


def markdown(found: pd.DataFrame) -> str:
    """The README's table: primary contrasts on the primary measures."""
    table = cells(found, PRIMARY_MEASURES)
    head = ["", "data", *table.columns]
    lines = [" | ".join(("", *head, "")).strip(), "|---" * len(head) + "|"]
    before = ""
    for (contrast, data), row in zip(table.index, table.to_numpy().tolist(), strict=True):
        first = "" if contrast == before else contrast
        lines.append("| " + " | ".join([first, data, *row]) + " |")
        before = contrast
    return "\n".join(lines)


def _temperature(chosen: Study, method: str, label: str) -> str:
    """``τ = 0.1, one of 6``: what validation chose, and from how many settings."""
    (own,) = [s for s in chosen.methods[method] if s.label == label]
    return f"τ = {own.temperature:g}, one of {len(chosen.methods[method])}"


def lines(profile: str | None = None, claims: Path | None = None) -> list[str]:
    """The whole screen, at most 100 columns wide.

    Args:
        profile: whose table the claims read, see :func:`.claims.decide_all`.
        claims: a file to write the full list of claims to; the screen ends with its name.
    """
    decisions = decide_all(profile)
    where = "weince claims" + (f" --profile {profile}" if profile else "")
    if claims is not None:
        files.write_text(claims, "".join(f"{line}\n" for line in full_list(decisions)))
        inside = claims.absolute().is_relative_to(paths.root())
        where = str(claims.absolute().relative_to(paths.root()) if inside else claims)
    return [
        *found_lines(),
        "",
        *here_lines(),
        "",
        *verdict_lines(decisions),
        "",
        "Every claim with the paper's number, ours, its limits and its records:",
        f"  {where}",
    ]


def found_lines() -> list[str]:
    """What the committed studies say: the primary contrasts on the primary measures."""
    found = decisions()
    seeds = sorted(set(found.loc[found["seeds"] > 0, "seeds"]))
    counts = " or ".join(map(str, seeds)) or "no"
    shown = [
        "What was found in the studies of paper/results/studies: differences of test scores in "
        "points, ±",
        f"their simultaneous 95 % intervals over {counts} encoder seeds, and the word for each "
        "(notebook 12)",
        f"  {'':<19}" + "".join(f"{MEASURES[m]:<39}" for m in PRIMARY_MEASURES).rstrip(),
    ]
    names = list(dict.fromkeys(found["data"]))
    for contrast in PRIMARY_CONTRASTS:
        own = found[(found["contrast"] == contrast.name) & found["metric"].isin(PRIMARY_MEASURES)]
        own = own[own["word"] != NOT_RUN]
        shown.append(f"  {contrast.name}" + ("" if len(own) else f": {NOT_RUN}"))
        for data in names:
            by_metric = {r["metric"]: short(r) for r in own.to_dict("records") if r["data"] == data}
            if by_metric:
                row = "".join(f"{by_metric.get(m, NOT_RUN):<39}" for m in PRIMARY_MEASURES)
                shown.append(f"    {data:<17}{row.rstrip()}")
    shown += [f"  sentences: {line}" for line in _sentence_lines()]
    return shown


def short(row: Mapping[Any, Any]) -> str:
    """A decision as ``+0.09 ± 0.72, undecided``: intervals of the rule are symmetric."""
    if pd.isna(row["low"]):
        return str(row["word"])
    return f"{row['difference']:+.2f} ± {(row['high'] - row['low']) / 2:.2f}, {row['word']}"


def sentence_decisions() -> pd.DataFrame:
    """The pairs of the study of sentences, see :func:`.text_tables.sts_differences`."""
    chosen = study(SENTENCES)
    assert isinstance(chosen, TextStudy)
    return text_tables.sts_differences(chosen, study_frame(chosen))


def _sentence_lines() -> list[str]:
    rows = sentence_decisions().query("checkpoint == 'best'").to_dict("records")
    titles = study(SENTENCES).title
    return [
        f"{titles(r['method'])} minus {titles(r['against'])}, STS-B: {short(r)}"
        for r in rows
        if (r["method"], r["against"]) == SENTENCE_PAIR
    ]


def here_lines() -> list[str]:
    """What was measured on encoders trained here, beside the committed numbers."""
    beside = retrained.beside_committed()
    if not beside:
        return ["No encoder was trained here; `weince retrain` trains two and measures them."]
    shown = [
        "What was measured here, on two encoders trained here, beside the committed number of the "
        "same seed;",
        "the distance is in standard deviations of the committed numbers over "
        f"{beside[0].seeds} seeds",
        f"  {'':<46}{'here':>10}{'committed':>12}{'distance':>11}",
    ]
    for b in beside:
        digits = 2 if abs(b.committed) >= 10 else 3
        shown.append(
            f"  {b.name:<46}{b.here:>10.{digits}f}{b.committed:>12.{digits}f}{b.distance:>+11.1f}"
        )
    far = max(beside, key=lambda b: abs(b.distance))
    shown.append(f"  largest distance: {abs(far.distance):.1f} ({far.name})")
    return shown


def verdict_lines(decisions: list[Decision]) -> list[str]:
    """How many claims got each verdict, by notebook."""
    counts = Counter((d.claim.notebook, d.verdict) for d in decisions)
    total = Counter(d.verdict for d in decisions)
    # "open" has a column only where there is an open claim.
    columns = [v for v in VERDICTS if v != "open" or total[v]]
    width = {v: len(HEADS[v]) + 3 for v in columns}
    head = "".join(f"{HEADS[v]:>{width[v]}}" for v in columns)
    shown = [f"Verdicts on the paper's {len(decisions)} claims", f"  {'notebook':<24}{head}"]
    for notebook in sorted({d.claim.notebook for d in decisions}):
        row = "".join(f"{counts[notebook, v] or '·':>{width[v]}}" for v in columns)
        shown.append(f"  {notebook:<24}{row}")
    row = "".join(f"{total[v]:>{width[v]}}" for v in columns)
    return [*shown, f"  {'all':<24}{row}"]


if __name__ == "__main__":
    sys.stdout.write(markdown(decisions()) + "\n")
