"""What goes into the site: notebooks and claims, before they are rendered."""

import nbformat
import pytest
from click.testing import CliRunner

from weince_lib.cli import main
from weince_lib.experiments import decide_all
from weince_lib.publish.notebooks import NotebookError
from weince_lib.publish.site import builder, notebook_pages


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
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb.*weince notebooks 01_tiny"):
        notebook_pages.page("01_tiny", [])
    save(companion, code("x = 1"), code("y = 2", count=None))
    with pytest.raises(NotebookError, match=r"01_tiny\.ipynb: 1 of 2.*weince notebooks 01_tiny"):
        notebook_pages.page("01_tiny", [])


def test_a_figure_without_a_caption_is_named(companion):
    save(companion, code("draw()", figure=True), markdown("*A caption that* goes on."))
    with pytest.raises(NotebookError, match=r"draw\(\)"):
        notebook_pages.page("01_tiny", [])


def test_a_figure_is_described_by_its_caption(companion):
    caption = "*The slope is $\\hat\\beta$;\n`x` \\*starred **bold** [stays](x.md).*\n\nMore."
    save(companion, code("draw()", figure=True), markdown(caption))
    image = notebook_pages.page("01_tiny", []).cells[0].metadata["mystnb"]["image"]
    assert image["alt"] == "The slope is hat beta; x starred bold stays."


@pytest.mark.parametrize(
    ("target", "turned"),
    [
        ("../paper/claims.toml", "[x](../claims.md#claims-of-01-tiny)"),
        ("../weince_lib/losses/__init__.py", "[x](../library/weince_lib.losses.rst)"),
        ("05_weince_loss.ipynb", "[x](05_weince_loss.ipynb)"),
        ("../paper/results/quick.csv", "x"),
    ],
)
def test_links_into_the_checkout_are_turned_to_pages(target, turned):
    assert notebook_pages.turn_links(f"see [x]({target}).", "01_tiny") == f"see {turned}."


def test_a_notebook_ends_with_its_claims_and_their_verdicts():
    decisions = decide_all()
    own = [d for d in decisions if d.claim.notebook == "05_weince_loss"]
    page = notebook_pages.page("05_weince_loss", decisions)
    rows = [r for r in page.cells[-1].source.splitlines() if r.startswith("| [")]
    assert len(rows) == len(own) > 0
    assert all(f"#{d.claim.id})" in row for d, row in zip(own, rows, strict=True))


def test_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr(builder, "NEEDED", ("json", "no_such_package"))
    done = CliRunner().invoke(main, ["site"])
    assert done.exit_code == 1
    assert "no_such_package" in done.output and "pip install" in done.output
