"""What goes into the site: notebooks and claims, before they are rendered."""

import re

import nbformat
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.experiments import decide_all
from weince_lib.publish import badges, notebooks
from weince_lib.publish.notebooks import NotebookError
from weince_lib.publish.site import builder, claims_page, notebook_pages

CLAIM = """
[[claim]]
id = "it-holds"
label = "Theorem 2"
section = "2"
notebook = "01_tiny"
statement = "It holds."
"""


@pytest.fixture
def companion(tmp_path, monkeypatch):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    monkeypatch.setenv("WEINCE_HOME", str(tmp_path))
    return tmp_path


def save(companion, *cells):
    path = companion / "notebooks" / "01_tiny.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)


def markdown(text):
    return nbformat.v4.new_markdown_cell(text)


def code(text, *, count=1, figure=False):
    size = {"image/png": {"width": 661, "height": 9}}
    shown = nbformat.v4.new_output("display_data", {"image/png": "AA=="}, metadata=size)
    return nbformat.v4.new_code_cell(text, execution_count=count, outputs=[shown] * figure)


def test_a_missing_or_unexecuted_notebook_is_named(companion):
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb is missing; run `weince notebooks"):
        notebook_pages.page("01_tiny", [])
    save(companion, code("x = 1"), code("y = 2", count=None))
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb: 1 of 2 code cells were not executed"):
        notebook_pages.page("01_tiny", [])


@pytest.mark.parametrize(
    "below",
    [
        "**Bold** is no caption.",
        "*A caption that* goes on.",
        "*A caption.* And the text goes on.",
        "*A caption.*\nAnd the text goes on.",
        "*Not closed.\n\nOther* words.",
    ],
)
def test_a_figure_without_a_caption_is_named(companion, below):
    save(companion, code("draw()", figure=True), markdown(below))
    with pytest.raises(NotebookError, match=r"no caption(.|\n)*draw\(\)"):
        notebook_pages.page("01_tiny", [])


def test_a_figure_is_described_by_its_caption_and_keeps_its_size(companion):
    caption = "*The slope is $\\hat\\beta$;\n`x` \\*starred **bold** [stays](x.md).*\n\nMore."
    save(companion, code("draw()", figure=True), markdown(caption))
    image = notebook_pages.page("01_tiny", []).cells[0].metadata["mystnb"]["image"]
    assert image == {"alt": "The slope is hat beta; x starred bold stays.", "width": "661px"}


@pytest.mark.parametrize(
    ("target", "turned"),
    [
        ("../paper/claims.toml", "[x](../claims.md#claims-of-01-tiny)"),
        ("../weince_lib/losses/__init__.py", "[x](../library/weince_lib.losses.rst)"),
        ("../weince_lib/links.py", "[x](../library/weince_lib.links.rst)"),
        ("05_weince_loss.ipynb", "[x](05_weince_loss.ipynb)"),
        ("../paper/results/quick.csv", "x"),
    ],
)
def test_links_into_the_checkout_are_turned_to_pages(target, turned):
    assert notebook_pages.turn_links(f"see [x]({target}).", "01_tiny") == f"see {turned}."


@pytest.mark.parametrize(
    ("text", "tags", "folded"),
    [
        ("x = 1", [], False),
        ("important = 1", [], False),
        ("x = 1\n" * 21, [], True),
        ("import torch\n", [], True),
        ("record = record_checks(\n)", [], True),
        ("record.provenance", [], True),
        ("answer = 1", ["setup"], True),
    ],
)
def test_long_code_and_chores_are_folded(companion, text, tags, folded):
    cell = code(text)
    cell.metadata["tags"] = tags
    save(companion, cell)
    tags = notebook_pages.page("01_tiny", []).cells[0].metadata.get("tags", [])
    assert ("hide-input" in tags) is folded


def test_badges_stay_in_the_notebook(companion):
    text = "# 01 · A title\n\nSome words."
    stamped = badges.with_badges(text + "\n", "01_tiny", "ada/x").rstrip("\n")
    save(companion, markdown(stamped), code("x = 1"))
    assert notebook_pages.page("01_tiny", []).cells[0].source == text


def test_a_notebook_ends_with_its_claims_and_their_verdicts():
    decisions = decide_all()
    own = [d for d in decisions if d.claim.notebook == "05_weince_loss"]
    page = notebook_pages.page("05_weince_loss", decisions)
    rows = [r for r in page.cells[-1].source.splitlines() if r.startswith("| [")]
    assert len(rows) == len(own) > 0
    assert all(f"#{d.claim.id})" in row for d, row in zip(own, rows, strict=True))


def test_claims_stand_under_their_question_and_the_rest_is_folded():
    decisions = decide_all()
    text = claims_page.claims_page(decisions)
    for name in notebooks.names():
        assert text.count(f"({claims_page.anchor(name)})=") == 1
    under = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    assert list(under) == list(claims_page.QUESTIONS)
    for decision in decisions:
        assert text.count(f"({decision.claim.id})=") == 1
        part = under[claims_page.question_of(decision.claim.notebook)]
        shown, _, folded = part.partition("<details>")
        place = folded if decision.verdict in claims_page.FOLDED else shown
        assert f"({decision.claim.id})=" in place
        assert decision.claim.statement in place


def test_the_page_of_claims_leads_with_what_was_found(monkeypatch):
    monkeypatch.delenv("WEINCE_RESULTS")
    text = claims_page.claims_page(decide_all())
    found = text.index("| lower temperature | CIFAR-10 (JPEG) |")
    assert text.index("## What was found") < found < text.index("\n### ")


@pytest.fixture
def unexecuted(companion):
    """A companion whose one notebook has not run, and a site that was built before."""
    source = '# %% [markdown]\n# # 01 · Tiny\n\n# %% tags=["parameters"]\nseed = 1\n'
    (companion / "notebooks" / "source" / "01_tiny.py").write_text(source)
    save(companion, code("seed = 1", count=None))
    (companion / "paper" / "reported").mkdir(parents=True)
    (companion / "paper" / "claims.toml").write_text(CLAIM)
    (companion / "paper" / "reported" / "reported.csv").write_text("table,loss,value,ci95\n")
    (companion / "runs" / "site").mkdir(parents=True)
    (companion / "runs" / "site" / "index.html").write_text("the old one")
    return companion


def test_command_names_an_unexecuted_notebook_and_keeps_the_old_site(unexecuted, monkeypatch):
    for name in ("RUNS", "RESULTS"):
        monkeypatch.delenv(f"WEINCE_{name}", raising=False)
    done = CliRunner().invoke(main, ["site"])
    assert done.exit_code == 1
    assert re.search(r"^Error: notebooks/01_tiny\.ipynb: 1 of 1 code cells", done.output)
    assert len(done.output.strip().splitlines()) == 1
    assert (unexecuted / "runs" / "site" / "index.html").read_text() == "the old one"
    assert [path.name for path in (unexecuted / "runs").iterdir()] == ["site"]


def test_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(builder, "NEEDED", ("json", "no_such_package"))
    done = CliRunner().invoke(main, ["site"])
    assert done.exit_code == 1
    assert "needs no_such_package; install them with: pip install" in done.output
