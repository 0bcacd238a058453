"""The page of claims: what was found, then the paper's claims by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...studies.decide import FURTHER_CONTRASTS
from .. import findings, notebooks
from ..claims import Decision, Verdict

#: Each verdict with a sign of its own, so that it does not hang on colour, and what it means.
VERDICT_MARKS: dict[Verdict, str] = {
    "theorem, checked on examples": "✓ theorem, checked on examples",
    "measured here": "● measured here",
    "measured here, with limits": "◐ measured here, with limits",
    "does not hold here": "✗ does not hold here",
    "undecided here": "≈ undecided here",
    "needs a GPU": "○ needs a GPU",
    "description": "· description",
    "open": "… open",
}
MEANING: dict[Verdict, str] = {
    "theorem, checked on examples": "a mathematical statement that our examples bear out",
    "measured here": "borne out as far as the claim goes",
    "measured here, with limits": "borne out on less than it speaks of; the limits are named",
    "does not hold here": "what we measured says otherwise",
    "undecided here": "our interval allows both answers; what it would take is named",
    "needs a GPU": "out of two cores' reach; what it would take is named",
    "description": "a definition or procedure of the paper; we check our own code",
    "open": "no record yet",
}
#: Verdicts that the page folds away: nothing was measured, or mathematics or our own code checked.
FOLDED: dict[Verdict, tuple[str, str]] = {
    "needs a GPU": ("claim that needs a GPU", "claims that need a GPU"),
    "theorem, checked on examples": ("theorem check", "theorem checks"),
    "description": ("description", "descriptions"),
}
THEORY = "Does the theory hold?"
#: The questions in the order of the page, each with the notebooks that answer it. A notebook that
#: stands nowhere belongs to the theory.
QUESTIONS: dict[str, tuple[str, ...]] = {
    "Does training with WEINCE help?": (
        "06_train_vision",
        "07_train_text",
        "11_tables",
        "12_what_drives_the_gain",
        "13_beyond_the_blend",
    ),
    "Do the similarities of trained encoders end at 1?": ("08_tail_evidence",),
    "Which link explains which candidate wins?": ("09_link_selection",),
    "Where do the losses push?": ("10_gradient_allocation",),
    THEORY: (),
    "What does the loss do, and what does it cost?": ("05_weince_loss",),
}


def question_of(notebook: str) -> str:
    """The question that a notebook answers."""
    return next((q for q, own in QUESTIONS.items() if notebook in own), THEORY)


def anchor(name: str) -> str:
    """Where on the page the claims of a notebook's question are."""
    return f"claims-of-{name.replace('_', '-')}"


def tally(decisions: Sequence[Decision]) -> str:
    """A table of how many claims have which verdict."""
    counts = Counter(decision.verdict for decision in decisions)
    lines = ["| verdict | claims | meaning |", "|---|---:|---|"]
    lines += [
        f"| {mark} | {counts[v]} | {MEANING[v]} |"
        for v, mark in VERDICT_MARKS.items()
        if counts[v] or v != "open"
    ]
    return "\n".join(lines)


def claims_page(decisions: Sequence[Decision]) -> str:
    """The claims page in MyST markdown.

    Each claim has its id as an anchor, and each notebook that of its question.
    """
    parts = ["# The paper's claims", *_found(), "## The claims by question"]
    parts.append(
        "Each claim is told in our own words, with the paper's number, ours with its 95 % "
        "interval, and a verdict by a stated rule. A verdict is about the data "
        "set, encoder and seeds named beside it, never about more."
    )
    parts.append(tally(decisions))
    for question in QUESTIONS:
        parts += [f"({anchor(n)})=" for n in notebooks.names() if question_of(n) == question]
        parts.append(f"### {question}")
        asked = [d for d in decisions if question_of(d.claim.notebook) == question]
        parts += [_entry(d) for d in asked if d.verdict not in FOLDED]
        for verdict, (one, more) in FOLDED.items():
            folded = [_entry(d) for d in asked if d.verdict == verdict]
            if folded:
                count = f"{len(folded)} {more if len(folded) > 1 else one}"
                parts.append(_html(f"<details><summary>{count}</summary>"))
                parts += [*folded, _html("</details>")]
    return "\n\n".join(parts) + "\n"


def _found() -> list[str]:
    """What the studies found: the answer in words, then the decisive table."""
    found = findings.decisions()
    if found.empty:
        return []
    said = dict(findings.answer(found, findings.decisions(contrasts=FURTHER_CONTRASTS)))
    return [
        "## What was found",
        said["Answer"],
        "Differences of test scores in points, each with its simultaneous 95 % interval and the "
        "word that one rule gives it:",
        findings.markdown(found),
        f"{said['What it rests on']} {said['What it does not show']}",
    ]


def _html(text: str) -> str:
    return f"```{{raw}} html\n{text}\n```"


def _entry(decision: Decision) -> str:
    claim = decision.claim
    facts = [
        ("Paper", decision.paper),
        ("Ours", f"{decision.ours} ({decision.evidence})" if decision.ours else ""),
        ("Limits", decision.limits),
        ("Needs", decision.needs),
        ("Doubt", claim.doubt),
        ("Records", _records(decision.records)),
    ]
    if claim.notebook in notebooks.names():
        link = f"[{notebooks.title(claim.notebook)}](notebooks/{claim.notebook}.ipynb)"
        facts.append(("Notebook", link))
    # A definition list of the facts, in a box whose edge shows the verdict.
    style = decision.verdict.replace(",", "").replace(" ", "-")
    lines = [f"({claim.id})=", f"::::{{container}} claim {style}"]
    lines += [f"**{claim.label}** · {VERDICT_MARKS[decision.verdict]}", "", claim.statement, ""]
    for label, text in facts:
        if text:
            lines += [label, f": {text}".replace("\n", " "), ""]
    return "\n".join([*lines, "::::"])


def _records(keys: Sequence[str]) -> str:
    """The first four keys; `weince claims` prints them all."""
    shown = ", ".join(f"`{key}`" for key in keys[:4])
    return f"{shown} and {len(keys) - 4} more" if len(keys) > 4 else shown
