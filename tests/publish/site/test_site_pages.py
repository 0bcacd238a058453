"""What goes into the site: notebooks, claims and reference pages, before they are rendered."""

import base64
import re

import nbformat
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.experiments import decide_all
from weince_lib.publish import badges, notebooks
from weince_lib.publish.notebooks import NotebookError
from weince_lib.publish.site import builder, claims_page, library_pages, notebook_pages

#: The head of a PNG file 1,322 pixels wide; nothing reads further.
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x05\x2a\x00\x00").decode()

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


def code(text, *, count=1, outputs=()):
    return nbformat.v4.new_code_cell(text, execution_count=count, outputs=list(outputs))


def figure(width=None):
    metadata = {"image/png": {"width": width, "height": 9}} if width else {}
    return nbformat.v4.new_output("display_data", {"image/png": PNG}, metadata=metadata)


def test_an_unexecuted_notebook_is_named(companion):
    save(companion, code("x = 1"), code("y = 2", count=None))
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb: 1 of 2 code cells were not executed"):
        notebook_pages.page("01_tiny", [])


def test_a_missing_notebook_is_named(companion):
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb is missing; run `weince notebooks"):
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
    save(companion, code("draw()", outputs=[figure()]), markdown(below))
    with pytest.raises(NotebookError, match=r"no caption(.|\n)*draw\(\)"):
        notebook_pages.page("01_tiny", [])


@pytest.mark.parametrize(("given", "width"), [(None, "1322px"), (661, "661px")])
def test_a_figure_is_described_by_its_caption_and_keeps_its_size(companion, given, width):
    caption = "*The slope is $\\hat\\beta$;\n`x` \\*starred **bold** stays.*\n\nMore."
    save(companion, code("draw()", outputs=[figure(given)]), markdown(caption))
    page = notebook_pages.page("01_tiny", [])
    image = page.cells[0].metadata["mystnb"]["image"]
    assert image == {"alt": "The slope is β; x starred bold stays.", "width": width}


@pytest.mark.parametrize(
    ("caption", "text"),
    [
        (r"at $\lambda_i = 0.5$, $N \to \infty$", "at λ_i = 0.5, N → ∞"),
        (r"$-\log(1-s)$ and $\tfrac12$", "-log(1-s) and 1/2"),
        (r"$\frac{a}{b}$ of $\mathrm{AIC}$", "a/b of AIC"),
        (r"$\Delta\bar F$, $\varepsilon$", "Δ F, ε"),
        ("see [05](05_weince_loss.ipynb)", "see 05"),
    ],
)
def test_captions_are_spoken_without_marks(caption, text):
    assert notebook_pages.spoken(caption) == text


@pytest.mark.parametrize(
    ("target", "turned"),
    [
        ("../paper/claims.toml", "[x](../claims.md#claims-of-01-tiny)"),
        ("../weince_lib/losses/__init__.py", "[x](../library/losses.rst)"),
        ("../weince_lib/links.py", "[x](../library/links.rst)"),
        ("05_weince_loss.ipynb", "[x](05_weince_loss.ipynb)"),
        ("#part", "[x](#part)"),
        ("../paper/results/quick.csv", "x"),
    ],
)
def test_links_into_the_checkout_are_turned_to_pages(target, turned):
    assert notebook_pages.turn_links(f"see [x]({target}).", "01_tiny") == f"see {turned}."


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("x = 1", False),
        ("x = 1\n" * 21, True),
        ("import torch\n", True),
        ("record = record_checks(\n)", True),
        ("record.provenance", True),
        ("important = 1", False),
    ],
)
def test_long_code_and_chores_are_folded(companion, text, folded):
    save(companion, code(text))
    tags = notebook_pages.page("01_tiny", []).cells[0].metadata.get("tags", [])
    assert ("hide-input" in tags) is folded


def test_the_set_up_of_a_hosted_session_is_folded(companion):
    setup = code("answer = 1")
    setup.metadata["tags"] = ["setup"]
    save(companion, setup, code("answer"))
    first, second = notebook_pages.page("01_tiny", []).cells[:2]
    assert first.metadata["tags"] == ["setup", "hide-input"]
    assert "hide-input" not in second.metadata.get("tags", [])


@pytest.mark.parametrize("text", ["# 01 · A title", "# 01 · A title\n\nSome words."])
def test_badges_stay_in_the_notebook(companion, text):
    stamped = badges.with_badges(text + "\n", "01_tiny", "ada/x").rstrip("\n")
    assert "img.shields.io" in stamped
    save(companion, markdown(stamped), code("x = 1"))
    assert notebook_pages.page("01_tiny", []).cells[0].source == text


def test_a_notebook_ends_with_its_claims_and_their_verdicts():
    decisions = decide_all()
    page = notebook_pages.page("05_weince_loss", decisions)
    own = [d for d in decisions if d.claim.notebook == "05_weince_loss"]
    assert own
    rows = [r for r in page.cells[-1].source.splitlines() if r.startswith("| [")]
    assert len(rows) == len(own)
    assert all(f"#{d.claim.id})" in row for d, row in zip(own, rows, strict=True))


def test_every_claim_has_its_place_on_the_page():
    decisions = decide_all()
    text = claims_page.claims_page(decisions)
    for decision in decisions:
        assert text.count(f"({decision.claim.id})=") == 1
        assert decision.claim.statement in text
    for name in {d.claim.notebook for d in decisions} & set(notebooks.names()):
        assert f"({claims_page.anchor(name)})=" in text


def test_verdicts_are_told_apart_without_colour():
    signs = [mark.split()[0] for mark in claims_page.VERDICT_MARKS.values()]
    assert len(set(signs)) == len(signs)


def test_reference_has_every_room_and_every_exported_name():
    import weince_lib.losses as losses

    assert {"losses", "links", "evt", "diagnostics"} <= set(library_pages.rooms())
    text = library_pages.library_page("losses")
    for name in losses.__all__:
        place = f"weince_lib.losses.{name}\n" in text or f".{name}" in text
        assert place, name
    assert ".. autoclass:: weince_lib.losses.WEINCELoss\n   :members:" in text
    assert ".. autofunction:: weince_lib.losses.weince_loss" in text
    assert ".. autodata:: weince_lib.losses.evidence.PRESETS" in text


def test_reference_documents_nothing_twice():
    for room in ["", *library_pages.rooms()]:
        lines = [
            x for x in library_pages.library_page(room).splitlines() if x.startswith(".. auto")
        ]
        assert len(set(lines)) == len(lines)


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
