"""The last screen of ``make reproduce``: what was found, what was measured here, the verdicts.

Every number is read from a table when it is printed: findings from the committed studies, which
need no run of the reader's, the rest from the profile's table and ``retrained.csv``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .. import files, paths
from ..evaluation import Interval
from . import retrained
from .claims import VERDICTS, Decision, decide_all, full_list
from .grid import study
from .selection import choose, compare, study_frame

#: The probe that converges on narrow features; why it comes first is said in notebook 12.
PROBE = "standardised_linear_accuracy"
#: What columns of the findings are called.
STUDY_NAMES = {
    "cpu-gain-fashion": "Fashion-MNIST",
    "cpu-gain-pairs": "digit pairs, 100 classes",
    "cpu-static": "STS-B",
}
_VISION = ("cpu-gain-fashion", "cpu-gain-pairs")


@dataclass(frozen=True)
class Finding:
    """A comparison of two methods, in one or two studies.

    Attributes:
        words: the comparison, for readers.
        method: of the studies.
        against: likewise, subtracted.
        studies: where it is made.
        metric: test metric, in points.
    """

    words: str
    method: str
    against: str
    studies: tuple[str, ...] = _VISION
    metric: str = PROBE


#: The five comparisons that the README's findings rest on first.
FINDINGS = (
    Finding("InfoNCE, τ = 0.2 against 0.5", "infonce-0.2", "infonce-0.5"),
    Finding("WEINCE against InfoNCE, τ = 0.5", "weince-0.5", "infonce-0.5"),
    Finding("release's loss, blend against none", "released", "infonce+both"),
    Finding("endpoint link against tuned InfoNCE", "weibit-2", "infonce-tuned"),
    Finding(
        "WEINCE against InfoNCE, sentences",
        "weince",
        "infonce",
        ("cpu-static",),
        "sts_spearman",
    ),
)


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


def differences() -> dict[tuple[str, str], Interval]:
    """The intervals behind :data:`FINDINGS`: by words and study, paired over encoder seeds.

    Studies without rows of both methods are left out.
    """
    frames = {name: study_frame(study(name)) for f in FINDINGS for name in f.studies}
    found = {}
    for f in FINDINGS:
        for name in f.studies:
            methods = study(name).methods
            a, b = (
                choose(frames[name], [s.label for s in methods[m]], f.metric)
                for m in (f.method, f.against)
            )
            pair = compare(a, b) if a and b else None
            if pair is not None:
                found[f.words, name] = pair.interval
    return found


def found_lines() -> list[str]:
    """What the committed studies say, one line a finding."""
    intervals = differences()
    seeds = sorted({i.n for i in intervals.values()})
    counts = " or ".join(map(str, seeds)) if seeds else "no"
    shown = [
        "What was found in the studies of paper/results/studies: differences of test scores in "
        "points, with",
        f"95 % intervals over {counts} encoder seeds, not adjusted for their number (images: the "
        "probe that",
        "converges; sentences: Spearman correlation)",
        f"  {'':<38}" + "".join(f"{STUDY_NAMES[name]:<30}" for name in _VISION).rstrip(),
    ]
    for f in FINDINGS:
        cells = [
            _difference(intervals[f.words, name]) if (f.words, name) in intervals else "no rows"
            for name in f.studies
        ]
        if f.studies != _VISION:  # in no column of the head
            cells = [
                f"{STUDY_NAMES[name]}: {cell}" for name, cell in zip(f.studies, cells, strict=True)
            ]
        shown.append(f"  {f.words:<38}" + "".join(f"{cell:<30}" for cell in cells).rstrip())
    return shown


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
    head = "".join(f"{name:>{len(name) + 3}}" for name in columns)
    shown = [f"Verdicts on the paper's {len(decisions)} claims", f"  {'notebook':<24}{head}"]
    for notebook in sorted({d.claim.notebook for d in decisions}):
        row = "".join(f"{counts[notebook, v] or '·':>{len(v) + 3}}" for v in columns)
        shown.append(f"  {notebook:<24}{row}")
    row = "".join(f"{total[v]:>{len(v) + 3}}" for v in columns)
    return [*shown, f"  {'all':<24}{row}"]


def _difference(interval: Interval) -> str:
    """``+0.98 [+0.70, +1.26] helps``: the word says on which side of 0 the interval lies."""
    word = "helps" if interval.low > 0 else "hurts" if interval.high < 0 else "unclear"
    return f"{interval.mean:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}] {word}"
