"""The page of claims: what the paper says, what we measured, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .. import notebooks
from ..claims import Decision, Verdict
from ..reading import title

#: Each verdict with a sign of its own, so that it does not hang on colour.
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


def anchor(name: str) -> str:
    """Where on the page a notebook's claims are listed."""
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

    Each claim has its id as an anchor, and each notebook the list of its claims.
    """
    parts = [
        "# The paper's claims",
        "Each claim is told in our own words, with the paper's number, ours with its 95 % "
        "interval, and a verdict by a stated rule. A verdict is about the data "
        "set, encoder and seeds named beside it, never about more.",
        tally(decisions),
        "## By notebook",
    ]
    for name in notebooks.names():
        own = [d for d in decisions if d.claim.notebook == name]
        if own:
            parts.append(f"({anchor(name)})=\n### [{title(name)}](notebooks/{name}.ipynb)")
            parts.append("\n".join(
                f"- {VERDICT_MARKS[d.verdict]}: [{d.claim.label}](#{d.claim.id}), "
                f"{_brief(d.claim.statement)}" for d in own))  # fmt: skip
    parts.append("## In the paper's order")
    section = None
    for decision in decisions:
        if decision.claim.section != section:
            section = decision.claim.section
            parts.append(f"### {_section(section)}")
        parts.append(_entry(decision))
    return "\n\n".join(parts) + "\n"


def _entry(decision: Decision) -> str:
    claim = decision.claim
    facts = [
        ("Paper", decision.paper),
        ("Ours", f"{decision.ours} ({decision.evidence})" if decision.ours else ""),
        ("Limits", decision.limits),
        ("Needs", decision.needs),
        ("Doubt", claim.doubt),
        ("Records", ", ".join(f"`{key}`" for key in decision.records)),
    ]
    known = notebooks.names()
    if claim.notebook in known:
        link = f"[{title(claim.notebook)}](notebooks/{claim.notebook}.ipynb)"
        facts.append(("Notebook", link))
    # A definition list of the facts, in a box whose edge shows the verdict.
    lines = [f"({claim.id})=", f"::::{{container}} claim {_slug(decision.verdict)}"]
    lines += [f"**{claim.label}** · {VERDICT_MARKS[decision.verdict]}", "", claim.statement, ""]
    for label, text in facts:
        if text:
            lines += [label, f": {text}".replace("\n", " "), ""]
    return "\n".join([*lines, "::::"])


def _slug(verdict: Verdict) -> str:
    """The verdict as the name of a style."""
    return verdict.replace(",", "").replace(" ", "-")


def _section(section: str) -> str:
    return f"Appendix {section}" if section[:1].isalpha() else f"Section {section}"


def _brief(statement: str) -> str:
    """The beginning of a statement, cut at a word."""
    text = " ".join(statement.split())
    return text if len(text) <= 110 else text[:110].rsplit(" ", 1)[0] + " …"
